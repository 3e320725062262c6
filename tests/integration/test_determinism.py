"""Same seed and config, same weights, to the last bit."""

import pytest
import torch
from gymnasium.spaces import Discrete

from recollect.agent.algorithms import ALGORITHMS
from recollect.config import build, resolve

NUM_STEPS = 2_000


def task_of(algo: str) -> str:
    return "CartPole-v1" if Discrete in ALGORITHMS[algo].action_spaces else "Pendulum-v1"


def train(algo: str, seed: int) -> dict[str, torch.Tensor]:
    """Weights of a small agent after training, with all that draws random numbers in use."""
    storage = {"storage": "gae"}
    pace = {"update_every": 50, "num_mini_batch": 4, "num_epochs": 2}
    if not ALGORITHMS[algo].is_on_policy:
        storage = {"storage": "per", "n_step": 3, "alpha": 0.6, "default_error": 1.0}
        pace = {"update_every": 50, "num_mini_batch": 10, "mini_batch_size": 32, "start_steps": 200}
    options = {"hidden_sizes": (16, 16), "num_envs": 2, "seed": seed}
    scheme = build(resolve(algo, task_of(algo), preset="none", overrides=storage | pace | options))
    while scheme.num_steps < NUM_STEPS:
        scheme.update_worker.step()
    scheme.stop()
    assert scheme.num_updates >= 100
    return {name: weight.clone() for name, weight in scheme.actor.state_dict().items()}


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_same_seed_gives_bit_identical_weights(algo: str) -> None:
    first = train(algo, seed=1)
    torch.rand(7)  # the global generator must not matter
    second = train(algo, seed=1)
    assert first.keys() == second.keys()
    different = [name for name, weight in first.items() if not torch.equal(weight, second[name])]
    assert different == []


def test_another_seed_gives_other_weights() -> None:
    first, second = train("sac", seed=1), train("sac", seed=2)
    assert any(not torch.equal(weight, second[name]) for name, weight in first.items())
