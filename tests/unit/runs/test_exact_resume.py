"""A training that is saved anywhere and resumed elsewhere ends in the same bits as one that was never interrupted."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect.api import Agent

SMALL: dict[str, Any] = {
    "hidden_sizes": [8],
    "mini_batch_size": 8,
    "num_test_envs": 1,
    "num_test_episodes": 1,
    "seed": 7,
}
COMBINATIONS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "ddqn uniform": ("ddqn", "CartPole-v1", "replay", {}),
    "ddqn per": ("ddqn", "CartPole-v1", "per", {"alpha": 0.6, "n_step": 3}),
    "ddqn ere": ("ddqn", "CartPole-v1", "ere", {"alpha": 0.6, "cmin": 10}),
    "ddqn her": ("ddqn", "recollect/BitFlip-v0", "her", {"alpha": 0.6, "env.n": 4}),
    "ddqn sequences": ("ddqn", "recollect/RecallCue-v0", "replay", {"memory": "gru"}),
    "sac": ("sac", "Pendulum-v1", "per", {"alpha": 0.6, "n_step": 3}),
    "sac with physics": ("sac", "Hopper-v5", "replay", {}),
    "sac in processes": ("sac", "Pendulum-v1", "replay", {"vec": "async"}),
    "sac-discrete": ("sac-discrete", "FrozenLake-v1", "replay", {}),
    "td3": ("td3", "Pendulum-v1", "replay", {}),
    "ddpg with drifting noise": ("ddpg", "Pendulum-v1", "replay", {"noise": "ou"}),
    "mpo": ("mpo", "Pendulum-v1", "replay", {}),
    "ppo": ("ppo", "CartPole-v1", "gae", {"update_every": 10}),
    "ppo with memory": ("ppo", "CartPole-v1", "vtrace", {"update_every": 10, "memory": "lstm"}),
    "normalised": ("sac", "Pendulum-v1", "replay", {"normalise_observations": True}),
}


def make_agent(name: str) -> Agent:
    algo, env, storage, options = COMBINATIONS[name]
    first = {} if algo == "ppo" else {"start_steps": 20}
    return Agent(algo, env, storage=storage, **SMALL, **first, **options)


def all_of(agent: Agent) -> dict[str, np.ndarray]:
    """Weights, optimisers, counters, generators, environments, what is stored and drawn next, by their paths."""
    scheme = agent.scheme
    parts = {"actor": dict(scheme.actor.state_dict()), "state": scheme.state()}
    parts["stored"] = scheme.storage.get_all_buffer_data()
    if not scheme.algo.is_on_policy:
        parts["drawn"] = scheme.storage.sample(16)
    return dict(leaves("", parts))


def leaves(path: str, value: object) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(f"{path}/{name}", inner)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from leaves(f"{path}/{index}", inner)
    else:
        yield path, np.asarray(value)


@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_resumed_agent_ends_in_the_same_bits(name: str, tmp_path: Path) -> None:
    agent = make_agent(name)
    agent.learn(130)
    agent.save(tmp_path / "agent", with_storage=True)
    resumed = Agent.load(tmp_path / "agent")
    for each in (agent, resumed):
        each.learn(130)
        each.evaluate(2)
    expected, found = all_of(agent), all_of(resumed)
    agent.close()
    resumed.close()
    assert found.keys() == expected.keys()
    for path, values in expected.items():
        np.testing.assert_array_equal(found[path], values, err_msg=path)
