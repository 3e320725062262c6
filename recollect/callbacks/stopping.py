"""Callbacks that end a training early: at a score, or once it no longer improves."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from recollect.callbacks.callback import Callback
from recollect.checks import check_count, check_number
from recollect.errors import ConfigError
from recollect.files.records import as_count

if TYPE_CHECKING:
    from recollect.learner import Learner
    from recollect.scheme.collection.worker.evaluation import Evaluation
    from recollect.scheme.scheme import Scheme


class StopAt(Callback):
    """Stops once the mean return of an evaluation reaches a score.

    Parameters
    ----------
    score : float
        The return to reach.
    """

    def __init__(self, score: float) -> None:
        self.score = check_number("score", score, -math.inf)

    def check(self, scheme: "Scheme") -> None:
        _check_evaluates(self, scheme)

    def on_evaluation(self, learner: "Learner", evaluation: "Evaluation") -> None:
        if evaluation.mean >= self.score:
            learner.request_stop(f"the evaluation reached {evaluation.mean:,.1f}")


class StopWithoutImprovement(Callback):
    """Stops after `patience` evaluations in a row without a new best one.

    Parameters
    ----------
    patience : int
        Evaluations without improvement.
    by : float
        How much the mean return must rise to count as an improvement.
    """

    def __init__(self, patience: int, by: float = 0.0) -> None:
        self.patience = check_count("patience", patience)
        self.by = check_number("by", by, 0.0)
        self._best = -math.inf
        self._num_worse = 0

    def check(self, scheme: "Scheme") -> None:
        _check_evaluates(self, scheme)

    def on_evaluation(self, learner: "Learner", evaluation: "Evaluation") -> None:
        if evaluation.mean > self._best + self.by:
            self._best, self._num_worse = evaluation.mean, 0
            return
        self._num_worse += 1
        if self._num_worse >= self.patience:
            learner.request_stop(f"{self.patience} evaluations brought no more than {self._best:,.1f}")

    def state(self) -> dict[str, Any]:
        return {"best": self._best, "num_worse": self._num_worse}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._best, self._num_worse = float(state["best"]), as_count(state["num_worse"])


def _check_evaluates(callback: Callback, scheme: "Scheme") -> None:
    if not scheme.algo.test_every:
        raise ConfigError(f"{callback.name} needs evaluations, and test_every is 0; set it to a number of updates")
