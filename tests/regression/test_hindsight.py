"""Known faults of earlier systems: hindsight experience replay."""

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages import HERBuffer
from tests.samples import lanes_of, make_slice, numbers_of, reward_if_reached, with_goals


def goal_memory(num_envs: int = 1, **options: Any) -> HERBuffer:
    options = {"strategy": "final", "share": 1.0, "compute_reward": reward_if_reached} | options
    return HERBuffer.standalone(50, num_envs=num_envs, seed=1, **options)


def goals_of(batch: dict[str, Any]) -> torch.Tensor:
    return batch[keys.OBS][keys.DESIRED_GOAL].ravel()


def test_hindsight_is_built_from_its_factory() -> None:
    """A known fault of earlier systems: the factory did not hand on what the constructor needed."""
    envs = SimpleNamespace(num_envs=1, compute_reward=reward_if_reached)
    factory = pickle.loads(pickle.dumps(HERBuffer.create_factory(20, n_step=2, seed=1)))
    memory = factory("cpu", None, SimpleNamespace(gamma=0.9), envs)
    memory.insert_data_slice(with_goals(make_slice(10, terminated=[9])))
    relabelled = goals_of(memory.sample(10)) >= 0
    assert relabelled.sum() == 8


def test_a_her_function_gets_the_values_of_dicts_and_its_answer_counts() -> None:
    """A known fault of earlier systems: the keys of dicts were converted instead of their values."""
    seen: dict[str, Any] = {}

    def rewrite(
        obs: Any, rhs: Any, next_obs: Any, next_rhs: Any, reward: Any, initial_state: Any, final_state: Any
    ) -> tuple[Any, ...]:
        seen.update(obs=obs, final_state=final_state, initial_state=initial_state, states=(rhs, next_rhs))
        goal = final_state[keys.ACHIEVED_GOAL]
        return (
            obs | {keys.DESIRED_GOAL: goal},
            rhs,
            next_obs | {keys.DESIRED_GOAL: goal + 100},
            next_rhs,
            reward + 7,
        )

    memory = goal_memory(her_function=rewrite)
    memory.insert_data_slice(with_goals(make_slice(10, terminated=[9])))
    batch = memory.sample(64)
    for name in ("obs", "final_state", "initial_state"):
        assert {key: type(value) for key, value in seen[name].items()} == dict.fromkeys(
            ("observation", keys.ACHIEVED_GOAL, keys.DESIRED_GOAL), np.ndarray
        )
    assert seen["states"] == (None, None)
    assert (seen["initial_state"][keys.ACHIEVED_GOAL] == 0).all()
    assert (batch[keys.OBS][keys.DESIRED_GOAL] == 9.5).all()
    assert (batch[keys.NEXT_OBS][keys.DESIRED_GOAL] == 109.5).all()
    assert torch.equal(batch[keys.REWARD].ravel(), numbers_of(batch) + 7.0)


def test_envs_may_end_their_episodes_at_different_times() -> None:
    """A known fault of earlier systems: relabelling happened only when all envs ended together."""
    memory = goal_memory(num_envs=3)
    memory.insert_data_slice(with_goals(make_slice(8, num_envs=3, terminated={0: [4], 1: [6]})))
    memory.handle_end_of_episode()
    batch = memory.sample(300)
    lanes, numbers, goals = lanes_of(batch), numbers_of(batch), goals_of(batch)
    assert set(goals[(lanes == 0) & (numbers <= 4)].tolist()) == {4.5}
    assert set(goals[(lanes == 1) & (numbers <= 6)].tolist()) == {6.5}
    assert set(goals[lanes == 2].tolist()) == {8.0}


def test_a_goal_is_never_the_next_episodes_first_observation() -> None:
    """A known fault of earlier systems: the observation after the reset was taken for the last one."""
    memory = goal_memory(strategy="future")
    memory.insert_data_slice(with_goals(make_slice(20, truncated=[9])))
    batch = memory.sample(2000)
    goals = goals_of(batch)[numbers_of(batch) <= 9]
    assert set(goals.tolist()) == {*range(1, 10), 9.5}
