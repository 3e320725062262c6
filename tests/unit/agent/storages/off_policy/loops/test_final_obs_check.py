"""A loop that loses the ends of episodes is told so."""

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from recollect import PERBuffer, keys
from recollect.errors import RecollectWarning

NUM_ENVS = 3
CONVERTERS: dict[str, Any] = {
    "array": lambda obs: obs,
    "tensor": torch.from_numpy,
    "dict": lambda obs: {"inner": {"position": obs[:, :2]}, "rest": obs[:, 2:]},
}


def run_loop(mode: AutoresetMode, *, with_finals: bool, kind: str = "array", num_steps: int = 120) -> list[str]:
    """Store the steps of a vector env as a training loop would; returns the warnings, named by file."""
    convert = CONVERTERS[kind]
    envs = gym.make_vec(
        "CartPole-v1", NUM_ENVS, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode, "copy": False}
    )
    envs.action_space.seed(1)
    memory = PERBuffer.standalone(120, num_envs=NUM_ENVS, seed=1)
    obs = envs.reset(seed=1)[0].copy()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(num_steps):
            action = envs.action_space.sample()
            after, reward, terminated, truncated, infos = envs.step(action)
            next_obs = after.copy()
            ended = terminated | truncated
            if with_finals and ended.any() and keys.FINAL_OBS in infos:
                next_obs[ended] = np.stack(infos[keys.FINAL_OBS][ended])
            memory.add(convert(obs), action, reward, convert(next_obs), terminated, truncated)
            obs[...] = after
    assert memory.get_all_buffer_data()[keys.NEXT_DONE].sum() >= 10
    return [each.filename for each in caught if issubclass(each.category, RecollectWarning)]


@pytest.mark.parametrize("kind", CONVERTERS)
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_lost_ends_are_noticed_once_where_the_step_was_added(mode: AutoresetMode, kind: str) -> None:
    assert run_loop(mode, with_finals=False, kind=kind) == [__file__]


@pytest.mark.parametrize("kind", CONVERTERS)
def test_a_right_loop_is_left_in_peace(kind: str) -> None:
    assert run_loop(AutoresetMode.SAME_STEP, with_finals=True, kind=kind) == []


def test_observations_that_never_change_tell_nothing(recwarn: pytest.WarningsRecorder) -> None:
    memory = PERBuffer.standalone(100)
    obs = np.zeros((1, 2), np.float32)
    for _ in range(30):
        memory.add(obs, obs, [1.0], obs, [True], [False])
    assert not [each for each in recwarn if issubclass(each.category, RecollectWarning)]
