"""PPO learns a task that only a memory can solve."""

from typing import Any

import pytest

from recollect.agent.actors import OnPolicyActor
from recollect.agent.algorithms.on_policy.ppo import PPO
from recollect.agent.envs import VecEnv
from recollect.agent.storages import GAEBuffer
from recollect.scheme import Scheme


def train(
    env_id: str,
    num_steps: int,
    *,
    num_envs: int,
    actor: dict[str, Any],
    algo: dict[str, Any],
    env_kwargs: dict[str, Any] | None = None,
) -> Scheme:
    envs, action_space, obs_space = VecEnv.create_factory(env_id, env_kwargs, num_envs, seed=1)
    algo_factory = PPO.create_factory(**algo)
    scheme = Scheme(
        algo_factory,
        OnPolicyActor.create_factory(obs_space, action_space, PPO, seed=1, activation="tanh", **actor),
        GAEBuffer.create_factory(algo_factory.config.update_every, seed=1),
        envs,
        envs,
        device="cpu",
    )
    while scheme.num_steps < num_steps:
        scheme.update_worker.step()
    return scheme


def mean_return(scheme: Scheme, num_episodes: int) -> float:
    mean = scheme.col_worker.evaluate_episodes(num_episodes).mean
    scheme.stop()
    return float(mean)


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "low", "high"), [("gru", 0.95, 1.0), (None, 0.0, 0.75)])
def test_only_a_memory_recalls_the_cue(memory: str | None, low: float, high: float) -> None:
    scheme = train(
        "recollect/RecallCue-v0",
        12_000,
        num_envs=16,
        actor={"hidden_sizes": (32,), "memory": memory, "memory_size": 32},
        algo={"update_every": 32, "lr": 2e-3},
        env_kwargs={"delay": 5},
    )
    assert low <= mean_return(scheme, 100) <= high
