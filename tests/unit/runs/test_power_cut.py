"""The power of a real file system is cut: ext4 on a loop device, shut down in each operation of a checkpoint.

It needs a machine that lets a process mount a loop device; elsewhere the model of a disk in `test_faults` has to do.
"""

import errno
import fcntl
import os
import shutil
import struct
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import RecollectWarning, StorageError
from recollect.runs import RunDirectory
from recollect.runs.checkpointing.saving import save_training
from tests.faulty_disk import WatchedOS, on_disk
from tests.unit.runs.test_faults import Moment, begin, resume

# FS_IOC_SHUTDOWN of Linux, and what it is given: the journal is written out first, or not.
SHUTDOWN = 0x8004587D
WITH_JOURNAL, WITHOUT_JOURNAL = 1, 2
IMAGE_BYTES = 64 << 20


def run_as_root(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


class Device:
    """An ext4 file system in a file, which can lose its power.

    Parameters
    ----------
    folder : Path
        Where its file and its mount point are.
    """

    def __init__(self, folder: Path) -> None:
        image, self.mount_point = folder / "image", folder / "mounted"
        self.mount_point.mkdir()
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        run_as_root("mkfs.ext4", "-q", str(image))
        self.loop = run_as_root("losetup", "--find", "--show", str(image))
        try:
            self.mount()
        except subprocess.CalledProcessError:
            run_as_root("losetup", "--detach", self.loop)
            raise

    def mount(self) -> None:
        run_as_root("mount", "-t", "ext4", self.loop, str(self.mount_point))

    def cut_power(self, flags: int) -> None:
        """Nothing is written from now on, and what was not on the device yet is lost."""
        descriptor = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", flags))
        finally:
            os.close(descriptor)

    def restart(self) -> None:
        """Mount it again, as a machine does that has its power back."""
        run_as_root("umount", str(self.mount_point))
        self.mount()

    def close(self) -> None:
        run_as_root("umount", str(self.mount_point))
        run_as_root("losetup", "--detach", self.loop)


class PoweredOS(WatchedOS):
    """Cuts the power of a device right before the operation of a number; this and all later ones fail."""

    def __init__(self, device: Device, number: int, flags: int) -> None:
        super().__init__()
        self.device, self.number, self.flags = device, number, flags

    def change(self, name: str, function: Any, *args: Any, **kwargs: Any) -> Any:
        if len(self.calls) == self.number + 1:
            self.device.cut_power(self.flags)
        if len(self.calls) > self.number:
            raise OSError(errno.EIO, "Input/output error")
        return function(*args, **kwargs)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    try:
        made = Device(tmp_path)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no loop device can be mounted here: {error}")
    try:
        yield made
    finally:
        made.close()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:old checkpoints stay")
@pytest.mark.parametrize("flags", [WITH_JOURNAL, WITHOUT_JOURNAL], ids=["with journal", "without journal"])
def test_a_power_cut_of_a_device_leaves_weights_and_replay_of_one_moment(
    flags: int, device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, _, before = begin(tmp_path / "run")
    after, run, number, found = Moment(learner), device.mount_point / "run", 0, []
    while not found or found[-1] != "saved":
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(tmp_path / "run", run)
        os.sync()
        is_saved = save_until(PoweredOS(device, number, flags), run, learner, monkeypatch)
        if is_saved:
            device.cut_power(flags)
        device.restart()
        moment = resume_copy(run, tmp_path / f"copy-{number}")
        assert moment.is_of(after) or (moment.is_of(before) and not is_saved), number
        found.append("saved" if is_saved else "after" if moment.is_of(after) else "before")
        number += 1
    assert found[0] == "before"
    assert number > 30


def save_until(faulty: PoweredOS, run: Path, learner: Any, patch: pytest.MonkeyPatch) -> bool:
    """Write a checkpoint on a disk that loses its power; whether all of it was written before."""
    on_disk(faulty, patch)
    try:
        save_training(RunDirectory(run), learner.scheme, 0.0)
    except StorageError:
        pass
    finally:
        patch.undo()
    return len(faulty.calls) <= faulty.number


def resume_copy(run: Path, target: Path) -> Moment:
    """Resume what a power cut has left, elsewhere, so that nothing of the device stays open."""
    shutil.copytree(run, target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecollectWarning)
        moment = resume(target)
    shutil.rmtree(target)
    return moment


@pytest.mark.long
def test_a_device_loses_what_was_not_synced(device: Device) -> None:
    for name in ("synced", "lost"):
        with (device.mount_point / name).open("wb") as file:
            file.write(b"content")
            if name == "synced":
                file.flush()
                os.fsync(file.fileno())
    descriptor = os.open(device.mount_point, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    device.cut_power(WITHOUT_JOURNAL)
    device.restart()
    assert (device.mount_point / "synced").read_bytes() == b"content"
    lost = device.mount_point / "lost"
    assert not lost.exists() or lost.read_bytes() != b"content", "the device stands for one that loses its power"
