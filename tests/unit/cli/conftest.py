"""Runs the command `recollect` in this process, and small trainings with it."""

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from recollect.cli import main

TINY = (
    *("--set", "actor.hidden_sizes=[8]", "--set", "algo.start_steps=20", "--set", "algo.test_every=10"),
    *("--set", "algo.num_test_episodes=1", "--final-episodes", "2", "--num-test-envs", "1", "--threads", "1"),
)


class Outcome(NamedTuple):
    """Exit code of a command, and what it wrote."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def recollect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """A function that runs `recollect` with some words, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(sys, "path", list(sys.path))
    num_threads = torch.get_num_threads()

    def run(*words: str) -> Outcome:
        code = main(words)
        return Outcome(code, *capsys.readouterr())

    yield run
    torch.set_num_threads(num_threads)


@pytest.fixture
def trained(recollect: Run, tmp_path: Path) -> Path:
    """Folder of a tiny run that has ended."""
    outcome = recollect("train", "ddqn", "CartPole-v1", "--preset", "none", "--steps", "100", *TINY)
    assert outcome.code == 0, outcome.err
    return tmp_path / "runs" / "cartpole-ddqn-1"
