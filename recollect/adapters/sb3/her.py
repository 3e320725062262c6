"""Hindsight experience replay for Stable-Baselines3, with the goal functions of its environments."""

import warnings
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from gymnasium import spaces
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy

from recollect import keys
from recollect.adapters.sb3.buffers import EREBuffer
from recollect.agent.storages.experience.store.ring import columns
from recollect.agent.storages.off_policy.her_buffer import HERBuffer as HERStorage
from recollect.errors import RecollectWarning, StorageError
from recollect.roles import Device

_REWARD: Final = "compute_reward"
_TERMINATED: Final = "compute_terminated"


class HERBuffer(EREBuffer, HerReplayBuffer):
    """Hindsight for SB3's goal environments; `n_step`, `alpha` and `eta` add what the other buffers do.

    Rows are relabelled when they are drawn, those of episodes still running, too. Where the environment has
    `compute_terminated`, terminations are those of the new goal.

    Parameters
    ----------
    buffer_size, observation_space, action_space, device, n_envs, optimize_memory_usage, handle_timeout_termination
        As in `ReplayBuffer`.
    env : VecEnv
        Whose first environment's `compute_reward` is asked; SB3 gives it.
    copy_info_dict : bool
        Infos are not stored: the reward function gets empty ones, with a warning if it was to get others.
    **options
        As in `ReplayBuffer`, and `share`, `strategy`, `compute_reward`, `compute_terminated`. SB3's names go, too:
        `n_sampled_goal` are relabelled rows for each one that is not, `goal_selection_strategy` is `strategy`.
    """

    storage_class = HERStorage
    env: VecEnv | None

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        env: VecEnv | None = None,
        device: Device = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        copy_info_dict: bool = False,
        has_terminations: bool | None = None,
        **options: Any,
    ) -> None:
        if copy_info_dict:
            warnings.warn(
                "copy_info_dict has no effect: infos are not stored, and compute_reward gets empty ones",
                RecollectWarning,
                stacklevel=2,
            )
        self.env = env
        self.copy_info_dict = copy_info_dict
        self._has_terminations = bool(env and _has(env, _TERMINATED)) if has_terminations is None else has_terminations
        super().__init__(
            buffer_size,
            observation_space,
            action_space,
            device,
            n_envs,
            optimize_memory_usage,
            handle_timeout_termination,
            **options,
        )

    def set_env(self, env: VecEnv) -> None:
        """Give a buffer that was loaded its environment."""
        self.env = env

    def truncate_last_trajectory(self) -> None:
        """Say that the episodes that the newest steps belong to were left there."""
        newest = self._arrays.ends()[0][self.pos - 1]
        envs = np.flatnonzero(newest == 0)
        if len(self.memory) and len(envs):
            warnings.warn(
                "The last trajectory in the replay buffer will be truncated; if the same episode continues, say "
                "truncate_last_traj=False",
                UserWarning,
                stacklevel=2,
            )
            columns.end_newest(self.memory.store, envs, terminated=False)

    @property
    def ep_length(self) -> np.ndarray:
        """Steps of the episode that each step belongs to, `[buffer_size, n_envs]`; 0 of one that has not ended."""
        lengths = np.zeros((self.buffer_size, self.n_envs), np.int64)
        ended = self._arrays.ends()[0]
        for env in range(self.n_envs):
            begin = 0
            for end in np.flatnonzero(np.roll(ended[:, env], -self._oldest)):
                lengths[(self._oldest + np.arange(begin, end + 1)) % self.buffer_size, env] = end + 1 - begin
                begin = int(end) + 1
        return lengths

    @property
    def _current_ep_start(self) -> np.ndarray:
        """Ring positions at which the running episodes begin, `[n_envs]`."""
        ended = np.roll(self._arrays.ends()[0], -self._oldest, axis=0)
        last = np.array([np.flatnonzero(column)[-1] + 1 if column.any() else 0 for column in ended.T])
        return (self._oldest + last) % self.buffer_size

    @property
    def _oldest(self) -> int:
        return (self.pos - self.memory.size) % self.buffer_size

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["options"]["has_terminations"] = self._has_terminations
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        buffer_size, observation_space, action_space, device = state["arguments"]
        arguments = (buffer_size, observation_space, action_space, None, device)
        super().__setstate__({**state, "arguments": arguments})

    def _translated(self, options: Mapping[str, Any]) -> dict[str, Any]:
        ours = super()._translated(options)
        strategy = ours.pop("goal_selection_strategy", None)
        if strategy is not None:
            ours["strategy"] = strategy.name.lower() if isinstance(strategy, GoalSelectionStrategy) else strategy
        if (num_goals := ours.pop("n_sampled_goal", None)) is not None:
            ours["share"] = 1 - 1 / (num_goals + 1)
        return ours

    def _recommended(self, given: Mapping[str, Any]) -> dict[str, Any]:
        functions: dict[str, Any] = {_REWARD: self._ask_reward}
        if self._has_terminations:
            local = None if self.env is None else _first_local(self.env)
            functions[_TERMINATED] = self._ask_terminated if local is None else local.get_wrapper_attr(_TERMINATED)
        return {**super()._recommended(given), **functions}

    def _ask_reward(self, achieved: np.ndarray, desired: np.ndarray, info: object) -> Any:
        # Of many goals, environments expect as many infos.
        is_batch = achieved.ndim > len(self.obs_shape[keys.ACHIEVED_GOAL])
        infos = [{} for _ in achieved] if is_batch else info
        return self._ask(_REWARD, achieved, desired, infos)

    def _ask_terminated(self, achieved: np.ndarray, desired: np.ndarray, info: object) -> Any:
        return self._ask(_TERMINATED, achieved, desired, info)

    def _ask(self, name: str, *arguments: object) -> Any:
        """What the first environment says, in this process or another."""
        if self.env is None:
            raise StorageError("a HERBuffer that was loaded has no environment yet: call set_env(env)")
        return self.env.env_method(name, *arguments, indices=[0])[0]


def _has(env: VecEnv, name: str) -> bool:
    local = _first_local(env)
    return env.has_attr(name) if local is None else hasattr(local.unwrapped, name)


def _first_local(env: VecEnv) -> Any:
    """The first environment, if it lives in this process."""
    return next(iter(getattr(env.unwrapped, "envs", ())), None)
