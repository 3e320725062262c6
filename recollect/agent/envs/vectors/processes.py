"""`WatchedVector`: envs in processes of their own, which are replaced when they die or hang."""

import logging
import multiprocessing
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from recollect import keys
from recollect.agent.envs.failures import Rebuilding
from recollect.errors import EnvError
from recollect.interrupts import held_back

_LOG = logging.getLogger(__name__)

DEFAULT_TIMEOUT_S: Final = 300.0
# A new process may have to load its simulator first.
_SHORTEST_BUILD_TIMEOUT_S: Final = 60.0
# What Gymnasium asks processes for.
_STEP: Final = "step"
_RESETS: Final = ("reset", "reset-noop")
_GET: Final = "_call"
_CLOSE: Final = "close"


class _LostError(Exception):
    """Why nothing more comes from the process of an env."""


class _Processes(list[Any]):
    """Processes of a vector env; notes what each is made of, which Python forgets once it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.recipes: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def append(self, process: Any) -> None:
        self.recipes.append((process._target, process._args))
        super().append(process)


class WatchedVector(AsyncVectorEnv[Any, Any]):
    """Gymnasium's envs in processes. One that dies, or is silent for too long, is replaced, and its episode is lost.

    The first observation of a new env comes with reward 0, no end and an info that says that the episode was lost, as
    that of an env that raised, see `FaultTolerantEnv`.

    Parameters
    ----------
    builders : sequence of callable
        Make the envs.
    autoreset_mode : AutoresetMode
        How episodes begin.
    max_consecutive_failures : int
        How often in a row the process of an env may be replaced; one more time is an `EnvError`.
    timeout_s : float, optional
        Seconds that an env may take for a step or a reset.
    """

    def __init__(
        self,
        builders: Sequence[Callable[[], gym.Env[Any, Any]]],
        autoreset_mode: AutoresetMode,
        max_consecutive_failures: int,
        timeout_s: float | None = None,
    ) -> None:
        # Python drops an interrupt that comes in the middle of a fork, and leaves the lock of `logging` locked.
        with held_back():
            super().__init__(builders, copy=False, autoreset_mode=autoreset_mode)
        self.is_closing = False
        timeout_s = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
        self.parent_pipes: list[Any] = [
            _WatchedPipe(_EnvProcess(self, index, pipe, timeout_s), max_consecutive_failures)
            for index, pipe in enumerate(self.parent_pipes)
        ]

    @property
    def processes(self) -> _Processes:
        """Processes of the envs."""
        return self._processes

    @processes.setter
    def processes(self, none: list[Any]) -> None:
        self._processes = _Processes()

    def start(self, index: int) -> Any:
        """Start another process for an env, which ends with this one; returns the pipe to it."""
        context: Any = multiprocessing.get_context()
        target, (_, builder, _, _, *shared) = self.processes.recipes[index]
        ours, theirs = context.Pipe()
        old = self.processes[index]
        process = context.Process(target=target, name=old.name, args=(index, builder, theirs, ours, *shared))
        process.daemon = old.daemon
        with held_back():
            process.start()
        theirs.close()
        self.processes[index] = process
        return ours

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """End the processes; where one is lost meanwhile, all at once."""
        self.is_closing = True
        try:
            super().close_extras(timeout, terminate)
        except EnvError:
            for process, pipe in zip(self.processes, self.parent_pipes, strict=True):
                process.kill()
                process.join()
                pipe.close()


class _EnvProcess:
    """The process of one env, as something that is reset, closed and asked."""

    def __init__(self, vector: WatchedVector, index: int, pipe: Any, timeout_s: float) -> None:
        self.index = index
        self.pipe = pipe
        self._vector = vector
        self._timeout_s = timeout_s
        self._limit_s = timeout_s
        self._asked_at = 0.0

    @property
    def is_closing(self) -> bool:
        """Whether the envs are being closed, so that nothing is to be replaced any more."""
        return self._vector.is_closing

    def ask(self, message: tuple[str, Any]) -> None:
        """Send a message; if nobody hears it, `answer` says so."""
        self._asked_at = time.monotonic()
        try:
            self.pipe.send(message)
        except OSError:
            return

    def answer(self) -> Any:
        """What the process answers; `_LostError` if it is gone, or silent for too long."""
        left_s = max(0.0, self._asked_at + self._limit_s - time.monotonic())
        try:
            if self.pipe.poll(left_s):
                return self.pipe.recv()
        except (EOFError, OSError):
            process = self._vector.processes[self.index]
            process.join(1.0)
            raise _LostError(f"its process ended with exit code {process.exitcode}") from None
        raise _LostError(f"it did not answer within {self._limit_s:g} s (env_timeout_s)")

    def replace(self) -> "_EnvProcess":
        """Start another process for the env; this one must have been closed."""
        new = _EnvProcess(self._vector, self.index, self._vector.start(self.index), self._timeout_s)
        new._limit_s = max(self._timeout_s, _SHORTEST_BUILD_TIMEOUT_S)
        return new

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self.ask((_RESETS[0], {"seed": seed, "options": None}))
        (obs, info), has_worked = self.answer()
        self._limit_s = self._timeout_s
        if not has_worked:
            raise _LostError("it could not be reset")
        return obs, info

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._vector.processes[self.index].kill()
        self._vector.processes[self.index].join()
        self.pipe.close()


class _RebuildingProcess(Rebuilding[Any]):
    """Starts the process of an env again and again; what happened to the last one is one line."""

    def _new_traceback(self, error: Exception) -> str:
        return ""


class _WatchedPipe:
    """The pipe to the process of one env, as Gymnasium uses it: whatever happens there, an answer comes."""

    def __init__(self, process: _EnvProcess, max_consecutive_failures: int) -> None:
        self._process = process
        self._command = ""
        self._rebuilding = _RebuildingProcess(lambda: self._process.replace(), max_consecutive_failures)

    @property
    def closed(self) -> bool:
        """Whether nobody is to be asked any more."""
        return bool(self._process.pipe.closed)

    def send(self, message: tuple[str, Any]) -> None:
        """Ask the process for something."""
        self._command, content = message
        if self._command == _RESETS[0]:
            self._rebuilding.remember(content["seed"])
        self._process.ask(message)

    def poll(self, timeout_s: float | None = None) -> bool:
        """Whether an answer, or the end of the process, has come."""
        return bool(self._process.pipe.poll(timeout_s))

    def recv(self) -> tuple[Any, bool]:
        """What was asked for and whether that worked; in place of a process that is lost, another one's beginning."""
        try:
            answer: tuple[Any, bool] = self._process.answer()
        except _LostError as error:
            return self._instead(error), True
        if self._command == _STEP:
            self._rebuilding.num_consecutive = 0
        return answer

    def close(self) -> None:
        """Ask nobody any more."""
        self._process.pipe.close()

    def _instead(self, error: _LostError) -> Any:
        if self._command == _CLOSE:
            return None
        if self._command == _GET:
            # What asks for states takes this for the reason why there is none; the next step replaces the process.
            return str(error)
        if self._process.is_closing or self._command not in (_STEP, *_RESETS):
            raise EnvError(f"env {self._process.index} is lost: {error}")
        self._process, obs, info = self._rebuilding.rebuild(self._process, error)
        _LOG.warning("env %d failed and was rebuilt: %s", self._process.index, error)
        info[keys.EPISODE_LOST] = self._command != _RESETS[0]
        return (obs, 0.0, False, False, info) if self._command == _STEP else (obs, info)
