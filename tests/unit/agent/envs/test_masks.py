"""Masks of vector envs: put into observations, whatever the kind of vector env and of masks, and checked."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, MultiBinary
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from recollect import keys
from recollect.agent.envs import VecEnv
from recollect.errors import ConfigError, EnvError, RecollectWarning, SchemaError
from tests.masked_envs import MASKS, Gates

MODES = [mode.value for mode in AutoresetMode]


def places(obs: Any) -> Any:
    """Which place each row of masked observations shows."""
    return obs["place" if "place" in obs else "observation"].argmax(-1)


def legal_actions(obs: Any) -> np.ndarray:
    """The last action that each row allows; what stands where an episode is over is not taken."""
    num_actions = obs[keys.ACTION_MASK].shape[1]
    return (num_actions - 1 - obs[keys.ACTION_MASK][:, ::-1].argmax(-1))[:, None]


def walk(envs: VecEnv, num_steps: int) -> None:
    obs = envs.reset()
    for _ in range(num_steps):
        obs = envs.step(legal_actions(obs)).obs


@pytest.mark.parametrize("gives", ["info", "method", "observation"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_masks_belong_to_the_observations_that_they_come_with(kind: str, mode: str, gives: str) -> None:
    factory, _, obs_space = VecEnv.create_factory(Gates, {"gives": gives}, 2, kind=kind, autoreset_mode=mode, seed=3)
    envs = factory()
    obs = envs.reset()
    num_ends = 0
    for _ in range(24):
        for row, place in enumerate(places(obs)):
            assert obs[keys.ACTION_MASK][row].tolist() == MASKS["discrete"][place]
        step = envs.step(legal_actions(obs))
        is_row = np.ones(2, bool) if step.skip is None else ~step.skip[:, 0]
        for row in np.flatnonzero(is_row & ~step.terminated[:, 0]):
            assert step.next_obs[keys.ACTION_MASK][row].tolist() == MASKS["discrete"][places(step.next_obs)[row]]
        num_ends += int(np.sum(step.terminated | step.truncated))
        obs = step.obs
    assert num_ends > 4
    assert envs.num_failures == 0
    assert obs_space == envs.observation_space
    assert obs_space[keys.ACTION_MASK] == MultiBinary(4)
    envs.close()


def test_an_array_gets_a_name_and_a_dict_one_more_key() -> None:
    _, _, beside_array = VecEnv.create_factory(Gates)
    assert list(beside_array) == [keys.ACTION_MASK, "observation"]
    _, _, of_its_own = VecEnv.create_factory(Gates, {"gives": "observation"})
    assert list(of_its_own) == [keys.ACTION_MASK, "place"]


def test_envs_without_masks_stay_as_they_are() -> None:
    _, _, obs_space = VecEnv.create_factory("CartPole-v1")
    assert isinstance(obs_space, Box)


@pytest.mark.parametrize("gives", ["info", "method", "observation"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_mask_that_allows_nothing_is_refused(kind: str, gives: str) -> None:
    factory, _, _ = VecEnv.create_factory(Gates, {"gives": gives, "blocks": 3}, 2, kind=kind)
    envs = factory()
    with pytest.raises(EnvError, match=r"env 0 allows no action after 3 steps: its mask is \[0, 0, 0, 0\]"):
        walk(envs, 3)
    envs.close()


def test_every_choice_must_allow_something() -> None:
    class Half(Gates):
        def _mask(self) -> np.ndarray:
            return np.array([1, 1, 1, 1, 0, 0], np.int8)

    factory, _, _ = VecEnv.create_factory(Half, {"action": "multi-discrete"})
    with pytest.raises(EnvError, match="env 0 allows no action after 0 steps"):
        factory().reset()


@pytest.mark.filterwarnings("ignore:.*ERROR:UserWarning")  # of the subprocesses
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("widens", r"env [01] gave an action mask of shape \(5,\) after 2 of its steps, expected \(4,\)"),
        ("forgets", r"env [01] gave no info\['action_mask'\] after 2 of its steps"),
    ],
)
def test_a_mask_of_the_wrong_form_is_refused(kind: str, fault: str, message: str) -> None:
    factory, _, _ = VecEnv.create_factory(Gates, {fault: 2}, 2, kind=kind)
    envs = factory()
    with pytest.raises(SchemaError, match=message):
        walk(envs, 2)
    envs.close()


class Odd(Gates):
    """Claims masks of three entries for four actions."""

    def __init__(self) -> None:
        super().__init__("observation")
        self.observation_space = Dict({"place": Box(0.0, 1.0, (4,)), keys.ACTION_MASK: MultiBinary(3)})


def test_a_space_of_masks_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"has the shape \(3,\), expected \(4,\)"):
        VecEnv.create_factory(Odd)


class Continuous(Gates):
    """Masks actions that are no choices."""

    def __init__(self, gives: str) -> None:
        super().__init__(gives)
        self.action_space = Box(-1.0, 1.0, (1,))


@pytest.mark.parametrize("gives", ["info", "method", "observation"])
def test_masks_of_continuous_actions_are_ignored_with_a_warning(gives: str) -> None:
    def first_obs_space() -> gym.Space[Any]:
        factory, _, obs_space = VecEnv.create_factory(Continuous, {"gives": gives})
        factory().reset()
        return obs_space

    with pytest.warns(RecollectWarning, match="action masks are ignored"):
        obs_space = first_obs_space()
    # Of a dict observation, it is an ordinary part.
    assert isinstance(obs_space, Dict if gives == "observation" else Box)


def native(num_envs: int, gives: str) -> gym.vector.VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([partial(Gates, gives)] * num_envs)


def test_native_vector_envs_give_masks_in_their_observations() -> None:
    factory, _, _ = VecEnv.create_factory(native, {"gives": "observation"}, 2, kind="native")
    obs = factory().reset()
    assert [MASKS["discrete"][place] for place in places(obs)] == obs[keys.ACTION_MASK].tolist()
    factory, _, _ = VecEnv.create_factory(native, {"gives": "info"}, 2, kind="native")
    with pytest.raises(ConfigError, match="put the mask into a dict observation"):
        factory().reset()
