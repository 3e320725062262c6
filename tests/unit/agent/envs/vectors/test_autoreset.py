from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from recollect.agent.envs import VecEnv
from recollect.errors import EnvError
from tests.unit.agent.envs.toys import Toy, ToyVector

ACTIONS = np.zeros((2, 1), np.int64)


def play(envs: VecEnv, num_steps: int) -> list[Any]:
    envs.reset()
    return [envs.step(ACTIONS) for _ in range(num_steps)]


def test_any_vector_env_can_be_handed_in() -> None:
    envs = VecEnv(SyncVectorEnv([Toy, Toy], autoreset_mode=AutoresetMode.SAME_STEP), seeds=[0, 1])
    steps = play(envs, 4)
    assert [int(step.next_obs[0, 2]) for step in steps] == [1, 2, 1, 2]
    assert [int(step.obs[0, 2]) for step in steps] == [1, 0, 1, 2]


def test_infos_are_those_of_the_step_also_where_a_reset_followed() -> None:
    for mode in AutoresetMode:
        envs = VecEnv(SyncVectorEnv([Toy, Toy], autoreset_mode=mode), seeds=[0, 1])
        infos = [step.infos for step in play(envs, 6)]
        assert [info["step"].tolist() for info in infos] == [[1, 1], [2, 2], [1, 3], [2, 1], [3, 2], [1, 3]], mode
        assert all(info["_step"].all() for info in infos)


def test_envs_in_turn_get_discrete_actions_as_numbers_of_python() -> None:
    seen: list[Any] = []

    class Noting(Toy):
        def step(self, action: Any) -> Any:
            seen.append(action)
            return super().step(action)

    play(VecEnv(SyncVectorEnv([Noting, Noting]), seeds=[0, 1]), 1)
    assert seen == [0, 0]
    assert [type(action) for action in seen] == [int, int]


class Forgetful(ToyVector):
    """Resets in the same step and forgets the last observation."""

    def step(self, actions: Any) -> Any:
        *result, infos = super().step(actions)
        infos.pop("final_obs", None)
        return *result, infos


def test_last_observation_that_is_missing_is_an_error() -> None:
    with pytest.raises(EnvError, match=r"gives no infos\['final_obs'\]"):
        play(VecEnv(Forgetful("SameStep", 2), seeds=None), 4)


def test_skipped_resets_are_forgotten_by_a_reset_of_all() -> None:
    envs = VecEnv(ToyVector("NextStep", 2))
    steps = play(envs, 10)
    while not steps[-1].terminated.any() and not steps[-1].truncated.any():
        steps.append(envs.step(ACTIONS))
    envs.reset()
    assert envs.step(ACTIONS).skip is None
