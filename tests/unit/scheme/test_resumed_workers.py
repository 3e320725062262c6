"""A run whose environments are held by synchronous workers is resumed in the same bits, as one without workers."""

from pathlib import Path
from typing import Any

import pytest

from recollect.errors import StorageError
from recollect.learner import Learner
from recollect.runs.checkpointing.commit import read_commit
from tests.unit.scheme.fake_engine import FakeEngine
from tests.unit.scheme.test_elastic import CELLS, check_same, make_scheme, standing


def train(name: str, folder: Path, num_stages: int, **options: Any) -> Learner:
    learner = Learner(make_scheme(name, 2, **options), 10**6, folder, resume=folder.exists())
    for _ in range(num_stages):
        learner.step()
    return learner


@pytest.mark.parametrize("name", CELLS)
def test_a_resumed_run_is_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    FakeEngine(monkeypatch)
    learner = train(name, tmp_path / "whole", 24)
    expected = standing(learner.scheme)
    learner.stop()
    learner = train(name, tmp_path / "parts", 11)
    path = learner.save_checkpoint()
    assert read_commit(path).gap is None
    learner.stop()
    learner = train(name, tmp_path / "parts", 13)
    check_same(standing(learner.scheme), expected)
    learner.stop()


def test_another_number_of_workers_cannot_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeEngine(monkeypatch)
    scheme = make_scheme("ddqn-per", 2)
    elsewhere = scheme.col_worker.elsewhere
    assert elsewhere is not None
    state = elsewhere.episodes_state()
    with pytest.raises(StorageError, match="the run had 1 workers and now has 2"):
        elsewhere.load_episodes({"workers": state["workers"][:1]})
    scheme.stop()


def test_a_restarted_worker_is_a_gap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = FakeEngine(monkeypatch)
    learner = train("ddqn-per", tmp_path / "run", 3)
    fake.handles[1].is_dead = True
    learner.step()
    gap = read_commit(learner.save_checkpoint()).gap
    assert gap is not None
    assert "restarted" in gap
    learner.stop()
    resumed = train("ddqn-per", tmp_path / "run", 2)
    assert resumed.num_steps == 6 * 40
    resumed.stop()
