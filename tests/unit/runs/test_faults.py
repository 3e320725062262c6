"""Whenever a run is stopped, loses power or has a full disk, it resumes with weights and replay of one moment."""

import errno
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from recollect import Agent, keys, metrics
from recollect.errors import RecollectError, RecollectWarning, StorageError
from recollect.learner import Learner
from recollect.runs import RunDirectory
from recollect.runs.checkpointing.commit import read_commit
from recollect.runs.checkpointing.saving import save_training
from recollect.runs.writers import read_rows
from tests.faulty_disk import FailingOS, Killed, PowerCutOS, on_disk, restore
from tests.reference import flatten, same_bits
from tests.schemes import make_scheme

FULL = OSError(errno.ENOSPC, "No space left on device")
# Of the operations of a checkpoint, those that the short form tries.
EVERY = 1 if os.environ.get("RECOLLECT_LONG") else 5


class Moment:
    """What a run was at one moment: weights, number of updates and replay."""

    def __init__(self, learner: Learner) -> None:
        scheme = learner.scheme
        self.num_steps, self.num_updates = learner.num_steps, learner.num_updates
        self.weights = {name: weight.clone() for name, weight in scheme.actor.state_dict().items()}
        has_steps = scheme.storage.store.is_built
        self.stored = flatten(scheme.storage.get_all_buffer_data()) if has_steps else {}
        self.stored.pop(keys.CUT, None)  # a resumed run begins new episodes

    def is_of(self, other: "Moment") -> bool:
        return (
            (self.num_steps, self.num_updates) == (other.num_steps, other.num_updates)
            and all(torch.equal(weight, other.weights[name]) for name, weight in self.weights.items())
            and self.stored.keys() == other.stored.keys()
            and all(same_bits(values, other.stored[path]) for path, values in self.stored.items())
        )


def resume(folder: Path) -> Moment:
    learner = Learner(make_scheme(), 400, folder, resume=True)
    try:
        return Moment(learner)
    finally:
        learner.stop()


def train(learner: Learner, num_steps: int) -> None:
    while learner.num_steps < num_steps:
        learner.step()


def begin(folder: Path) -> tuple[Learner, Moment, Moment]:
    """A run with two checkpoints, so that the next one removes the first; and what it was at both."""
    learner = Learner(make_scheme(), 400, folder, config={"seed": 1}, checkpoint_every=1000)
    moments = []
    for num_steps in (40, 80):
        train(learner, num_steps)
        learner.save_checkpoint()
        moments.append(Moment(learner))
    train(learner, 120)
    return learner, moments[0], moments[1]


def put_back(before: Path, folder: Path) -> None:
    """Have the files of a run as they were."""
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    shutil.copytree(before, folder, dirs_exist_ok=True)


@pytest.mark.parametrize("error", [FULL, Killed()], ids=["full", "killed"])
@pytest.mark.filterwarnings("ignore:old checkpoints stay")
def test_a_checkpoint_that_stops_anywhere_leaves_weights_and_replay_of_one_moment(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    learner, _, before = begin(folder)
    after, number = Moment(learner), 0
    shutil.copytree(folder, tmp_path / "before")
    while True:
        put_back(tmp_path / "before", folder)
        faulty = FailingOS(number, error, tears=number % 2 == 0)
        on_disk(faulty, monkeypatch)
        try:
            save_training(learner.folder, learner.scheme, 0.0)
        except (StorageError, Killed):
            pass
        finally:
            monkeypatch.undo()
        if len(faulty.calls) <= number:
            break
        found = resume(folder)
        assert found.is_of(before) or found.is_of(after), number
        number += EVERY
    assert number > 30
    assert resume(folder).is_of(after)


def test_a_power_cut_leaves_weights_and_replay_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, _, before = begin(tmp_path / "run")
    after = Moment(learner)
    faulty = PowerCutOS(tmp_path / "run")
    on_disk(faulty, monkeypatch)
    learner.save_checkpoint()
    monkeypatch.undo()
    assert len(faulty.states) > 30
    found = []
    for number, state in enumerate(faulty.states[::-EVERY][::-1]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecollectWarning)
            moment = resume(restore(state, tmp_path / str(number)))
        assert moment.is_of(before) or moment.is_of(after), number
        found.append(moment.num_steps)
    assert found == sorted(found), "what was committed stays"
    assert found[-1] == after.num_steps


def test_a_power_cut_as_a_run_begins_leaves_a_run_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    faulty = PowerCutOS(tmp_path / "runs")
    on_disk(faulty, monkeypatch)
    learner = Learner(make_scheme(), 400, tmp_path / "runs" / "run", config={"seed": 1}, checkpoint_every=1000)
    start = Moment(learner)
    learner.step()
    monkeypatch.undo()
    num_runs = 0
    for number, state in enumerate(faulty.states):
        folder = restore(state, tmp_path / str(number)) / "run"
        if not RunDirectory(folder).exists:
            assert not num_runs
            continue
        num_runs += 1
        assert resume(folder).is_of(start)
    assert num_runs > 5


def test_a_replay_is_not_mixed_up_with_that_of_another_checkpoint(tmp_path: Path) -> None:
    learner, first, second = begin(tmp_path)
    run = learner.folder
    paths = run.checkpoints.paths()
    names = [read_commit(path).replay.name for path in paths]  # type: ignore[union-attr]
    manifests = [run.storage_folder / f"manifest-{name}.json" for name in names]
    newest = manifests[1].read_bytes()
    manifests[1].write_bytes(manifests[0].read_bytes())
    with pytest.warns(RecollectWarning, match=f"{paths[1].name} is skipped: {manifests[1]} is damaged"):
        assert resume(tmp_path).is_of(first)
    manifests[1].unlink()
    with pytest.warns(RecollectWarning, match=f"{paths[1].name} is skipped: {manifests[1]} is missing"):
        assert resume(tmp_path).is_of(first)
    manifests[1].write_bytes(newest)
    assert resume(tmp_path).is_of(second)
    for manifest in manifests:
        manifest.unlink()
    with pytest.raises(StorageError, match=r"no checkpoint in .* is whole"):
        resume(tmp_path)


def test_a_run_that_was_killed_before_its_first_checkpoint_starts_again(tmp_path: Path) -> None:
    learner = Learner(make_scheme(), 400, tmp_path, config={"seed": 1})
    start = Moment(learner)
    learner.close()
    assert not RunDirectory.open(tmp_path).checkpoints.paths()
    assert resume(tmp_path).is_of(start)


def test_a_checkpoint_is_there_before_anything_is_learned(tmp_path: Path) -> None:
    learner = Learner(make_scheme(), 400, tmp_path, config={"seed": 1}, checkpoint_every=1000)
    start = Moment(learner)
    train(learner, 60)
    learner.close()
    assert [path.name for path in RunDirectory.open(tmp_path).checkpoints.paths()] == ["000000-step-0"]
    assert resume(tmp_path).is_of(start)


def test_a_disk_that_is_full_for_a_while_is_a_warning_and_a_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"log_every": 8, "checkpoint_every": 16, "background_checkpoints": False}
    learner = Learner(make_scheme(), 400, tmp_path, config={"seed": 1}, **options)
    train(learner, 24)
    on_disk(FailingOS(0, FULL), monkeypatch)
    with pytest.warns(RecollectWarning, match=r"No space left on device.*; the run continues, and tries again"):
        train(learner, 48)
    monkeypatch.undo()
    newest = learner.folder.checkpoints.num_steps()
    assert newest <= 24
    train(learner, 56)
    assert learner.folder.checkpoints.num_steps() > 48, "it is tried again"
    assert learner.get_metrics()[metrics.FAILED_WRITES] > 0
    learner.close()
    rows = read_rows(learner.folder.metrics_file)
    assert [int(row[metrics.STEPS]) for row in rows] == list(range(8, 64, 8)), "no row is lost"
    assert int(rows[-1][metrics.FAILED_WRITES]) > 0


def test_tensorboard_that_cannot_write_does_not_end_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner(make_scheme(), 400, tmp_path, config={"seed": 1}, log_every=8)
    learner.folder.tensorboard_folder.write_text("no folder")
    with pytest.warns(RecollectWarning, match="the run continues"):
        train(learner, 24)
    learner.folder.tensorboard_folder.unlink()
    train(learner, 40)
    learner.close()
    assert len(read_rows(learner.folder.metrics_file)) == 5
    assert list(learner.folder.tensorboard_folder.iterdir()), "it is tried again"


def test_a_full_disk_is_a_warning_for_tensorboard_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    learner = Learner(make_scheme(), 400, tmp_path, config={"seed": 1}, log_every=8)
    train(learner, 16)
    with monkeypatch.context() as patch:
        on_disk(FailingOS(0, FULL, tears=True), patch)
        with pytest.warns(RecollectWarning, match="the run continues"):
            train(learner, 32)
    train(learner, 48)
    learner.close()
    files = sorted(learner.folder.tensorboard_folder.iterdir())
    assert len(files) == 2, "what is torn in one file hides nothing of the next"
    assert "Traceback" not in capfd.readouterr().err
    events = EventAccumulator(str(files[-1]))
    events.Reload()
    assert [event.step for event in events.Scalars(metrics.UPDATES)] == [40, 48]


@pytest.mark.parametrize("tail", [bytes(30), b'16,3.2,"', b"16", b"16,3.2" + bytes(5) + b"\r\n"], ids=range(4))
def test_metrics_that_end_in_the_middle_do_not_block_a_checkpoint(tail: bytes, tmp_path: Path) -> None:
    learner, _, second = begin(tmp_path)
    learner.close()
    before = read_rows(learner.folder.metrics_file)
    with open(learner.folder.metrics_file, "ab") as file:
        file.write(tail)
    assert read_rows(learner.folder.metrics_file) == before
    resumed = Learner(make_scheme(), 400, tmp_path, log_every=8, resume=True)
    assert Moment(resumed).is_of(second)
    train(resumed, 100)
    resumed.close()
    steps = [int(row[metrics.STEPS]) for row in read_rows(learner.folder.metrics_file)]
    assert steps == sorted(steps)
    assert steps[-1] >= 100


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path) -> None:
    learner, _, newest = begin(tmp_path)
    learner.close()
    left = [
        "config.yaml",
        "metrics.csv",
        "storage/manifest-000001-step-80-0123abcd.json",
        f"storage/{'0a' * 16}-0-0.piece",
    ]
    for name in left:
        (tmp_path / f"{name}.partial").write_bytes(b"half of")
    assert resume(tmp_path).is_of(newest)
    resumed = Learner(make_scheme(), 400, tmp_path, resume=True)
    resumed.save_checkpoint()
    resumed.stop()
    assert list(tmp_path.rglob("*.partial")) == []


def test_a_run_folder_with_links_is_refused(tmp_path: Path) -> None:
    learner, *_ = begin(tmp_path / "run")
    learner.close()
    (tmp_path / "run" / "videos" / "step-8").mkdir(parents=True)
    (tmp_path / "run" / "storage" / "worker-0").mkdir()
    for name in ("storage", "checkpoints", "config.yaml", "videos", "step-8", "worker-0"):
        (path,) = [each for each in (tmp_path / "run").rglob(name) if each.parent.name != "checkpoints"]
        path.rename(tmp_path / name)
        path.symlink_to(tmp_path / name)
        with pytest.raises(RecollectError, match=f"{name} is a link"):
            RunDirectory.open(tmp_path / "run")
        path.unlink()
        (tmp_path / name).rename(path)


@pytest.mark.slow
def test_a_run_whose_replay_lives_in_files_resumes(tmp_path: Path) -> None:
    program = f"""
import os
from recollect import Agent
options = {{"hidden_sizes": (8,), "start_steps": 16, "num_test_envs": 1, "storage.size": 200}}
options |= {{"storage.backing": "file", "storage.path": {str(tmp_path / "live")!r}}}
agent = Agent("ddqn", "CartPole-v1", preset="none", seed=1, **options)
agent.learn(60, log_dir={str(tmp_path / "run")!r}, progress=False)
os.abort()
"""
    subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, cwd=Path(__file__).parents[3])
    with pytest.raises(RecollectError, match="trust"):
        Agent.load(tmp_path / "run")
    with Agent.load(tmp_path / "run", trust=True) as agent:
        assert agent.scheme.status().num_stored == agent.num_steps >= 60


@pytest.mark.parametrize("error", [FULL, Killed()], ids=["full", "killed"])
def test_a_resume_that_stops_anywhere_can_be_resumed(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    learner, _, newest = begin(folder)
    learner.close()
    shutil.copytree(folder, tmp_path / "before")
    config = (folder / "config.yaml").read_bytes()
    for number in range(50):
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "before", folder)
        faulty = FailingOS(number, error, tears=True)
        on_disk(faulty, monkeypatch)
        try:
            Learner(make_scheme(), 400, folder, resume=True).close()
            RunDirectory.open(folder).change({"steps": 500})
        except (RecollectError, OSError, Killed):
            pass
        finally:
            monkeypatch.undo()
        assert (folder / "config.yaml").read_bytes() == config
        assert RunDirectory.open(folder).config.get("steps") in (None, 500)
        assert resume(folder).is_of(newest)
        if len(faulty.calls) <= number:
            break
    assert 5 < number < 49
