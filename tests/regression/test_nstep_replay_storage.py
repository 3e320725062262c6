"""Known faults of earlier systems: n-step replay with background loading."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from recollect.agent.storages.off_policy.nstep_replay_storage import NStepReplayStorage

SPACE = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
ACTIONS = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
DISCOUNT = 0.5


def storage(num_envs: int = 1) -> NStepReplayStorage:
    return NStepReplayStorage(
        SPACE,
        ACTIONS,
        storage_size=100 * num_envs,
        num_envs=num_envs,
        batch_size=64,
        num_workers=2,
        n_step=3,
        discount=DISCOUNT,
        seed=1,
    )


def add(made: NStepReplayStorage, number: int, *, terminated: bool = False, num_envs: int = 1) -> None:
    """Add step `number` of all envs: observation `[number, env]`, reward 1."""
    obs = torch.tensor([[number, env] for env in range(num_envs)], dtype=torch.float32)
    flags = torch.full((num_envs,), terminated)
    made.add(
        obs,
        torch.zeros(num_envs, 1),
        torch.ones(num_envs),
        flags,
        torch.zeros(num_envs, dtype=torch.bool),
        {},
        obs + torch.tensor([1.0, 0.0]),
    )


def test_every_env_is_stored() -> None:
    """A known fault of earlier systems: only the first env's steps were kept."""
    with storage(num_envs=3) as made:
        for number in range(5):
            add(made, number, num_envs=3)
        assert set(made.sample().observations[:, 1].tolist()) == {0, 1, 2}


def test_nothing_is_written_unless_a_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A known fault of earlier systems: all runs shared the folder `./storage` and each other's data."""
    monkeypatch.chdir(tmp_path)
    with storage() as first, storage() as second:
        for number in range(5):
            add(first, number)
            add(second, 50 + number, terminated=number == 4)
        assert first.sample().observations[:, 0].max() < 50
        assert second.sample().observations[:, 0].min() >= 50
    assert list(tmp_path.iterdir()) == []


def test_one_running_episode_is_enough_for_all_loaders() -> None:
    """A known fault of earlier systems: sampling failed until each loader owned an episode."""
    with storage() as made:
        add(made, 0)
        batch = next(iter(made.replay_iter()))
        assert batch.observations.shape == (64, 2)
        assert (batch.next_observations[:, 0] == 1).all()


def test_episodes_shorter_than_n_are_sampled() -> None:
    """A known fault of earlier systems: an episode of fewer than n steps raised."""
    with storage() as made:
        add(made, 0)
        add(made, 1, terminated=True)
        batch = made.sample()
        returns = dict(zip(batch.observations[:, 0].tolist(), batch.rewards.ravel().tolist(), strict=True))
        assert returns == {0.0: 1 + DISCOUNT, 1.0: 1.0}


def test_nothing_is_expected_after_a_termination() -> None:
    """A known fault of earlier systems: returns were bootstrapped beyond terminal states."""
    with storage() as made:
        for number in range(10):
            add(made, number, terminated=number == 9)
        batch = made.sample()
        discounts = dict(zip(batch.observations[:, 0].tolist(), batch.discounts.ravel().tolist(), strict=True))
        for number, discount in discounts.items():
            assert discount == (0.0 if number >= 7 else DISCOUNT**3)
        assert len({*discounts} & {7.0, 8.0, 9.0}) > 0


class ThreeSteps(gym.Env[np.ndarray, np.ndarray]):
    """Counts its steps, and is truncated after three."""

    observation_space = SPACE
    action_space = ACTIONS

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.number = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.number += 1
        return np.full(2, self.number, np.float32), 1.0, False, self.number == 3, {}


def test_final_observations_are_found_where_vector_envs_put_them_today() -> None:
    """A known fault of earlier systems: an info key was read that Gymnasium 1.0 has removed."""
    envs = gym.vector.SyncVectorEnv([ThreeSteps, ThreeSteps], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    with storage(num_envs=2) as made:
        obs, _ = envs.reset()
        for _ in range(7):
            actions = np.zeros((2, 1), np.float32)
            after, rewards, terminated, truncated, infos = envs.step(actions)
            arrays = (obs, actions, rewards, terminated, truncated)
            made.add(*map(torch.as_tensor, arrays), infos, torch.as_tensor(after))
            obs = after.copy()
        batch = made.sample()
        last = batch.observations[:, 0] == 2
        assert last.any()
        assert (batch.next_observations[last] == 3).all()
        assert (batch.discounts.ravel()[last] == DISCOUNT).all()
