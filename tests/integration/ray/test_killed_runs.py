"""A run whose workers are killed at random moments: it loses nothing, counts nothing twice, and learns."""

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Timer
from typing import Any, Final

import psutil
import pytest
import ray

from recollect import metrics
from recollect.config import build, resolve
from recollect.learner import Learner
from recollect.scheme import Scheme
from tests.learning import Check

IS_LONG: Final = bool(os.environ.get("RECOLLECT_LONG"))
NUM_KILLS: Final = 50 if IS_LONG else 5
RESOURCES: Final = {"num_cpus": 0.1}
WORKERS: Final = {
    "scheme.num_grad_workers": 2,
    "scheme.num_col_workers": 1,
    "scheme.max_restarts": 10 * NUM_KILLS,
    "scheme.col_resources": RESOURCES,
    "scheme.grad_resources": RESOURCES,
}
COLLECTING: Final = ("ray::CWorker",)
LEARNING: Final = ("ray::GWorker", "ray::PeerWorker")


class Killer:
    """Kills collecting and gradient workers of this process's cluster in turn, after random numbers of steps."""

    def __init__(self, num_steps: int) -> None:
        self._chance = random.Random(1)
        self._moments = [self._chance.randrange(num_steps // 20, num_steps * 4 // 5) for _ in range(NUM_KILLS)]
        self._moments.sort(reverse=True)
        self._shots: list[Timer] = []

    @property
    def num_left(self) -> int:
        """Workers that are still to be killed."""
        return len(self._moments)

    def look(self, num_steps: int) -> None:
        """See to it that a worker is killed in the middle of the next stage, if it is time."""
        if self._moments and num_steps >= self._moments[-1] and not any(shot.is_alive() for shot in self._shots):
            kinds = (COLLECTING, LEARNING)[self.num_left % 2]
            processes = psutil.Process().children(recursive=True)
            victims = [process for process in processes if _title(process).startswith(kinds)]
            if victims:
                self._shots.append(Timer(self._chance.uniform(0, 0.5), self._kill, [self._chance.choice(victims)]))
                self._shots[-1].start()
                self._moments.pop()

    def wait(self) -> None:
        """Wait until all that were chosen are killed."""
        for shot in self._shots:
            shot.join()

    def _kill(self, victim: psutil.Process) -> None:
        try:
            victim.kill()
        except psutil.NoSuchProcess:
            # It ended meanwhile, with the worker that it collected for: another one has to be killed.
            self._moments.append(0)


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def check_storages(scheme: Scheme) -> None:
    """Every step that the learner counts is in the storage of a gradient worker, once."""
    workers = scheme.gradients.workers  # type: ignore[attr-defined]
    found = ray.get(
        [
            workers.handle(index).__ray_call__.remote(
                lambda self: (len(self.storage), self.col_worker.num_steps, self.col_worker.counts.num_steps_lost)
            )
            for index in workers.indices
        ]
    )
    for num_stored, num_counted, num_lost in found:
        assert num_stored == num_counted
        assert num_lost == 0
    assert sum(num_counted for _, num_counted, _ in found) >= scheme.num_steps


EVALUATE_EVERY: Final = 2_000


@dataclass(frozen=True)
class KilledRun:
    """Trains a preset for some steps while workers are killed, then until it reaches the goal or has no steps left.

    Its score is the best return. That nothing is lost or counted twice holds for any seed.
    """

    preset: str
    scheme: Mapping[str, Any]
    steps: int
    options: Mapping[str, Any]
    goal: float

    def __call__(self, seed: int) -> float:
        overrides = {"seed": seed, "test_every": 0, **WORKERS, **self.scheme, **self.options}
        config = resolve(preset=self.preset, overrides=overrides)
        learner, killer = Learner(build(config), config.steps), Killer(self.steps)
        try:
            train_and_kill(learner, killer, self.steps)
            assert killer.num_left == 0
            assert learner.get_metrics()[metrics.GRADIENT_RESTARTS] >= NUM_KILLS // 2
            check_storages(learner.scheme)
            return best_return(learner, self.goal)
        finally:
            learner.stop()


def killed_run(preset: str, scheme: Mapping[str, Any], steps: int, pace: int, goal: float, trials: str = "") -> Check:
    """The check of a run whose workers are killed, with an update per step, `pace` of them at a time."""
    options = {"update_every": pace, "num_mini_batch": pace}
    return Check(train=KilledRun(preset, scheme, steps, options, goal), threshold=goal, trials=trials)


CHECKS: Final = {
    "killed sac with decentralised updates": killed_run(
        "pendulum-sac",
        {"scheme.update_mode": "decentralised"},
        8_000 if IS_LONG else 4_000,
        25,
        -300.0,
        trials="0 of 20 failed; worst -274.1, median -173.5; chance of a false alarm 9e-05",
    ),
}
LONG_CHECKS: Final = {
    f"killed ddqn with {mode} gradients": killed_run("cartpole-ddqn", {"scheme.grad_mode": mode}, 16_000, 16, 195.0)
    for mode in ("sync", "async")
}


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("name", [*CHECKS, *(pytest.param(name, marks=pytest.mark.long) for name in LONG_CHECKS)])
def test_a_run_survives_its_workers_and_learns(name: str) -> None:
    (CHECKS | LONG_CHECKS)[name].judge()


def train_and_kill(learner: Learner, killer: Killer, steps: int) -> None:
    """Train for some steps while workers are killed; no step that was counted is ever lost."""
    num_steps = 0
    while num_steps < steps:
        learner.step()
        assert learner.num_steps >= num_steps
        num_steps = learner.num_steps
        killer.look(num_steps)
    killer.wait()


def best_return(learner: Learner, goal: float) -> float:
    """The best of the run's evaluations, until one is good enough or no steps are left."""
    returns = [learner.evaluate(20).mean]
    while returns[-1] <= goal and not learner.done():
        next_evaluation = learner.num_steps + EVALUATE_EVERY
        while learner.num_steps < next_evaluation and not learner.done():
            learner.step()
        returns.append(learner.evaluate(20).mean)
    return max(returns)
