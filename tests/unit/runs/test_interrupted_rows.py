"""Rows of a run that was interrupted, extended or stopped by a callback are those of one that was not."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from recollect import metrics
from recollect.callbacks import Callback
from recollect.errors import StorageError
from recollect.interrupts import Terminated
from recollect.learner import Learner
from recollect.roles import Training
from recollect.runs import RunDirectory
from tests.fuzzing import newest_commit, reseal
from tests.schemes import make_scheme
from tests.unit.runs.test_exact_resume import OF_THE_MACHINE, Noting, rows_of

# Rows are due between stages of 8 steps, and evaluations after every third one.
OPTIONS: dict[str, Any] = {"log_every": 30, "checkpoint_every": 48}
END = 160


class Interrupt(Callback):
    """Sends this process a signal at some env steps."""

    def __init__(self, *moments: int, number: int = signal.SIGTERM) -> None:
        self.moments, self.number = moments, number

    def on_step(self, learner: Training) -> None:
        if learner.num_steps in self.moments:
            os.kill(os.getpid(), self.number)


def train(folder: Path, steps: int, *callbacks: Callback, resume: bool = False) -> Learner:
    learner = Learner(
        make_scheme(test_every=6), steps, folder, callbacks=[Noting(), *callbacks], resume=resume, **OPTIONS
    )
    try:
        learner.train()
    finally:
        learner.stop()
    return learner


def header(folder: Path) -> list[str]:
    names = (folder / "metrics.csv").read_text().splitlines()[0].split(",")
    return [name for name in names if name not in OF_THE_MACHINE]


@pytest.mark.parametrize(("number", "error"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)])
def test_an_interrupt_leaves_no_row_behind(number: int, error: type[BaseException], tmp_path: Path) -> None:
    train(tmp_path / "whole", END)
    for moment in (24, 56, 88, 120):
        folder = tmp_path / str(moment)
        with pytest.raises(error):
            train(folder, END, Interrupt(moment, number=number))
        assert int(rows_of(folder)[-1][metrics.STEPS]) == moment, "meanwhile one says how far it came"
        train(folder, END, resume=True)
        assert rows_of(folder) == rows_of(tmp_path / "whole")
        assert header(folder) == header(tmp_path / "whole")


def test_neither_do_several(tmp_path: Path) -> None:
    train(tmp_path / "whole", END)
    resume = False
    for moment in (8, 40, 104):
        with pytest.raises(Terminated):
            train(tmp_path / "run", END, Interrupt(moment), resume=resume)
        resume = True
    train(tmp_path / "run", END, resume=True)
    assert rows_of(tmp_path / "run") == rows_of(tmp_path / "whole")


def test_a_run_that_is_extended_has_the_rows_of_one_that_was_as_long_at_once(tmp_path: Path) -> None:
    train(tmp_path / "whole", END)
    train(tmp_path / "run", END // 2)
    train(tmp_path / "run", END, resume=True)
    assert rows_of(tmp_path / "run") == rows_of(tmp_path / "whole")


class StopsAt(Callback):
    """Ends the training at some env steps, and the process once that is saved."""

    def __init__(self, num_steps: int) -> None:
        self.num_steps = num_steps

    def on_step(self, learner: Training) -> None:
        assert isinstance(learner, Learner)
        if learner.num_steps == self.num_steps:
            learner.request_stop("enough")


def test_a_training_that_a_callback_has_ended_stays_so_when_it_is_resumed(tmp_path: Path) -> None:
    train(tmp_path, END, StopsAt(56))
    resumed = train(tmp_path, END, StopsAt(56), resume=True)
    assert (resumed.num_steps, resumed.stop_reason) == (56, "enough")


@pytest.mark.parametrize("row", [5, {"a": 1}, {metrics.STEPS: -1}, {metrics.STEPS: 0.5}, {metrics.STEPS: 8, "a": "x"}])
def test_a_forged_row_is_refused(row: object, tmp_path: Path) -> None:
    train(tmp_path, 32)
    path = newest_commit(RunDirectory.open(tmp_path).path).parent / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "row": row}))
    reseal(tmp_path)
    with pytest.raises(StorageError, match="does not fit this run"):
        train(tmp_path, END, resume=True)
