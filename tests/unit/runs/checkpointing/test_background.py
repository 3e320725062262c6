"""Checkpoints that are written beside the training are those of the moment at which they were taken."""

import errno
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect import metrics
from recollect.callbacks import Callback, SaveEvery
from recollect.errors import RecollectWarning, StorageError
from recollect.learner import Learner
from recollect.runs import RunDirectory
from recollect.runs.checkpointing import saving
from recollect.runs.checkpointing.background import BackgroundWriter
from recollect.runs.checkpointing.pace import CheckpointPace
from tests.faulty_disk import FailingOS, on_disk
from tests.schemes import make_scheme
from tests.unit.runs.test_exact_resume import leaves
from tests.unit.runs.test_faults import train
from tests.zygote import leave

KINDS = [("ddqn", "ere"), ("sac", "per"), ("ppo", "gae")]


class SlowDisk:
    """Keeps checkpoints from being written until it is told to let them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.may_write, self.has_begun = threading.Event(), threading.Event()
        self.may_write.set()
        write = saving.CapturedTraining.write

        def wait_and_write(captured: saving.CapturedTraining) -> Path:
            self.has_begun.set()
            assert self.may_write.wait(60)
            return write(captured)

        patch.setattr(saving.CapturedTraining, "write", wait_and_write)

    def block(self) -> None:
        """Let the next checkpoint wait."""
        self.may_write.clear()
        self.has_begun.clear()


def wait_until_written() -> None:
    """Wait for the thread that writes a checkpoint."""
    for thread in threading.enumerate():
        if thread.name == "checkpoint":
            thread.join(60)


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    disk = SlowDisk(monkeypatch)
    yield disk
    disk.may_write.set()


def steps_of(folder: Path) -> list[int]:
    return [int(path.name.rpartition("-")[2]) for path in RunDirectory.open(folder).checkpoints.paths()]


def state_of(learner: Learner) -> dict[str, np.ndarray]:
    scheme = learner.scheme
    parts = {"actor": scheme.actor.state_dict(), "state": scheme.state(), "callbacks": learner.callback_states()}
    found = leaves("", {**parts, "stored": scheme.storage.get_all_buffer_data()})
    return {path: values.copy() for path, values in found}


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for path, values in expected.items():
        np.testing.assert_array_equal(found[path], values, err_msg=path)


class Tally(Callback):
    """Keeps a list that grows in place, as callbacks may."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def on_step(self, learner: Learner) -> None:
        self.steps.append(learner.num_steps)

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state(self, state: Any) -> None:
        self.steps = list(state["steps"])


@pytest.mark.parametrize(("algo", "storage"), KINDS)
def test_what_is_written_later_is_what_was_there_when_it_was_due(
    algo: str, storage: str, tmp_path: Path, slow_disk: SlowDisk
) -> None:
    """Were any tensor, list or step not copied, the training would change it before it is written."""
    learner = Learner(make_scheme(algo, storage), 240, tmp_path, checkpoint_every=80, callbacks=[Tally()])
    train(learner, 40)
    slow_disk.block()
    train(learner, 80)
    assert slow_disk.has_begun.wait(60)
    taken = state_of(learner)
    train(learner, 160)
    slow_disk.may_write.set()
    learner.close()
    assert steps_of(tmp_path)[-1] == 80
    resumed = Learner(make_scheme(algo, storage), 240, tmp_path, callbacks=[Tally()], resume=True)
    assert_same(state_of(resumed), taken)
    train(resumed, 160)
    assert_same(state_of(resumed), state_of(learner))
    resumed.close()


def test_one_that_comes_due_while_another_is_written_waits_for_it(tmp_path: Path, slow_disk: SlowDisk) -> None:
    told: list[str] = []

    class Listener(Callback):
        def on_checkpoint(self, learner: Learner, path: Path) -> None:
            told.append(f"{path.name} at {learner.num_steps}")

    learner = Learner(make_scheme(), 400, tmp_path, checkpoint_every=16, callbacks=[Listener()], keep_checkpoints=9)
    train(learner, 8)
    slow_disk.block()
    train(learner, 64)
    assert (steps_of(tmp_path), told) == ([0], []), "those of 32, 48 and 64 steps wait"
    slow_disk.may_write.set()
    wait_until_written()
    train(learner, 72)
    wait_until_written()
    assert steps_of(tmp_path) == [0, 16, 72], "and are one, as soon as the first is whole"
    learner.close()
    assert told == ["000001-step-16 at 72", "000002-step-72 at 72"]


def test_saving_waits_for_what_is_being_written(tmp_path: Path, slow_disk: SlowDisk) -> None:
    learner = Learner(make_scheme(), 400, tmp_path, checkpoint_every=40)
    train(learner, 32)
    slow_disk.block()
    train(learner, 48)
    threading.Timer(0.2, slow_disk.may_write.set).start()
    assert learner.save_checkpoint().name == "000002-step-48"
    assert steps_of(tmp_path) == [40, 48]
    learner.close()


def test_a_run_that_is_closed_has_written_its_last_checkpoint(tmp_path: Path, slow_disk: SlowDisk) -> None:
    learner = Learner(make_scheme(), 400, tmp_path, checkpoint_every=40)
    train(learner, 32)
    slow_disk.block()
    train(learner, 48)
    threading.Timer(0.2, slow_disk.may_write.set).start()
    learner.close()
    assert steps_of(tmp_path)[-1] == 40


def test_a_failure_is_a_warning_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner(make_scheme(), 800, tmp_path, checkpoint_every=40)
    train(learner, 32)
    on_disk(FailingOS(0, OSError(errno.ENOSPC, "No space left on device")), monkeypatch)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        train(learner, 40)
        wait_until_written()
        train(learner, 48)
        wait_until_written()
    monkeypatch.undo()
    assert any("No space left on device" in str(each.message) for each in told if each.category is RecollectWarning)
    assert learner.get_metrics()[metrics.FAILED_WRITES] >= 1
    assert steps_of(tmp_path) == [0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecollectWarning)
        train(learner, 64)
        learner.close()
    assert 48 <= steps_of(tmp_path)[-1] <= 64, "long before 80 steps"


def test_how_long_the_training_stood_still_is_a_metric(tmp_path: Path, slow_disk: SlowDisk) -> None:
    learner = Learner(make_scheme(), 400, tmp_path, checkpoint_every=40, log_every=8)
    train(learner, 32)
    assert metrics.CHECKPOINT_STALL_MS not in learner.get_metrics()
    slow_disk.block()
    train(learner, 48)
    assert learner.get_metrics()[metrics.CHECKPOINT_STALL_MS] > 0
    threading.Timer(0.2, slow_disk.may_write.set).start()
    learner.close()
    found = learner.get_metrics()
    assert found[metrics.CHECKPOINT_WRITE_S] >= 0.1
    assert found[metrics.CHECKPOINT_STALL_MS] < 1e3 * found[metrics.CHECKPOINT_WRITE_S]


@pytest.mark.slow
def test_a_process_that_ends_waits_for_its_last_checkpoint(tmp_path: Path) -> None:
    program = f"""
import time
from recollect.runs.checkpointing import saving
from recollect.learner import Learner
from tests.schemes import make_scheme
write = saving.CapturedTraining.write
def slowly(captured):
    time.sleep(1.0)
    return write(captured)
learner = Learner(make_scheme(), 400, {str(tmp_path)!r}, config={{"seed": 1}}, checkpoint_every=40)
learner.step()
saving.CapturedTraining.write = slowly
while learner.num_steps < 48:
    learner.step()
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[4])
    assert steps_of(tmp_path)[-1] == 40


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_that_is_forked_meanwhile_can_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun, may_write = threading.Event(), threading.Event()
    find = saving.Replay.find

    def find_slowly(*args: Any) -> Any:
        has_begun.set()
        assert may_write.wait(60)
        return find(*args)

    learner = Learner(make_scheme(), 400, tmp_path / "run", checkpoint_every=40)
    train(learner, 32)
    monkeypatch.setattr(saving.Replay, "find", find_slowly)
    train(learner, 40)
    assert has_begun.wait(60), "the thread is in the middle of it, and has the lock"
    writer = BackgroundWriter()
    writer.begin(lambda: tmp_path if may_write.wait(60) else Path())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            monkeypatch.undo()
            saving.save_training(RunDirectory.create(tmp_path / "child"), learner.scheme, 0.0)
            writer.wait()
            code = int(writer.is_busy or writer.take() is not None)
        finally:
            leave(code)
    assert os.waitpid(child, 0)[1] == 0
    may_write.set()
    writer.wait()
    assert writer.take() == tmp_path
    learner.close()
    assert (steps_of(tmp_path / "run")[-1], steps_of(tmp_path / "child")) == (40, [40])


def test_without_threads_a_checkpoint_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    writer = BackgroundWriter()
    writer.begin(lambda: Path("here"))
    assert (writer.is_busy, writer.has_result, writer.take(), writer.take()) == (False, True, Path("here"), None)


@pytest.mark.parametrize("is_inline", [False, True])
def test_an_error_of_the_writer_is_that_of_who_takes_it(is_inline: bool) -> None:
    def fail() -> Path:
        raise StorageError("no room")

    writer = BackgroundWriter(is_inline=is_inline)
    writer.begin(fail)
    writer.wait()
    with pytest.raises(StorageError, match="no room"):
        writer.take()
    assert not writer.has_result


class Clock:
    """Time that passes when it is told to."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("recollect.runs.checkpointing.pace.time", clock)
    return clock


def test_checkpoints_come_by_time_as_well_as_by_steps(clock: Clock, tmp_path: Path) -> None:
    options: dict[str, Any] = {"keep_checkpoints": 9, "background_checkpoints": False}
    learner = Learner(make_scheme(), 400, tmp_path, checkpoint_every=64, checkpoint_minutes=2, **options)
    train(learner, 16)
    clock.now += 119
    train(learner, 24)
    clock.now += 1
    train(learner, 48)
    assert steps_of(tmp_path) == [0, 32], "two minutes after the first"
    clock.now += 60
    train(learner, 64)
    clock.now += 119
    train(learner, 80)
    assert steps_of(tmp_path) == [0, 32, 64], "two minutes are counted from the last one"
    clock.now += 1
    train(learner, 88)
    assert steps_of(tmp_path) == [0, 32, 64, 88]
    learner.close()


def test_a_failed_one_is_due_again_soon(clock: Clock) -> None:
    pace = CheckpointPace(1000, 10)
    pace.begin(0)
    pace.retry(500)
    assert (pace.is_due(599), pace.is_due(600)) == (False, True)
    clock.now += 60
    assert pace.is_due(501)


def test_old_checkpoints_are_removed_by_number_and_by_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr("recollect.runs.checkpointing.checkpoints.time.time", lambda: now)
    options: dict[str, Any] = {"checkpoint_every": 8, "background_checkpoints": False}
    learner = Learner(make_scheme(), 400, tmp_path, keep_checkpoints=3, keep_checkpoint_days=0.5, **options)
    train(learner, 32)
    assert steps_of(tmp_path) == [16, 24, 32]
    now += 86_400 / 4
    train(learner, 40)
    assert steps_of(tmp_path) == [24, 32, 40]
    now += 86_400 / 3
    train(learner, 48)
    assert steps_of(tmp_path) == [40, 48]
    now += 86_400
    train(learner, 56)
    assert steps_of(tmp_path) == [56], "the newest always stays"
    learner.close()


@pytest.mark.parametrize(
    "option", [{"checkpoint_minutes": 0}, {"keep_checkpoints": 0}, {"keep_checkpoint_days": -1}], ids=str
)
def test_what_cannot_be_is_refused_before_anything_is_made(option: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        Learner(make_scheme(), 400, tmp_path / "run", **option)
    assert not (tmp_path / "run").exists()


def test_a_callback_that_asks_for_checkpoints_does_not_wait_for_them(tmp_path: Path, slow_disk: SlowDisk) -> None:
    learner = Learner(make_scheme(), 400, tmp_path, checkpoint_every=1000, callbacks=[SaveEvery(20)])
    train(learner, 16)
    slow_disk.block()
    train(learner, 32)
    assert steps_of(tmp_path) == [0]
    slow_disk.may_write.set()
    learner.close()
    assert steps_of(tmp_path) == [0, 24]
