"""Small off-policy agents, and batches of random numbers for them."""

import copy
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor

from recollect import keys
from recollect.agent.actors import Actor, OffPolicyActor
from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.algorithms.off_policy.base import OffPolicyAlgorithm

# Networks this small are not worth a second thread, which only waits where tests run side by side.
torch.set_num_threads(1)

OFF_POLICY = [name for name in ALGORITHMS if not ALGORITHMS[name].is_on_policy]
OBS = Box(-1.0, 1.0, (3,))
CONTINUOUS = Box(np.float32([-1, 0]), np.float32([1, 4]))
DISCRETE = Discrete(3)

# Policies that are trained in every second update, and exploration that each of many rows has its own of.
SMALL: dict[str, dict[str, Any]] = {
    "crossq": {"policy_delay": 2},
    "redq": {"policy_delay": 2},
    "droq": {"policy_delay": 2},
    "rlpd": {"policy_delay": 2},
    "rainbow": {"initial_epsilon": 1.0, "noisy_std": 0.1},
}

Batch = dict[str, Any]


@dataclass
class Agent:
    """An algorithm and its actor."""

    actor: Actor
    algo: Any


def space_of(name: str) -> gym.Space[Any]:
    return DISCRETE if Discrete in ALGORITHMS[name].action_spaces else CONTINUOUS


def make_agent(name: str, *, actor_options: dict[str, Any] | None = None, seed: int = 1, **options: Any) -> Agent:
    """An agent with tiny networks."""
    networks = {"hidden_sizes": (8,), "memory_size": 4, **(actor_options or {})}
    factory = ALGORITHMS[name].create_factory(**(SMALL.get(name, {}) | options))
    actor = OffPolicyActor.create_factory(OBS, space_of(name), factory, seed=seed, **networks)("cpu")
    algo = factory("cpu", actor, None)
    assert isinstance(algo, OffPolicyAlgorithm)
    return Agent(actor, algo)


def make_batch(agent: Agent, num_rows: int = 6, seed: int = 0) -> Batch:
    """Rows of random numbers, the last of which terminates."""
    generator = torch.Generator().manual_seed(seed)
    discount = torch.full((num_rows, 1), 0.9)
    discount[-1] = 0.0
    return {
        keys.OBS: torch.randn(num_rows, 3, generator=generator),
        keys.NEXT_OBS: torch.randn(num_rows, 3, generator=generator),
        keys.ACTION: agent.actor.actions.draw(num_rows, generator),
        # Small enough for errors that Huber's loss squares.
        keys.REWARD: 0.3 * torch.randn(num_rows, 1, generator=generator),
        keys.DISCOUNT: discount,
    }


def gradients(agent: Agent, batch: Batch) -> list[Tensor]:
    """Gradients of a batch with the same random numbers each time; zeros where there are none."""
    agent.algo.generator.manual_seed(3)
    # The second computation, in which TD3 trains its policy.
    agent.algo.num_computed = 1
    statistics = copy.deepcopy(agent.actor.state_dict())
    found, _ = agent.algo.compute_gradients(batch)
    agent.actor.load_state_dict(statistics)  # those of batches have moved
    parameters = agent.algo.optimiser.parameters
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]


def critic_gradients(agent: Agent, batch: Batch) -> list[Tensor]:
    return gradients(agent, batch)[: len(agent.actor.critic_parameters())]


def differ(left: list[Tensor], right: list[Tensor]) -> bool:
    return any(not torch.allclose(a, b, atol=1e-7) for a, b in zip(left, right, strict=True))
