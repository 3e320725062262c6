"""On-policy agents with small networks, and rollouts of made-up observations in which they acted."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from recollect import keys
from recollect.agent.actors import OnPolicyActor
from recollect.agent.algorithms.on_policy.base import OnPolicyAlgorithm
from recollect.agent.algorithms.on_policy.ppo import PPO
from recollect.agent.storages import ON_POLICY_STORAGES

NUM_ENVS = 3
FLAT = Box(-1.0, 1.0, (4,), np.float32)
NESTED = Dict({"vector": FLAT, "image": Box(0, 255, (2, 3, 3), np.uint8)})
ACTION_SPACES: dict[str, gym.Space[Any]] = {
    "box": Box(-2.0, 2.0, (2,), np.float32),
    "discrete": Discrete(3),
    "multi_discrete": MultiDiscrete([2, 4]),
    "multi_binary": MultiBinary(3),
}


class Agent(NamedTuple):
    """The parts of an agent."""

    actor: Any
    algo: Any
    storage: Any


def make_agent(
    action_space: gym.Space[Any],
    *,
    algorithm: type[OnPolicyAlgorithm] = PPO,
    obs_space: gym.Space[Any] = FLAT,
    storage: str = "gae",
    memory: str | None = None,
    overlap: int = 0,
    normalise: bool = False,
    feature_sizes: tuple[int, ...] = (),
    store_options: dict[str, Any] | None = None,
    **options: Any,
) -> Agent:
    """Make an agent; `options` are the algorithm's."""
    envs = SimpleNamespace(num_envs=NUM_ENVS)
    sizes: dict[str, Any] = {"hidden_sizes": (16,), "memory": memory, "memory_size": 8, "features": "flat"}
    sizes |= {"feature_sizes": feature_sizes, "sequence_overlap": overlap, "normalise_observations": normalise}
    actor = OnPolicyActor.create_factory(obs_space, action_space, algorithm, seed=1, **sizes)("cpu")
    algo = algorithm.create_factory(**{"update_every": 12, "lr": 1e-2, **options})("cpu", actor, envs)
    assert isinstance(algo, algorithm)
    factory = ON_POLICY_STORAGES[storage].create_factory(64, seed=2, **(store_options or {}))
    return Agent(actor, algo, factory("cpu", actor, algo, envs))


def draw_observations(space: gym.Space[Any], num_steps: int) -> list[Any]:
    space.seed(3)
    batch = gym.vector.utils.batch_space(space, NUM_ENVS)
    batch.seed(3)
    return [batch.sample() for _ in range(num_steps)]


def collect(agent: Agent, num_steps: int = 12, *, share_of_ends: float = 0.2) -> list[dict[str, Any]]:
    """Let the agent act, with made-up rewards and ends, and store what it did; returns the samples."""
    rng = np.random.default_rng(4)
    observations = draw_observations(agent.actor.obs_space, 2 * num_steps + 1)
    obs, rhs, done = agent.actor.actor_initial_states(observations[-1])
    samples = []
    for number in range(num_steps):
        action, _, next_rhs, other = agent.algo.acting_step(obs, rhs, done)
        ended = rng.random((NUM_ENVS, 1)) < share_of_ends
        sample = {
            keys.OBS: obs,
            keys.RHS: rhs,
            keys.DONE: done,
            keys.ACTION: action,
            keys.REWARD: rng.normal(size=(NUM_ENVS, 1)).astype(np.float32),
            keys.NEXT_OBS: observations[2 * number],
            keys.NEXT_DONE: ended,
            keys.NEXT_TERMINATED: ended & (rng.random((NUM_ENVS, 1)) < 0.5),
            **other,
        }
        agent.storage.insert_transition(sample)
        agent.actor.observe(obs, sample[keys.REWARD], ended)
        samples.append(sample)
        obs, rhs = _after(ended, observations[2 * number], observations[2 * number + 1]), next_rhs
        done = torch.from_numpy(ended.astype(np.float32))
    return samples


def batches_of(agent: Agent, **kwargs: Any) -> Any:
    agent.storage.before_gradients()
    algo = agent.algo
    return agent.storage.generate_batches(algo.num_mini_batch, algo.mini_batch_size, algo.num_epochs, **kwargs)


def written_out(agent: Agent, batch: dict[str, Any]) -> tuple[torch.Tensor, dict[str, Any]]:
    """Features and columns of the steps to learn from, one step after the other; burn-in takes no gradient."""
    columns = (keys.ACTION, keys.LOG_PROB, keys.VALUE, keys.ADVANTAGE, keys.RETURN)
    if not agent.actor.is_recurrent:
        none = torch.zeros(len(batch[keys.OBS]), 1)
        return agent.actor.body(batch[keys.OBS], none, none)[0], batch
    features = []
    for row, mask in enumerate(batch[keys.MASK][:, :, 0].tolist()):
        state = batch[keys.RHS][row : row + 1]
        for step in range(mask.index(1.0) + int(sum(mask))):
            obs, done = batch[keys.OBS][row : row + 1, step], batch[keys.DONE][row : row + 1, step]
            encoded, state = agent.actor.encode(obs, state, done)
            if mask[step]:
                features.append(encoded)
            else:
                state = state.detach()
    is_step = batch[keys.MASK][..., 0].bool()
    return torch.cat(features), {key: batch[key][is_step] for key in columns}


def _after(ended: np.ndarray, next_obs: Any, first_obs: Any) -> Any:
    if isinstance(next_obs, dict):
        return {key: _after(ended, next_obs[key], first_obs[key]) for key in next_obs}
    return np.where(ended.reshape(-1, *[1] * (next_obs.ndim - 1)), first_obs, next_obs)
