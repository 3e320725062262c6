import pickle
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete, Sequence, Tuple

from recollect.agent.envs import VecEnv, VecEnvFactory
from recollect.errors import ConfigError
from tests.unit.agent.envs.toys import Toy


def make_factory(**options: Any) -> VecEnvFactory:
    return VecEnv.create_factory("CartPole-v1", **options)[0]


def test_spaces_are_those_of_one_env() -> None:
    _, action_space, obs_space = VecEnv.create_factory(Toy, {"obs": "dict", "action": "matrix"}, 3)
    assert action_space.shape == (2, 3)
    assert obs_space["numbers"].shape == (3,)


def test_envs_know_where_they_belong() -> None:
    envs = make_factory(vec_env_size=2)("cpu", index_worker=1, index_parent=2, mode="test")
    assert (envs.num_envs, envs.device) == (2, torch.device("cpu"))
    assert envs.action_space == Discrete(2)
    assert envs.observation_space.shape == (4,)
    assert repr(envs) == "VecEnv(SyncVectorEnv(num_envs=2), num_envs=2)"
    envs.close()


def test_each_place_has_seeds_of_its_own() -> None:
    factory = make_factory(vec_env_size=3, seed=5)
    places = [(0, 0, "train"), (1, 0, "train"), (0, 1, "train"), (0, 0, "test")]
    seeds = [seed for place in places for seed in factory.seeds(*place)]
    seeds += make_factory(vec_env_size=3, seed=6).seeds()
    assert len(set(seeds)) == 15
    assert factory.seeds(1, 0) == make_factory(vec_env_size=3, seed=5).seeds(1, 0)


def test_more_envs_do_not_change_the_first_ones() -> None:
    assert make_factory(vec_env_size=8).seeds()[:3] == make_factory(vec_env_size=3).seeds()


def test_factory_can_be_sent_away() -> None:
    factory = pickle.loads(pickle.dumps(make_factory(vec_env_size=2, seed=4)))
    here, there = (each("cpu", 0, 0).reset() for each in (make_factory(vec_env_size=2, seed=4), factory))
    assert (here == there).all()


def test_a_second_reset_begins_other_episodes() -> None:
    envs = make_factory(vec_env_size=2, seed=4)()
    assert (envs.reset() != envs.reset()).any(1).all()


def test_repr_says_what_matters() -> None:
    factory, _, _ = VecEnv.create_factory(Toy, {"action": "box"}, 2, kind="async", seed=1)
    expected = "VecEnvFactory('Toy', env_kwargs={'action': 'box'}, vec_env_size=2, kind='async', seed=1)"
    assert repr(factory) == expected


def test_options_reach_the_env() -> None:
    factory, _, _ = VecEnv.create_factory("Pendulum-v1", {"g": 2.5})
    envs = factory()
    assert envs.env_fns[0]().unwrapped.g == 2.5
    assert envs.vector.envs[0].unwrapped.g == 2.5


def test_single_envs_can_be_made_for_hindsight() -> None:
    factory, _, _ = VecEnv.create_factory("recollect/BitFlip-v0", {"n": 4}, 2)
    env = factory().env_fns[1]().unwrapped
    ones = np.ones((3, 4))
    assert env.compute_reward(ones, ones, {}).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"env_fn": 3}, "env_fn must be callable or an id"),
        ({"env_fn": lambda: None}, "env_fn must return a Gymnasium environment, got None"),
        ({"kind": "asink"}, "did you mean 'async'"),
        ({"autoreset_mode": "Later"}, "autoreset_mode must be one of 'NextStep'"),
        ({"vec_env_size": 0}, "vec_env_size must be at least 1"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"max_consecutive_failures": -1}, "max_consecutive_failures must be at least 0"),
        ({"kind": "native", "autoreset_mode": "SameStep"}, "in the mode 'NextStep', got autoreset_mode='SameStep'"),
        ({"kind": "envpool", "autoreset_mode": "SameStep"}, "leave it out"),
        ({"kind": "native", "env_fn": "Pendulum-v1"}, "no vector env of its own"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        VecEnv.create_factory(**{"env_fn": "CartPole-v1", **options})


def test_unknown_mode() -> None:
    with pytest.raises(ConfigError, match="mode must be one of"):
        make_factory()("cpu", 0, 0, "trian")


class Odd(gym.Env[Any, Any]):
    """An env with spaces of one's choice."""

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space


@pytest.mark.parametrize(
    ("spaces", "message"),
    [
        ((Discrete(2), Tuple([Discrete(2)])), "the action space is Tuple"),
        ((Tuple([Discrete(2)]), Discrete(2)), "the observation space has the part Tuple"),
        ((gym.spaces.Dict({"a": Sequence(Discrete(2))}), Discrete(2)), "the observation space has the part Sequence"),
    ],
)
def test_spaces_that_no_actor_understands(spaces: tuple[Any, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        VecEnv.create_factory(partial(Odd, *spaces))


class Silent(gym.vector.VectorEnv[Any, Any, Any]):
    """A vector env that does not say how it begins new episodes."""

    num_envs = 1
    single_observation_space = single_action_space = Discrete(2)


def test_vector_env_must_say_how_it_resets() -> None:
    with pytest.raises(ConfigError, match="does not say how it begins new episodes"):
        VecEnv(Silent())
    factory, _, _ = VecEnv.create_factory(lambda num_envs: Silent(), kind="native", autoreset_mode="SameStep")
    assert factory().num_envs == 1


def test_new_seeds_depend_on_the_first_ones_and_the_number() -> None:
    def first_obs(seed: int, number: int) -> tuple[float, ...]:
        envs = make_factory(vec_env_size=2, seed=seed)()
        envs.reset()
        envs.reseed(number)
        return tuple(envs.reset().ravel())

    assert first_obs(1, 100) == first_obs(1, 100)
    assert len({first_obs(1, 100), first_obs(1, 200), first_obs(2, 100)}) == 3
