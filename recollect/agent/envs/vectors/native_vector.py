"""`FaultTolerantVector`: a native vector env that is rebuilt as a whole when it raises."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from recollect import keys
from recollect.agent.envs.failures import Rebuilding
from recollect.agent.envs.step import VectorEnv
from recollect.errors import ConfigError
from recollect.roles import Info, Observation

# The class is generic for type checkers only: before Gymnasium 1.4 it cannot be subscripted.
if TYPE_CHECKING:
    VectorWrapper = gym.vector.VectorWrapper[Any, Any, Any, Any, Any]
else:
    VectorWrapper = gym.vector.VectorWrapper


class FaultTolerantVector(VectorWrapper):
    """A vector env that is rebuilt when it raises in `step` or `reset`; every env then loses its episode.

    Parameters as of `Rebuilding`, and `mode`: how it begins new episodes, if it does not say so itself.
    """

    def __init__(
        self, build: Callable[[], VectorEnv], mode: AutoresetMode | None, max_consecutive_failures: int
    ) -> None:
        super().__init__(build())
        self._rebuilding = Rebuilding(build, max_consecutive_failures)
        own_mode = self.env.metadata.get(keys.AUTORESET_MODE)
        if mode is not None and own_mode is not None and AutoresetMode(own_mode) is not mode:
            raise ConfigError(
                f"{self.env!r} begins new episodes in the mode {AutoresetMode(own_mode).value!r}, got "
                f"autoreset_mode={mode.value!r}; leave it out"
            )
        self.metadata = {**self.env.metadata, keys.AUTORESET_MODE: own_mode or mode}

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, Info]:
        try:
            obs, reward, terminated, truncated, infos = self.env.step(actions)
        except Exception as error:  # noqa: BLE001  # whatever an env raises is a failure of it
            obs, infos = self._rebuild(error, np.ones(self.num_envs, np.bool_))
            none = np.zeros(self.num_envs, np.bool_)
            return obs, np.zeros(self.num_envs, np.float32), none, none, infos
        self._rebuilding.num_consecutive = 0
        ends = np.array(terminated, np.bool_), np.array(truncated, np.bool_)
        return obs, np.array(reward, np.float32), *ends, infos

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        first = seed[0] if isinstance(seed, list) else seed
        self._rebuilding.remember(first)
        try:
            return self.env.reset(seed=first, options=None if options is None else dict(options))
        except Exception as error:  # noqa: BLE001  # whatever an env raises is a failure of it
            mask = (options or {}).get(keys.RESET_MASK, np.ones(self.num_envs, np.bool_))
            return self._rebuild(error, ~mask)

    def _rebuild(self, error: Exception, episodes_lost: np.ndarray) -> tuple[Any, dict[str, Any]]:
        self.env, obs, infos = self._rebuilding.rebuild(self.env, error)
        # One failure took all envs along: it is counted with the first.
        counts = np.zeros(self.num_envs, np.int64)
        counts[0] = infos[keys.NUM_FAILURES]
        for name in (keys.LAST_FAILURE, keys.FAILURE_TRACEBACK):
            infos[name] = np.full(self.num_envs, infos[name], object)
        infos |= {keys.NUM_FAILURES: counts, keys.EPISODE_LOST: episodes_lost}
        return obs, infos
