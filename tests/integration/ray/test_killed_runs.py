"""A run whose workers are killed at random moments: it loses nothing, counts nothing twice, and learns."""

import os
import random
from threading import Timer
from typing import Any, Final

import psutil
import pytest
import ray

from recollect import metrics
from recollect.config import build, resolve
from recollect.learner import Learner
from recollect.scheme import Scheme

NUM_KILLS: Final = 50 if os.environ.get("RECOLLECT_LONG") else 5
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
    """Kills collecting and gradient workers of a cluster in turn, after random numbers of steps, while they work."""

    def __init__(self, cluster: Any, num_steps: int) -> None:
        self._raylet = psutil.Process(cluster.head_node.all_processes["raylet"][0].process.pid)
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
            processes = self._raylet.children(recursive=True)
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
                lambda self: (len(self.storage), self.col_worker.num_steps, self.col_worker.num_steps_lost)
            )
            for index in workers.indices
        ]
    )
    for num_stored, num_counted, num_lost in found:
        assert num_stored == num_counted
        assert num_lost == 0
    assert sum(num_counted for _, num_counted, _ in found) >= scheme.num_steps


LOOK_EVERY: Final = 4_000
# Presets, schemes, the steps in which workers are killed, options and the return to reach.
CELLS: Final[list[Any]] = [
    pytest.param(
        "pendulum-sac",
        {"scheme.update_mode": "decentralised"},
        8_000,
        {"update_every": 25, "num_mini_batch": 25},
        -300.0,
        id="decentralised",
    ),
    *(
        pytest.param(
            "cartpole-ddqn",
            {"scheme.grad_mode": mode},
            16_000,
            {"update_every": 16, "num_mini_batch": 16},
            195.0,
            id=mode,
            marks=pytest.mark.long,
        )
        for mode in ("sync", "async")
    ),
]


@pytest.mark.parametrize(("preset", "cell", "steps", "options", "goal"), CELLS)
def test_a_run_survives_its_workers_and_learns(
    ray_cluster: Any, preset: str, cell: dict[str, Any], steps: int, options: dict[str, Any], goal: float
) -> None:
    config = resolve(preset=preset, overrides={"seed": 1, "test_every": 0, **WORKERS, **cell, **options})
    learner, killer = Learner(build(config), config.steps), Killer(ray_cluster, steps)
    try:
        train_and_kill(learner, killer, steps)
        assert killer.num_left == 0
        assert learner.get_metrics()[metrics.GRADIENT_RESTARTS] >= NUM_KILLS // 2
        check_storages(learner.scheme)
        assert reaches(goal, learner)
    finally:
        learner.stop()


def train_and_kill(learner: Learner, killer: Killer, steps: int) -> None:
    """Train for some steps while workers are killed; no step that was counted is ever lost."""
    num_steps = 0
    while num_steps < steps:
        learner.step()
        assert learner.num_steps >= num_steps
        num_steps = learner.num_steps
        killer.look(num_steps)
    killer.wait()


def reaches(goal: float, learner: Learner) -> bool:
    """Whether the run is good enough, or becomes so in the steps that it has left."""
    while learner.evaluate(20).mean <= goal:
        if learner.done():
            return False
        next_look = learner.num_steps + LOOK_EVERY
        while learner.num_steps < next_look and not learner.done():
            learner.step()
    return True
