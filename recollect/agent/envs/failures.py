"""Envs that fail are rebuilt, reported in the info dict and counted; too many failures in a row are an error."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

import gymnasium as gym
import numpy as np

from recollect import keys
from recollect.agent.envs.seeds import derive_seeds
from recollect.errors import EnvError

_LOG = logging.getLogger(__name__)

Env = TypeVar("Env", bound="gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]")


class Rebuilding(Generic[Env]):
    """Builds an env again and again until it can be reset, and counts the failures in a row.

    Parameters
    ----------
    build : callable
        Makes the env.
    max_consecutive_failures : int
        One more without a good step in between is an `EnvError`.
    """

    def __init__(self, build: Callable[[], Env], max_consecutive_failures: int) -> None:
        self.build = build
        self.num_consecutive = 0
        self._max_consecutive = max_consecutive_failures
        self._num_built = 0
        self._seed = 0

    def remember(self, seed: int | None) -> None:
        """Derive the seeds of later envs from that of the first."""
        if seed is not None:
            self._seed = seed

    def rebuild(self, broken: Env, error: Exception) -> tuple[Env, Any, dict[str, Any]]:
        """Replace a broken env.

        Returns
        -------
        env : Env
            The new one.
        obs : array or dict of arrays
            Its first observation.
        info : dict
            That of its reset, with the number of failures and the last of them.
        """
        env = broken
        num_failures = 0
        while True:
            num_failures += 1
            with suppress(Exception):
                env.close()
            self._count(error)
            try:
                env = self.build()
                obs, info = env.reset(seed=self._next_seed())
            except Exception as again:  # noqa: BLE001  # whatever an env raises is a failure of it
                error = again
                continue
            return env, obs, {**info, keys.NUM_FAILURES: num_failures, keys.LAST_FAILURE: describe(error)}

    def _count(self, error: Exception) -> None:
        self.num_consecutive += 1
        if self.num_consecutive > self._max_consecutive:
            raise EnvError(
                f"an env failed {self.num_consecutive} times in a row, at last with {describe(error)}; "
                f"max_consecutive_failures is {self._max_consecutive}: correct the env, or allow more"
            ) from error

    def _next_seed(self) -> int:
        self._num_built += 1
        return derive_seeds([self._seed, self._num_built], 1)[0]


class FaultTolerantEnv(gym.Wrapper[Any, Any, Any, Any]):
    """An env that is rebuilt when it raises in `step` or `reset`.

    A step that failed returns the first observation of the new env, reward 0 and no end; its info reports
    that the episode was lost. Vector envs need to know nothing of it. Parameters as of `Rebuilding`.
    """

    def __init__(self, build: Callable[[], gym.Env[Any, Any]], max_consecutive_failures: int) -> None:
        super().__init__(build())
        self._rebuilding = Rebuilding(build, max_consecutive_failures)

    def step(self, action: object) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        try:
            result = self.env.step(action)
        except Exception as error:  # noqa: BLE001  # whatever an env raises is a failure of it
            self.env, obs, info = self._rebuilding.rebuild(self.env, error)
            return obs, 0.0, False, False, info | {keys.EPISODE_LOST: True}
        self._rebuilding.num_consecutive = 0
        return result

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._rebuilding.remember(seed)
        try:
            return self.env.reset(seed=seed, options=options)
        except Exception as error:  # noqa: BLE001  # whatever an env raises is a failure of it
            self.env, obs, info = self._rebuilding.rebuild(self.env, error)
            return obs, info | {keys.EPISODE_LOST: False}


class FailureLog:
    """Counts and logs the failures that infos report.

    Attributes
    ----------
    num_failures : int
        Failures so far.
    """

    def __init__(self) -> None:
        self.num_failures = 0

    def read(self, infos: dict[str, Any]) -> np.ndarray | None:
        """Take in the infos of one call; returns which envs lost an episode, bool [num_envs], None if none did."""
        counts = infos.get(keys.NUM_FAILURES)
        if counts is None:
            return None
        for env in np.flatnonzero(counts):
            self.num_failures += int(counts[env])
            _LOG.warning("env %d failed with %s and was rebuilt", env, infos[keys.LAST_FAILURE][env])
        lost = np.asarray(infos[keys.EPISODE_LOST], np.bool_)
        return lost if lost.any() else None


def describe(error: BaseException) -> str:
    """An error as one line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
