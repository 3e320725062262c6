"""A checkpoint is whole or not there; the newest few stay."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from recollect.errors import NotFiniteError, StorageError
from recollect.runs import checkpoints as module
from recollect.runs.checkpoints import Checkpoints, read_checkpoint


class TinyActor(torch.nn.Linear):
    """One layer that saves itself as actors do."""

    def __init__(self) -> None:
        super().__init__(2, 1)

    def save(self, path: Path) -> None:
        save_file(self.state_dict(), path)

    def load(self, path: Path) -> None:
        self.load_state_dict(load_file(path))


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    actor, other = TinyActor(), TinyActor()
    path = Checkpoints(tmp_path).write(actor, {"num_updates": 5, "moments": torch.ones(2)}, 70)
    state = read_checkpoint(path, other)
    assert torch.equal(actor.weight, other.weight)
    assert state["num_updates"] == 5
    assert state["moments"].tolist() == [1, 1]
    assert path.name == "000000-step-70"


def test_the_newest_stay(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, num_kept=2)
    for num_steps in (100, 900, 1000, 1000):
        newest = checkpoints.write(TinyActor(), {}, num_steps)
        assert checkpoints.newest() == newest
    assert [path.name for path in checkpoints.paths()] == ["000002-step-1000", "000003-step-1000"]


def test_a_write_that_stops_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path)
    good = checkpoints.write(TinyActor(), {"number": 1}, 10)

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    for step in ("write_state", "sync_folder"):
        monkeypatch.setattr(module, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.write(TinyActor(), {"number": 2}, 20)
        monkeypatch.undo()
        assert checkpoints.paths() == [good]
        assert read_checkpoint(checkpoints.newest(), TinyActor())["number"] == 1
    checkpoints.write(TinyActor(), {"number": 3}, 30)
    assert {path.name for path in tmp_path.iterdir()} == {"000000-step-10", "000001-step-30"}


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), StorageError("No space left on device")])
def test_a_full_disk_leaves_what_was_there_and_is_told(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise error

    checkpoints = Checkpoints(tmp_path)
    good = checkpoints.write(TinyActor(), {}, 10)
    monkeypatch.setattr(module, "write_state", fail)
    with pytest.raises(StorageError, match="No space left on device; the one before it, 000000-step-10, stays"):
        checkpoints.write(TinyActor(), {}, 20)
    assert list(tmp_path.iterdir()) == [good]


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused(value: float, tmp_path: Path) -> None:
    actor, checkpoints = TinyActor(), Checkpoints(tmp_path)
    good = checkpoints.write(actor, {}, 10)
    with torch.no_grad():
        actor.weight[0, 1] = value
    with pytest.raises(NotFiniteError, match="weight of the actor"):
        checkpoints.write(actor, {}, 20)
    assert checkpoints.paths() == [good]


def test_a_state_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    with pytest.raises(NotFiniteError, match="mean of the state"):
        checkpoints.write(TinyActor(), {"optimiser": {"policy": {"mean": torch.tensor([0.0, torch.nan])}}}, 20)
    assert checkpoints.paths() == []


def test_a_run_without_checkpoints_says_so(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no checkpoint in"):
        Checkpoints(tmp_path / "absent").newest()


def test_foreign_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        read_checkpoint(tmp_path, TinyActor())
    path = Checkpoints(tmp_path).write(TinyActor(), {}, 1)
    (path / "state.json").write_text('{"format": "recollect checkpoint", "version": 99, "content": {}}')
    with pytest.raises(StorageError, match="not a checkpoint that this release reads"):
        read_checkpoint(path, TinyActor())


@pytest.mark.parametrize("file", ["state.json", "state.safetensors", "actor.safetensors"])
def test_a_damaged_checkpoint_can_be_removed_to_resume_from_the_one_before(file: str, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for number in (1, 2):
        checkpoints.write(TinyActor(), {"number": number}, number)
    (checkpoints.newest() / file).unlink()
    with pytest.raises(StorageError, match=f"{checkpoints.newest()} is damaged: .*{file}.*; remove that folder"):
        read_checkpoint(checkpoints.newest(), TinyActor())
    shutil.rmtree(checkpoints.newest())
    assert read_checkpoint(checkpoints.newest(), TinyActor())["number"] == 1
