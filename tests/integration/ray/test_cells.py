"""Every cell of collection × gradients × updates trains, off-policy and on-policy, and some of them learn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest
import torch

from recollect import metrics
from recollect.config import build, resolve
from recollect.learner import Learner
from tests.learning import Check
from tests.schemes import make_scheme

pytestmark = pytest.mark.usefixtures("ray_cluster")

# So small that as many as there are fit on any machine.
RESOURCES: Final = {"col_resources": {"num_cpus": 0.1}, "grad_resources": {"num_cpus": 0.1}}
COLLECTION: Final[dict[str, dict[str, Any]]] = {
    "local": {},
    "sync": {"num_col_workers": 1},
    "async": {"num_col_workers": 1, "col_mode": "async"},
}
GRADIENTS: Final[dict[str, dict[str, Any]]] = {
    "local": {},
    "sync": {"num_grad_workers": 1},
    "async": {"num_grad_workers": 1, "grad_mode": "async"},
    "decentralised": {"num_grad_workers": 2, "update_mode": "decentralised"},
}
CELLS: Final = [(collection, gradients) for collection in COLLECTION for gradients in GRADIENTS]
AGENTS: Final = [("ddqn", "per"), ("ppo", "vtrace")]
# Every cell is tried with one of the agents, in turn; the long table has both.
TRIED: Final = [
    pytest.param(*cell, *agent, marks=[] if (k // len(GRADIENTS) + k) % len(AGENTS) == which else pytest.mark.long)
    for k, cell in enumerate(CELLS)
    for which, agent in enumerate(AGENTS)
]
NUM_STAGES: Final = 4


def workers_of(collection: str, gradients: str) -> dict[str, Any]:
    """Options of a scheme; two workers on a level where it is the only one that is remote."""
    options = {**COLLECTION[collection], **GRADIENTS[gradients], **RESOURCES}
    if gradients == "local" and collection != "local":
        options["num_col_workers"] = 2
    if collection == "local" and gradients != "local":
        options["num_grad_workers"] = 2
    return options


@pytest.mark.parametrize(("collection", "gradients", "algo", "storage"), TRIED)
def test_a_cell_trains(collection: str, gradients: str, algo: str, storage: str) -> None:
    scheme = make_scheme(algo, storage, workers=workers_of(collection, gradients))
    learner = Learner(scheme, 10_000)
    try:
        before = {name: weight.clone() for name, weight in scheme.actor.named_parameters()}
        for _ in range(NUM_STAGES):
            learner.step()
        assert learner.num_steps >= NUM_STAGES * 4 * 2
        assert learner.num_updates >= 2 * (NUM_STAGES - 2)
        assert scheme.algo.num_updates == learner.num_updates
        assert any(not torch.equal(weight, before[name]) for name, weight in scheme.actor.named_parameters())
        learner.update_algorithm_parameter("gamma", 0.5)
        learner.step()
        assert scheme.algo.gamma == 0.5
        assert learner.evaluate(2).lengths
        check_metrics(learner.get_metrics(), collection, gradients)
    finally:
        learner.stop()


def check_metrics(found: dict[str, float], collection: str, gradients: str) -> None:
    options = workers_of(collection, gradients)
    num_grad_workers = options.get("num_grad_workers", 0)
    num_workers = options.get("num_col_workers", 0) * max(1, num_grad_workers)
    assert found.get(metrics.GRADIENT_WORKERS, 0) == num_grad_workers
    assert found.get(metrics.WORKERS, 0) == num_workers
    # Where nobody waits for all, some may still be on their way.
    is_async = "async" in (collection, gradients)
    for name, number in ((metrics.WORKERS_ALIVE, num_workers), (metrics.GRADIENT_WORKERS_ALIVE, num_grad_workers)):
        assert min(1, number) <= found.get(name, 0) <= number
        assert is_async or found.get(name, 0) == number
    assert sum(bool(metrics.OF_GRADIENT_WORKER.match(name)) for name in found) == num_grad_workers
    assert sum(bool(metrics.OF_WORKER.match(name)) for name in found) == num_workers
    assert (metrics.ASYNCHRONY in found) == (gradients == "async")
    assert found[metrics.STORAGE_SIZE] > 0
    assert found[metrics.STEPS] > 0


EVALUATE_EVERY: Final = 4_000
# Far above the 20 steps of a pole that nobody balances.
GOAL: Final = 195.0
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "cartpole-ddqn": {"update_every": 16, "num_mini_batch": 16},
    "cartpole-ppo": {"lr": 2e-3, "num_epochs": 10, "anneal_steps": 0, "num_envs": 4},
}


@dataclass(frozen=True)
class CellTraining:
    """Trains a preset with workers, evaluating now and then, until it is good enough; its score is the best return.

    Most runs need two or three evaluations. One in some fifty needs many more, hence all the steps of the preset.
    """

    preset: str
    options: Mapping[str, Any]

    def __call__(self, seed: int) -> float:
        overrides = {"seed": seed, "test_every": 0, **OPTIONS[self.preset], **self.options}
        config = resolve(preset=self.preset, overrides=overrides)
        learner = Learner(build(config), config.steps)
        returns = [float("-inf")]
        try:
            while not learner.done() and returns[-1] <= GOAL:
                learner.step()
                if learner.num_steps >= len(returns) * EVALUATE_EVERY:
                    returns.append(learner.evaluate(20).mean)
            return max(returns)
        finally:
            learner.stop()


def cell_check(preset: str, workers: Mapping[str, Any], trials: str = "", **options: Any) -> Check:
    """The check of a preset whose scheme has such workers."""
    scheme_options = {f"scheme.{name}": value for name, value in {**workers, **RESOURCES}.items()}
    return Check(train=CellTraining(preset, options | scheme_options), threshold=GOAL, trials=trials)


# `test_killed_runs` has Pendulum.
CHECKS: Final = {
    "ddqn with async collection": cell_check(
        "cartpole-ddqn",
        {"num_col_workers": 2, "col_mode": "async", "replay_ratio": 1.0},
        trials="0 of 20 failed; worst 202.7, median 321.3; chance of a false alarm 9e-05",
    ),
    "ppo with async gradients": cell_check(
        "cartpole-ppo",
        {"num_grad_workers": 2, "grad_mode": "async"},
        trials="0 of 20 failed; worst 250.8, median 433.7; chance of a false alarm 9e-05",
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_cell_learns(name: str) -> None:
    CHECKS[name].judge()


@pytest.mark.long
@pytest.mark.parametrize("preset", OPTIONS)
@pytest.mark.parametrize(("collection", "gradients"), CELLS)
def test_every_cell_learns(collection: str, gradients: str, preset: str) -> None:
    """With off-policy and on-policy algorithms."""
    workers, storage = workers_of(collection, gradients), {}
    if collection == "async" and preset == "cartpole-ddqn":
        workers["replay_ratio"] = 1.0
    elif collection == "async":
        storage = {"storage": "vtrace"}
    cell_check(preset, workers, **storage).judge()
