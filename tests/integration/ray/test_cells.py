"""Every cell of collection × gradients × updates trains, off-policy and on-policy, and some of them learn."""

from typing import Any, Final

import pytest
import torch

from recollect.config import build, resolve
from recollect.learner import Learner
from recollect.runs import metrics
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
NUM_STAGES: Final = 4


def every_cell() -> list[Any]:
    """Every cell with both agents, one of them in turn among the long tests: processes take their time to start."""
    return [
        pytest.param(*cell, *agent, marks=[pytest.mark.long] if (place + place // 4 + number) % 2 else [])
        for place, cell in enumerate(CELLS)
        for number, agent in enumerate(AGENTS)
    ]


def workers_of(collection: str, gradients: str) -> dict[str, Any]:
    """Options of a scheme; two workers on a level where it is the only one that is remote."""
    options = {**COLLECTION[collection], **GRADIENTS[gradients], **RESOURCES}
    if gradients == "local" and collection != "local":
        options["num_col_workers"] = 2
    if collection == "local" and gradients != "local":
        options["num_grad_workers"] = 2
    return options


@pytest.mark.parametrize(("collection", "gradients", "algo", "storage"), every_cell())
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
    assert sum(bool(metrics.OF_WORKER.match(name)) for name in found) == num_workers
    assert (metrics.ASYNCHRONY in found) == (gradients == "async")
    assert found[metrics.STORAGE_SIZE] > 0
    assert found[metrics.STEPS] > 0


# Presets, cells, steps, options and the least return.
LEARNING: Final[list[tuple[str, dict[str, Any], int, dict[str, Any], float]]] = [
    (
        "cartpole-ddqn",
        {"num_col_workers": 2, "col_mode": "async", "replay_ratio": 1.0},
        12_000,
        {"update_every": 16, "num_mini_batch": 16},
        100.0,
    ),
    (
        "cartpole-ppo",
        {"num_grad_workers": 2, "grad_mode": "async"},
        24_000,
        {"lr": 2e-3, "num_epochs": 10, "anneal_steps": 0, "num_envs": 4},
        150.0,
    ),
    (
        "pendulum-sac",
        {"num_grad_workers": 2, "update_mode": "decentralised"},
        8_000,
        {"update_every": 25, "num_mini_batch": 25},
        -500.0,
    ),
]


@pytest.mark.parametrize(("preset", "cell", "steps", "options", "least"), LEARNING)
def test_a_cell_learns(preset: str, cell: dict[str, Any], steps: int, options: dict[str, Any], least: float) -> None:
    scheme_options = {f"scheme.{name}": value for name, value in {**cell, **RESOURCES}.items()}
    config = resolve(preset=preset, overrides={"seed": 1, "test_every": 0, **options, **scheme_options})
    learner = Learner(build(config), steps)
    try:
        while not learner.done():
            learner.step()
        assert learner.evaluate(20).mean > least
    finally:
        learner.stop()


@pytest.mark.long
@pytest.mark.parametrize(("collection", "gradients"), CELLS)
def test_every_cell_learns(collection: str, gradients: str) -> None:
    """Well above the 20 steps of a pole that nobody balances."""
    preset, _, steps, options, _ = LEARNING[0 if collection == "async" else 1]
    workers = workers_of(collection, gradients)
    if collection == "async":
        workers["replay_ratio"] = 1.0
    scheme_options = {f"scheme.{name}": value for name, value in workers.items()}
    config = resolve(preset=preset, overrides={"seed": 1, "test_every": 0, **options, **scheme_options})
    learner = Learner(build(config), steps)
    try:
        while not learner.done():
            learner.step()
        assert learner.evaluate(20).mean > 80
    finally:
        learner.stop()
