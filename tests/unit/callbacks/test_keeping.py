"""The best agent is kept, and checkpoints come when they were asked for."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from recollect.callbacks import KeepBest, SaveEvery
from recollect.errors import ConfigError, StorageError
from recollect.learner import Learner
from recollect.runs import RunDirectory
from recollect.runs.checkpointing.captured_agent import ACTOR_FILE
from recollect.runs.checkpointing.saving import restore_training
from tests.schemes import make_scheme


def weights_in(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path / ACTOR_FILE)


def test_the_best_agent_is_kept(scored: Any, tmp_path: Path) -> None:
    learner = Learner(scored([1, 7, 3, 7, 2]), 40, tmp_path)
    weights = {}
    while not learner.done():
        learner.step()
        weights[learner.num_steps] = {name: value.clone() for name, value in learner.scheme.actor.state_dict().items()}
    learner.close()
    (best,) = RunDirectory.open(tmp_path).best.paths()
    assert best.name.endswith("-step-16"), "of equals, the first"
    assert all(torch.equal(value, weights[16][name]) for name, value in weights_in(best).items())
    scheme = make_scheme()
    restore_training(RunDirectory.open(tmp_path), scheme, best=True)
    assert scheme.num_steps == 16
    assert all(torch.equal(value, weights[16][name]) for name, value in scheme.actor.state_dict().items())
    assert len(scheme.storage) == 0


def test_a_resumed_run_knows_its_best(scored: Any, tmp_path: Path) -> None:
    learner = Learner(scored([1, 7]), 400, tmp_path)
    learner.step()
    learner.step()
    learner.save_checkpoint()
    learner.close()
    best = learner.run.best  # type: ignore[union-attr]
    before = best.paths()
    resumed = Learner(scored([6, 8]), 400, tmp_path, resume=True)
    resumed.step()
    assert best.paths() == before
    resumed.step()
    assert best.newest().name.endswith("-step-32")
    resumed.close()


def test_the_best_of_another_run_does_not_count(scored: Any, tmp_path: Path) -> None:
    keep = KeepBest()
    for name, scores in (("first", [5, 9]), ("second", [2, 3])):
        learner = Learner(scored(scores), 16, tmp_path / name, callbacks=[keep])
        learner.train()
        learner.close()
        assert RunDirectory.open(tmp_path / name).best.newest().name.endswith("-step-16")


def test_without_evaluations_there_is_no_best(tmp_path: Path) -> None:
    learner = Learner(make_scheme(), 16, tmp_path)
    learner.train()
    learner.close()
    with pytest.raises(StorageError, match="has no best agent: none was evaluated; train with test_every above 0"):
        restore_training(RunDirectory.open(tmp_path), make_scheme(), best=True)


def test_without_a_folder_nothing_is_kept(scored: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Learner(scored([1, 2]), 16, callbacks=[KeepBest()]).train()
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_come_every_so_many_steps(tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint_every": 1000, "background_checkpoints": False}
    learner = Learner(make_scheme(), 72, tmp_path, callbacks=[SaveEvery(20, keep=3)], **options)
    while not learner.done():
        learner.step()
    learner.close()
    found = [path.name.rpartition("-")[2] for path in RunDirectory.open(tmp_path).checkpoints.paths()]
    assert found == ["24", "40", "64"], "with the stage of 8 steps that completes 20, 40 and 60"


def test_saving_needs_a_folder() -> None:
    learner = Learner(make_scheme(), 72, callbacks=[SaveEvery(50)])
    with pytest.raises(ConfigError, match=r"SaveEvery\.on_start: .*give log_dir"):
        learner.train()
    assert learner.num_steps == 0
