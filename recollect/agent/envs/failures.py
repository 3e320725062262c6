"""Envs that fail are rebuilt, reported in the info dict and counted; too many failures in a row are an error."""

import logging
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, TypeVar

import gymnasium as gym
import numpy as np

from recollect import keys
from recollect.agent.envs.seeds import derive_seeds
from recollect.agent.envs.state import find_gap, read_state, write_state
from recollect.errors import EnvError
from recollect.files.records import as_count

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
        self._reported: set[str] = set()

    def state(self) -> dict[str, int]:
        """What decides how later envs are seeded, and when there were too many failures."""
        return {"num_consecutive": self.num_consecutive, "num_built": self._num_built, "seed": self._seed}

    def load_state(self, state: Mapping[str, int]) -> None:
        """Resume from `state`."""
        num_consecutive, num_built = as_count(state["num_consecutive"]), as_count(state["num_built"])
        self._seed = as_count(state["seed"])
        self.num_consecutive, self._num_built = num_consecutive, num_built

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
            That of its reset, with the number of failures, the last of them, and the traceback of one that has not
            been reported yet.
        """
        env = broken
        num_failures, text = 0, ""
        while True:
            num_failures += 1
            text = text or self._new_traceback(error)
            with suppress(Exception):
                env.close()
            self._count(error, text)
            try:
                env = self.build()
                obs, info = env.reset(seed=self._next_seed())
            except Exception as again:  # noqa: BLE001  # whatever an env raises is a failure of it
                error = again
                continue
            failure = {keys.LAST_FAILURE: describe(error), keys.FAILURE_TRACEBACK: text}
            return env, obs, {**info, keys.NUM_FAILURES: num_failures, **failure}

    def _new_traceback(self, error: Exception) -> str:
        """The traceback of an error, without the frame here that caught it; empty if it was reported before."""
        caught = error.__traceback__
        text = "".join(traceback.format_exception(type(error), error, caught and caught.tb_next))
        place = code_path(text)
        if place in self._reported:
            return ""
        self._reported.add(place)
        return text

    def _count(self, error: Exception, text: str) -> None:
        self.num_consecutive += 1
        if self.num_consecutive > self._max_consecutive:
            # The text of the traceback reaches every process and the command line, which the exception itself does not.
            raise EnvError(
                f"an env failed {self.num_consecutive} times in a row, at last with {describe(error)}; "
                f"max_consecutive_failures is {self._max_consecutive}: correct the env, or allow more"
                + (f"\n\n{text}" if text else "")
            ) from None

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

    def get_state(self) -> dict[str, int]:
        """State of this layer."""
        return self._rebuilding.state()

    def set_state(self, state: Mapping[str, int]) -> None:
        """Resume from what `get_state` gave."""
        self._rebuilding.load_state(state)

    @property
    def all_state(self) -> list[dict[str, Any]] | str:
        """State of the env with all of its layers; why there is none, if it cannot be saved."""
        return find_gap(self) or read_state(self)

    @all_state.setter
    def all_state(self, state: list[dict[str, Any]]) -> None:
        write_state(self, state)


class FailureLog:
    """Counts the failures that infos report, and shows the traceback of each kind once.

    Attributes
    ----------
    num_failures : int
        Failures so far.
    shown : set of str
        The kinds that were shown; other envs of the process may have it in common.
    """

    def __init__(self) -> None:
        self.num_failures = 0
        self.shown: set[str] = set()
        self._next_count = 10

    def read(self, infos: Mapping[str, Any]) -> np.ndarray | None:
        """Take in the infos of one call; returns which envs lost an episode, bool [num_envs], None if none did."""
        counts = infos.get(keys.NUM_FAILURES)
        if counts is None:
            return None
        for env in np.flatnonzero(counts):
            self.num_failures += int(counts[env])
            self._report(int(env), infos[keys.LAST_FAILURE][env], infos[keys.FAILURE_TRACEBACK][env])
        lost = np.asarray(infos[keys.EPISODE_LOST], np.bool_)
        return lost if lost.any() else None

    def _report(self, env: int, failure: str, text: str) -> None:
        if text and code_path(text) not in self.shown:
            self.shown.add(code_path(text))
            _LOG.warning("env %d failed and was rebuilt; further failures like this one are counted:\n%s", env, text)
        if self.num_failures >= self._next_count:
            _LOG.warning("envs have failed %d times so far, at last env %d with %s", self.num_failures, env, failure)
            self._next_count = 10 * self.num_failures


def code_path(text: str) -> str:
    """The frames of a traceback, without the message, which may differ from one time to the next."""
    return "\n".join(line for line in text.splitlines() if line.startswith(" "))


def describe(error: BaseException) -> str:
    """An error as one line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
