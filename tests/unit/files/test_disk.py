"""The file layer: whole files that survive a power cut, and nothing but regular files."""

import errno
import os
from pathlib import Path

import pytest

from recollect.errors import StorageError
from recollect.files import disk
from recollect.files.disk import append_file, read_file, remove_folder, seal, write_file, write_new_file
from tests.faulty_disk import FailingOS, Killed, PowerCutOS, on_disk, restore

OLD, NEW = b"old" * 100, b"new" * 200


@pytest.mark.parametrize("tears", [False, True])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), Killed()], ids=["full", "killed"])
@pytest.mark.parametrize("write", [write_file, write_new_file])
def test_a_file_is_the_old_or_the_new_one_wherever_writing_stops(
    write: object, error: BaseException, tears: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(write)
    is_new = write is write_new_file
    for number in range(20):
        path = tmp_path / f"file{number}"
        if not is_new:
            path.write_bytes(OLD)
        faulty = FailingOS(number, error, tears=tears)
        on_disk(faulty, monkeypatch)
        try:
            write(path, NEW)
        except (OSError, Killed):
            found = path.read_bytes() if path.exists() else None
            assert found in ((None, NEW) if is_new else (OLD, NEW))
        else:
            assert path.read_bytes() == NEW
            assert number >= 5
            return
        finally:
            monkeypatch.undo()
        if isinstance(error, OSError):
            assert not path.with_name(path.name + ".partial").exists()
    raise AssertionError("writing never succeeded")


@pytest.mark.parametrize("write", [write_file, write_new_file])
def test_a_file_is_the_old_or_the_new_one_after_a_power_cut(
    write: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(write)
    here = tmp_path / "here"
    here.mkdir()
    if write is write_file:
        (here / "file").write_bytes(OLD)
    faulty = PowerCutOS(here)
    on_disk(faulty, monkeypatch)
    write(here / "file", NEW)
    monkeypatch.undo()
    found = [restore(state, tmp_path / str(number)) / "file" for number, state in enumerate(faulty.states)]
    contents = [path.read_bytes() if path.exists() else None for path in found]
    assert set(contents) == {OLD if write is write_file else None, NEW}
    assert faulty.what_lasts() == {"file": NEW}, "once it is written, it lasts"


def test_of_two_that_make_the_same_file_one_gets_it(tmp_path: Path) -> None:
    write_new_file(tmp_path / "file", OLD)
    with pytest.raises(FileExistsError):
        write_new_file(tmp_path / "file", NEW)
    assert (tmp_path / "file").read_bytes() == OLD
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_system_without_links_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(disk.os, "link", refuse)
    write_new_file(tmp_path / "file", NEW)
    with pytest.raises(FileExistsError):
        write_new_file(tmp_path / "file", OLD)
    assert (tmp_path / "file").read_bytes() == NEW


def test_writing_replaces_links_and_follows_none(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(OLD)
    for name in ("file", "file.partial"):
        (tmp_path / name).symlink_to(victim)
    write_file(tmp_path / "file", NEW)
    assert not (tmp_path / "file").is_symlink()
    (tmp_path / "log").symlink_to(victim)
    with pytest.raises(OSError, match=r"symbolic links|Too many"):
        append_file(tmp_path / "log", NEW)
    assert victim.read_bytes() == OLD


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(OLD)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "link", tmp_path / "pipe", tmp_path / "folder", Path("/dev/zero")):
        with pytest.raises(StorageError, match="no regular file"):
            read_file(path)
    os.mkfifo(tmp_path / "log")
    with pytest.raises((OSError, StorageError)):
        append_file(tmp_path / "log", NEW)


def test_what_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(StorageError, match="4,398,046,511,104 bytes"):
        read_file(tmp_path / "sparse")
    (tmp_path / "small").write_bytes(OLD)
    with pytest.raises(StorageError, match="at most 10 are read"):
        read_file(tmp_path / "small", 10)
    assert read_file(tmp_path / "small", len(OLD)) == OLD


@pytest.mark.parametrize("damaged", [OLD[:-1], b"x" + OLD[1:], b"", None])
def test_a_file_that_is_not_what_was_written_is_told(damaged: bytes | None, tmp_path: Path) -> None:
    path, expected = tmp_path / "file", seal(OLD)
    path.write_bytes(OLD)
    assert disk.read_sealed(path, expected) == OLD
    disk.check_sealed(path, expected)
    path.unlink()
    if damaged is not None:
        path.write_bytes(damaged)
    for check in (disk.read_sealed, disk.check_sealed):
        with pytest.raises(StorageError, match="is missing" if damaged is None else "is damaged"):
            check(path, expected)


def test_a_folder_is_removed_without_what_its_links_lead_to(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.mkdir()
    (victim / "file").write_bytes(OLD)
    folder.mkdir()
    (folder / "link").symlink_to(victim)
    (folder / "first").write_bytes(OLD)
    remove_folder(folder, first="first")
    assert not folder.exists()
    assert (victim / "file").read_bytes() == OLD
