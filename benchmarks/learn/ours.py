"""Recollect's side of the table: what `recollect train` does, with evaluations at equal distances."""

from benchmarks.learn.configs import run_config
from benchmarks.learn.experiments import Cell
from benchmarks.learn.records import CURVE_EPISODES, CURVE_POINTS, Episodes, Trained
from recollect.config import build
from recollect.learner import Learner
from recollect.scheme.collection.worker.evaluation import Evaluation


def train(cell: Cell, seed: int, num_episodes: int) -> Trained:
    """Train one agent, evaluating it during training and at the end."""
    learner = Learner(build(run_config(cell, seed)), cell.steps)
    curve: list[tuple[int, float]] = []
    while not learner.done():
        learner.step()
        if learner.num_steps * CURVE_POINTS >= cell.steps * (len(curve) + 1):
            curve.append((learner.num_steps, learner.evaluate(CURVE_EPISODES).mean))
    episodes = _episodes(learner.evaluate(num_episodes))
    learner.stop()
    return Trained(episodes, curve)


def _episodes(evaluation: Evaluation) -> Episodes:
    successes = [bool(success) for success in evaluation.successes] or None
    return Episodes(list(evaluation.returns), list(evaluation.lengths), successes)
