"""Callbacks that save: the best model, and checkpoints at chosen intervals."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from recollect.callbacks.callback import Callback
from recollect.checks import check_count
from recollect.runs.checkpointing.saving import save_training

if TYPE_CHECKING:
    from recollect.learner import Learner
    from recollect.scheme.collection.worker.evaluation import Evaluation


class KeepBest(Callback):
    """Keeps the agent with the best mean return of an evaluation in the run's folder, without its replay.

    Runs with a folder have it by default. `Agent.load(folder, best=True)` and `recollect eval RUN --best` load what it
    kept.
    """

    def __init__(self) -> None:
        self.best = -math.inf

    def on_start(self, learner: "Learner") -> None:
        if learner.run is not None and not learner.run.best.paths():
            self.best = -math.inf  # that of another run does not count

    def on_evaluation(self, learner: "Learner", evaluation: "Evaluation") -> None:
        if learner.run is None or evaluation.mean <= self.best:
            return
        before, self.best = self.best, evaluation.mean
        saved = False
        with learner.keeps_running():
            states = learner.callback_states()
            save_training(learner.run, learner.scheme, learner.elapsed_s, states, is_best=True)
            saved = True
        if not saved:
            self.best = before

    def state(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.best = float(state["best"])


class SaveEvery(Callback):
    """Saves a checkpoint into the run's folder at a fixed interval of env steps, in the background.

    Parameters
    ----------
    num_steps : int
        Env steps between checkpoints; each comes with the update stage that completes them.
    keep : int
        How many checkpoints to keep, the newest ones.
    """

    def __init__(self, num_steps: int, keep: int = 2) -> None:
        self.num_steps = check_count("num_steps", num_steps)
        self.keep = check_count("keep", keep)
        self._next = self.num_steps

    def on_start(self, learner: "Learner") -> None:
        learner.folder.checkpoints.num_kept = self.keep
        self._next = (learner.num_steps // self.num_steps + 1) * self.num_steps

    def on_step(self, learner: "Learner") -> None:
        if learner.num_steps >= self._next:
            self._next = (learner.num_steps // self.num_steps + 1) * self.num_steps
            learner.request_checkpoint()
