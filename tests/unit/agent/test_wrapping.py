"""Wrappers by name, as classes and with options."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import ClipReward

from recollect import Agent, VecEnv
from recollect.agent.wrapping import name_wrappers, parse_wrappers
from recollect.errors import ConfigError

HERE = __name__
CLIP = {"name": "ClipReward", "min_reward": -1.0, "max_reward": 1.0}


class AddReward(gym.RewardWrapper[Any, Any]):
    def __init__(self, env: gym.Env[Any, Any], amount: float = 1.0) -> None:
        super().__init__(env)
        self.amount = amount

    def reward(self, reward: Any) -> float:
        return float(reward) + self.amount


def double(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    return gym.wrappers.TransformReward(env, lambda reward: 2 * float(reward))


def halve(reward: Any) -> float:
    return float(reward) / 2


def first_reward(wrappers: Any, kind: str = "sync") -> float:
    factory, _, _ = VecEnv.create_factory("CartPole-v1", vec_env_size=2, seed=1, kind=kind, wrappers=wrappers)
    envs = factory("cpu")
    envs.reset()
    reward = envs.step(np.array([[0], [1]])).reward
    envs.close()
    assert reward[0] == reward[1]
    return float(reward[0, 0])


@pytest.mark.parametrize(
    ("wrappers", "reward"),
    [
        ([], 1.0),
        (AddReward, 2.0),
        ([double, AddReward], 3.0),
        ([AddReward, double], 4.0),
        ([{"name": AddReward, "amount": 3.0}], 4.0),
        ([{"name": f"{HERE}:AddReward", "amount": 3.0}, CLIP], 1.0),
        ([{"name": "clipreward", "min_reward": 0.0, "max_reward": 0.5}], 0.5),
        (f"{HERE}:double", 2.0),
        ({"name": "TransformReward", "func": halve}, 0.5),
        ({"name": "TransformReward", "func": f"{HERE}:halve"}, 0.5),
    ],
)
def test_the_first_wrapper_is_innermost(wrappers: Any, reward: float) -> None:
    assert first_reward(wrappers) == reward


def test_processes_wrap_theirs() -> None:
    assert first_reward([AddReward, CLIP], "async") == 1.0


def test_configs_keep_names_and_options() -> None:
    names = name_wrappers([ClipReward, {"name": AddReward, "amount": 2.0}, "timelimit"])
    assert names == ["ClipReward", {"name": f"{HERE}:AddReward", "amount": 2.0}, "TimeLimit"]
    assert name_wrappers(parse_wrappers(names[:2])) == names[:2]


def test_an_agent_trains_and_is_tested_in_wrapped_environments() -> None:
    limit = {"name": "TimeLimit", "max_episode_steps": 4}
    agent = Agent("ddqn", "CartPole-v1", preset="none", hidden_sizes=8, wrappers=[limit, AddReward], num_test_envs=1)
    evaluation = agent.evaluate(episodes=2)
    assert list(evaluation.lengths) == [4, 4]
    assert list(evaluation.returns) == [8.0, 8.0]
    assert agent.config.wrappers == [limit, f"{HERE}:AddReward"]
    agent.close()


@pytest.mark.parametrize(
    ("wrappers", "message"),
    [
        (["ClipRewards"], r"there is no wrapper 'ClipRewards'; did you mean 'ClipReward'\?"),
        ([{"amount": 1}], r"a mapping of its name and options, got \{'amount': 1\}"),
        ([3], "a wrapper is a name, .* or a mapping of its name and options, got 3"),
        (["ClipReward"], "ClipReward does not take the options {}: InvalidBound: Both `min_reward`"),
        ([{"name": AddReward, "amonut": 1}], r"AddReward does not take the options \{'amonut': 1\}"),
    ],
)
def test_what_is_no_wrapper_is_refused(wrappers: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        VecEnv.create_factory("CartPole-v1", wrappers=wrappers)


def test_vector_envs_of_their_own_make_have_nothing_to_wrap() -> None:
    with pytest.raises(ConfigError, match="wrappers go around single envs, which 'native' has none of; use 'sync'"):
        VecEnv.create_factory("CartPole-v1", kind="native", wrappers=[AddReward])


def test_frames_are_stored_once_where_a_wrapper_leaves_the_stack_alone() -> None:
    pytest.importorskip("ale_py")
    stacked, _, _ = VecEnv.create_factory("ALE/Pong-v5", wrappers=[CLIP])
    assert stacked.frame_stack() == 4
    flat, _, _ = VecEnv.create_factory("ALE/Pong-v5", wrappers=["FlattenObservation"])
    assert flat.frame_stack() is None
