"""Actions come in the form that the environment takes, for one observation or many."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from recollect.api import Agent
from recollect.errors import SchemaError
from recollect.predictor import Predictor

BOX = gym.spaces.Box(-1, 1, (3,), np.float32)
DICT = gym.spaces.Dict({"pixels": gym.spaces.Box(0, 255, (2, 2), np.uint8), "speed": gym.spaces.Box(-1, 1, (1,))})


class Echo:
    """Stands for algorithm and actor: acts with the number of steps that its memory has seen."""

    def __init__(self, obs_space: Any, action_space: Any, width: int = 1) -> None:
        self.obs_space, self.action_space, self.width = obs_space, action_space, width
        self.seen: Any = None
        self.actor = self

    def actor_initial_states(self, obs: Any) -> tuple[Any, torch.Tensor, torch.Tensor]:
        num = len(next(iter(obs.values()))) if isinstance(obs, dict) else len(obs)
        return obs, torch.full((num, 1), 9.0), torch.ones(num, 1)

    def preserving_exploration(self) -> AbstractContextManager[None]:
        return nullcontext()

    def acting_step(self, obs: Any, rhs: Any, done: Any, deterministic: bool) -> Any:
        self.seen = obs, deterministic
        count = rhs * (1 - done) + 1
        return None, count.expand(-1, self.width), count, {}


def make_predictor(obs_space: Any, action_space: Any, width: int = 1) -> tuple[Predictor, Echo]:
    echo = Echo(obs_space, action_space, width)
    return Predictor(echo), echo


def test_one_observation_gives_one_action() -> None:
    predictor, echo = make_predictor(BOX, gym.spaces.Discrete(3))
    action = predictor.predict([0.0, 1.0, 0.5])
    assert action == 1
    assert isinstance(action, int)
    obs, deterministic = echo.seen
    assert (obs.shape, obs.dtype, deterministic) == ((1, 3), np.float32, True)


def test_a_batch_gives_as_many() -> None:
    predictor, echo = make_predictor(BOX, gym.spaces.Box(-1, 1, (2, 2)), width=4)
    assert predictor.predict(np.zeros((5, 3)), deterministic=False).shape == (5, 2, 2)
    assert predictor.predict(np.zeros(3)).shape == (2, 2)
    predictor.predict(np.zeros((5, 3)), deterministic=False)
    assert echo.seen[1] is False


def test_dicts_may_be_single_or_batches() -> None:
    predictor, echo = make_predictor(DICT, gym.spaces.Discrete(3))
    obs = {"pixels": np.zeros((2, 2)), "speed": [0.5], "more": 1}
    assert predictor.predict(obs) == 1
    assert echo.seen[0]["pixels"].dtype == np.uint8
    many = {"pixels": np.zeros((4, 2, 2)), "speed": np.zeros((4, 1))}
    assert predictor.predict(many).shape == (4,)
    with pytest.raises(SchemaError, match="some entries"):
        predictor.predict({"pixels": np.zeros((4, 2, 2)), "speed": [0.5]})
    with pytest.raises(SchemaError, match=r"a dict with \['pixels', 'speed'\], got \['pixels'\]"):
        predictor.predict({"pixels": np.zeros((2, 2))})


@pytest.mark.parametrize("obs", [np.zeros(4), np.zeros((2, 4)), np.zeros((2, 2, 3)), 1.0])
def test_other_shapes_are_refused(obs: Any) -> None:
    predictor, _ = make_predictor(BOX, gym.spaces.Discrete(3))
    with pytest.raises(SchemaError, match=r"must have the shape \(3,\)"):
        predictor.predict(obs)


@pytest.mark.parametrize("obs", ["abc", [[1.0, 2.0], [3.0]], [None, 1.0, {}]])
def test_what_is_no_array_is_refused(obs: Any) -> None:
    predictor, _ = make_predictor(BOX, gym.spaces.Discrete(3))
    with pytest.raises(SchemaError, match="an observation must be an array of float32"):
        predictor.predict(obs)


def test_tensors_are_observations_too() -> None:
    predictor, _ = make_predictor(BOX, gym.spaces.Discrete(3))
    assert predictor.predict(torch.zeros(3, requires_grad=True)) == 1


def test_numbers_are_observations_where_the_space_says_so() -> None:
    predictor, _ = make_predictor(gym.spaces.Discrete(5), gym.spaces.Discrete(3))
    assert predictor.predict(2) == 1
    assert predictor.predict([2, 3, 4]).shape == (3,)


def test_a_memory_lasts_until_the_next_episode() -> None:
    predictor, _ = make_predictor(BOX, gym.spaces.Discrete(9))
    assert [predictor.predict(np.zeros(3)) for _ in range(3)] == [1, 2, 3]
    predictor.begin_episode()
    assert predictor.predict(np.zeros(3)) == 1
    assert predictor.predict(np.zeros((2, 3))).tolist() == [1, 1]


def test_predictions_with_exploration_leave_that_of_the_training_as_it_is() -> None:
    agent = Agent("ddqn", "CartPole-v1", preset="none", hidden_sizes=8)
    epsilon, state = agent.scheme.algo.epsilon, agent.scheme.actor.generator.get_state()
    actions = {agent.predict(np.zeros(4), deterministic=False) for _ in range(50)}
    assert actions == {0, 1}
    assert agent.scheme.algo.epsilon == epsilon
    assert torch.equal(agent.scheme.actor.generator.get_state(), state)
    agent.close()


def test_an_observation_that_is_nan_is_refused() -> None:
    agent = Agent("ddqn", "CartPole-v1", hidden_sizes=(8,))
    with pytest.raises(SchemaError, match=r"an observation is NaN: \[0.0, nan, 0.0, 0.0\]"):
        agent.predict([0.0, float("nan"), 0.0, 0.0])
    agent.close()
