"""Drivers: give the same steps whichever way a vector env resets."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from recollect import keys
from recollect.agent.envs.failures import FailureLog
from recollect.agent.envs.masks import check_known
from recollect.agent.envs.step import Step, VectorEnv, copy_arrays, put_rows
from recollect.agent.envs.vectors.stacking import stacking_of
from recollect.errors import ConfigError, EnvError
from recollect.roles import Observation


class Driver(ABC):
    """Steps a vector env, and copies its observations, since it may reuse their memory."""

    def __init__(self, vector: VectorEnv) -> None:
        self.vector = vector
        self.failures = FailureLog()

    def reset(self, seed: int | list[int] | None) -> Observation:
        """Begin an episode in every env."""
        obs, infos = self.vector.reset(seed=seed)  # type: ignore[arg-type]  # lists where the kind takes them
        self.failures.read(infos)
        if keys.ACTION_MASK in infos:
            check_known(self.vector.single_observation_space, self.vector.single_action_space)
        return copy_arrays(obs)

    @abstractmethod
    def step(self, actions: np.ndarray) -> Step:
        """Step every env."""

    def _make_step(
        self,
        next_obs: Observation,
        obs: Observation,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        infos: Mapping[str, Any],
        *,
        resets: np.ndarray | None = None,
        lost_after: np.ndarray | None = None,
    ) -> Step:
        """Put the rows that are no transitions apart.

        `resets` [num_envs] only began an episode, and those of `lost_after` were lost after a true step.
        """
        lost = self.failures.read(infos)
        cut = np.zeros((len(reward), 1), np.bool_)
        skip = None
        if lost is not None:
            cut[:, 0] = lost
            skip = cut.copy()
        if resets is not None:
            skip = cut | resets[:, None]
        if lost_after is not None:
            cut[:, 0] |= lost_after
        rewards = reward.astype(np.float32)[:, None]
        return Step(next_obs, rewards, terminated[:, None], truncated[:, None], cut, skip, obs, infos)


class InTurn(Driver):
    """Steps the envs of a `SyncVectorEnv` itself, and resets each in the step in which it ends.

    Gymnasium's own step spends more on arrays of infos and on copies than many envs on a step. Every mode gives
    the same steps, so it does not matter which one the vector env has.
    """

    vector: SyncVectorEnv[Any, Any]

    def __init__(self, vector: SyncVectorEnv[Any, Any]) -> None:
        super().__init__(vector)
        self._stack = stacking_of(vector.single_observation_space)
        self._none = np.zeros((vector.num_envs, 1), np.bool_)
        self._is_discrete = type(vector.single_action_space) is Discrete

    def step(self, actions: np.ndarray) -> Step:
        envs = self.vector.envs
        # Python's own numbers: spaces, and most envs, take longer over NumPy's.
        given = actions.tolist() if self._is_discrete else actions
        reward = np.empty((len(envs), 1), np.float32)
        rows, infos, ends = [], [], []
        has_failed = False
        for index, env in enumerate(envs):
            obs, reward[index, 0], terminated, truncated, info = env.step(given[index])
            rows.append(obs)
            infos.append(info)
            if terminated or truncated:
                ends.append((index, terminated, truncated))
            if keys.NUM_FAILURES in info:
                has_failed = True
        self.vector._env_obs = rows  # where those who explain errors look
        next_obs, merged = self._stack(rows), _Infos(self.vector, infos)
        if not ends and not has_failed:
            none = self._none
            return Step(next_obs, reward, none, none, none, None, next_obs, merged, is_plain=True)
        flags = np.zeros((2, len(envs)), np.bool_)
        for index, *ended in ends:
            flags[:, index] = ended
        obs = self._reset(rows, merged, [index for index, *_ in ends]) if ends else next_obs
        return self._make_step(next_obs, obs, reward[:, 0], flags[0], flags[1], merged)

    def _reset(self, rows: list[Any], infos: "_Infos", ended: list[int]) -> Observation:
        """Begin an episode in some envs; returns what to act on next in all of them."""
        infos.assemble()  # an env may write to the info that it gave
        new_infos: list[dict[str, Any]] = [{} for _ in rows]
        for index in ended:
            rows[index], new_infos[index] = self.vector.envs[index].reset()
        if any(keys.NUM_FAILURES in info for info in new_infos):
            self.failures.read(_Infos(self.vector, new_infos))
        return self._stack(rows)


class _Infos(Mapping[str, Any]):
    """Infos of single envs in Gymnasium's vector format, assembled on first access."""

    def __init__(self, vector: VectorEnv, infos: Sequence[dict[str, Any]]) -> None:
        self._vector = vector
        self._infos = infos

    def __getitem__(self, name: str) -> Any:
        return self._merged[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._merged)

    def __len__(self) -> int:
        return len(self._merged)

    def assemble(self) -> None:
        """Do it now, because the infos of the envs may change."""
        _ = self._merged

    @cached_property
    def _merged(self) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for index, info in enumerate(self._infos):
            merged = self._vector._add_info(merged, info, index)
        return merged


class AtOnce(Driver):
    """Resets ended envs itself, in the step in which they end, so that no step is spent on it.

    For vector envs that know the option "reset_mask", in the modes "NextStep" and "Disabled".
    """

    def step(self, actions: np.ndarray) -> Step:
        obs, reward, terminated, truncated, infos = self.vector.step(actions)
        obs = next_obs = copy_arrays(obs)
        ended, lost_after = terminated | truncated, None
        if np.count_nonzero(ended):
            obs, reset_infos = self.vector.reset(options={keys.RESET_MASK: ended})
            obs, lost_after = copy_arrays(obs), self.failures.read(reset_infos)
        return self._make_step(next_obs, obs, reward, terminated, truncated, infos, lost_after=lost_after)


class InSameStep(Driver):
    """For vector envs that reset ended envs by themselves and hand the last observations out in the infos."""

    def step(self, actions: np.ndarray) -> Step:
        obs, reward, terminated, truncated, infos = self.vector.step(actions)
        obs = next_obs = copy_arrays(obs)
        ended = terminated | truncated
        if np.count_nonzero(ended):
            next_obs = copy_arrays(obs)
            finals = self._finals(infos)
            for env in np.flatnonzero(ended):
                put_rows(next_obs, env, _of_env(finals, env))
            infos = _with_final_infos(infos)
        return self._make_step(next_obs, obs, reward, terminated, truncated, infos)

    def _finals(self, infos: dict[str, Any]) -> Any:
        if keys.FINAL_OBS not in infos:
            raise EnvError(
                f"an episode ended and {self.vector!r} gives no infos[{keys.FINAL_OBS!r}]; in the mode "
                f"{AutoresetMode.SAME_STEP.value!r} it must, because that observation is lost otherwise"
            )
        return infos[keys.FINAL_OBS]


class InNextStep(Driver):
    """For vector envs that spend a step on the reset of an ended env: that row is no transition."""

    def __init__(self, vector: VectorEnv) -> None:
        super().__init__(vector)
        self._ended = np.zeros(vector.num_envs, np.bool_)

    def reset(self, seed: int | list[int] | None) -> Observation:
        self._ended = np.zeros(self.vector.num_envs, np.bool_)
        return super().reset(seed)

    def step(self, actions: np.ndarray) -> Step:
        obs, reward, terminated, truncated, infos = self.vector.step(actions)
        obs = copy_arrays(obs)
        resets = self._ended if self._ended.any() else None
        self._ended = terminated | truncated
        return self._make_step(obs, obs, reward, terminated, truncated, infos, resets=resets)


def driver_of(vector: VectorEnv) -> Driver:
    """Find out how a vector env begins new episodes, and drive it accordingly."""
    mode = vector.metadata.get(keys.AUTORESET_MODE)
    if mode is None:
        raise ConfigError(
            f"{vector!r} does not say how it begins new episodes: its metadata must have "
            f"{keys.AUTORESET_MODE!r}, or give autoreset_mode="
        )
    if type(vector) is SyncVectorEnv:
        return InTurn(vector)
    if mode == AutoresetMode.SAME_STEP:
        return InSameStep(vector)
    knows_mask = isinstance(vector, (SyncVectorEnv, AsyncVectorEnv)) or mode == AutoresetMode.DISABLED
    return AtOnce(vector) if knows_mask else InNextStep(vector)


def _of_env(finals: Observation, env: np.intp) -> Observation:
    """What one env left: an entry of an array of objects, or of each array of a dict."""
    if isinstance(finals, Mapping):
        return {name: _of_env(inner, env) for name, inner in finals.items()}
    return finals[env]


def _with_final_infos(infos: dict[str, Any]) -> dict[str, Any]:
    """Replace the infos of resets by those of the episodes that ended just before."""
    merged = dict(infos)
    for name, values in infos.get(keys.FINAL_INFO, {}).items():
        has_value = infos[keys.FINAL_INFO].get(f"_{name}")
        if has_value is None or isinstance(values, dict):
            continue
        rows = has_value.reshape(len(has_value), *(1,) * (values.ndim - 1))
        merged[name] = values if name not in infos else np.where(rows, values, infos[name])
        merged[f"_{name}"] = has_value | infos.get(f"_{name}", False)
    return merged
