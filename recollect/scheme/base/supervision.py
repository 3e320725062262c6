"""Supervision of remote workers: heartbeats, and how often workers may be restarted."""

import time
from collections import deque
from dataclasses import dataclass
from typing import Final

from recollect.errors import WorkerError
from recollect.scheme.base import engine

# A worker that is still being built imports libraries and makes environments, which takes its time.
_SHORTEST_BUILD_TIMEOUT_S: Final = 180.0
_CHECKS_PER_TIMEOUT: Final = 4
_LONGEST_CHECK_INTERVAL_S: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """When a worker counts as hung, and how many may be restarted before the run ends.

    Attributes
    ----------
    timeout_s : float
        Seconds without a heartbeat after which a busy worker is ended.
    max_restarts : int
        Workers of a set that may be restarted within the window.
    window_s : float
        Length of the window in seconds.
    warn_every_s : float
        Seconds between warnings of workers that have not started because they wait for resources.
    """

    timeout_s: float = 60.0
    max_restarts: int = 20
    window_s: float = 600.0
    warn_every_s: float = 60.0

    @property
    def check_every_s(self) -> float:
        """Seconds between checks of the workers."""
        return min(self.timeout_s / _CHECKS_PER_TIMEOUT, _LONGEST_CHECK_INTERVAL_S)

    @property
    def build_timeout_s(self) -> float:
        """Seconds that a worker may take to be built, or to build something itself."""
        return max(self.timeout_s, _SHORTEST_BUILD_TIMEOUT_S)


class FinalWorkerError(WorkerError):
    """Workers that nobody can replace any more: the run ends, also where they serve another worker."""


class RestartLog:
    """Counts the restarts of workers by their index, in `counts`, and ends the run when there are too many."""

    def __init__(self, supervision: Supervision) -> None:
        self.counts: dict[int, int] = {}
        self._supervision = supervision
        self._times: deque[float] = deque()

    def add(self, name: str, index: int, error: BaseException) -> None:
        """Count one more restart, or end the run in the worker's own words."""
        now = time.monotonic()
        while self._times and now - self._times[0] > self._supervision.window_s:
            self._times.popleft()
        if len(self._times) >= self._supervision.max_restarts:
            raise FinalWorkerError(
                f"{name} failed after {len(self._times)} restarts of workers in the last "
                f"{self._supervision.window_s:g} s, at most {self._supervision.max_restarts} are allowed "
                f"(max_restarts); its last failure:\n{engine.original_text(error)}"
            ) from engine.cause_of(error)
        self._times.append(now)
        self.counts[index] = self.counts.get(index, 0) + 1


class Heartbeat:
    """Follows the heartbeat of one remote worker.

    Attributes
    ----------
    progress : int or None
        Its latest heartbeat; None until it has been built, and while it builds something itself.
    has_started : bool
        Whether its process runs. Until then it waits for resources of the cluster, and cannot hang.
    """

    def __init__(self, handle: engine.RemoteHandle, supervision: Supervision) -> None:
        self.handle = handle
        self._supervision = supervision
        self.progress: int | None = None
        self.has_started = False
        self._question: object = None
        self._checked = time.monotonic()
        self._silent_s = 0.0
        self._unanswered_s = 0.0

    @property
    def limit_s(self) -> float:
        """Seconds that the worker may be silent now: longer while it says that it builds something."""
        builds = self.progress is None and self._unanswered_s <= self._supervision.timeout_s
        return self._supervision.build_timeout_s if builds else self._supervision.timeout_s

    def restart_clock(self) -> None:
        """Count silence from now on: the worker had nothing to do until now."""
        self._silent_s = self._unanswered_s = 0.0

    def is_silent(self) -> bool:
        """Check whether the worker, which has something to do, has not moved for too long; never waits for it.

        Only time in which it is checked regularly counts.
        """
        now = time.monotonic()
        if self.has_started:
            elapsed_s = min(now - self._checked, 2 * self._supervision.check_every_s)
            self._silent_s += elapsed_s
            self._unanswered_s += elapsed_s
        self._checked = now
        if self._question is not None and engine.ready([self._question], 0.0):
            self._take(engine.outcome(self._question))
            self._question = None
        if self._question is None:
            self._question = self.handle.progress.options(concurrency_group=engine.CONTROL_GROUP).remote()
        return self._silent_s > self.limit_s

    def _take(self, answer: engine.Outcome) -> None:
        self.has_started = self.has_started or answer.error is None
        # A process that answers is not stopped, whatever it builds.
        self._unanswered_s = 0.0
        if answer.error is None and answer.value != self.progress:
            self.progress = answer.value
            self._silent_s = 0.0
