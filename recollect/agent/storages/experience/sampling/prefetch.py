"""`Prefetcher`: results made ahead of time by threads, taken in the order they were asked for."""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class Prefetcher(Generic[T]):
    """Runs jobs in the background; their results do not depend on how many threads there are.

    Threads start with the first job and end with `close`, or when this object is collected.

    Parameters
    ----------
    num_workers : int
        Threads; with 0 a job is done when it is started.
    """

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers
        self._results: deque[T | Future[T]] = deque()
        self._is_settled = True
        self.renew()
        _all.add(self)

    def renew(self) -> None:
        """Use new threads from now on, as a process has to that was forked: the old ones did not come with it."""
        num_workers = self._num_workers
        self._executor = ThreadPoolExecutor(num_workers, "recollect-loader") if num_workers > 0 else None

    def __len__(self) -> int:
        """Results that may be taken."""
        return len(self._results)

    def start(self, job: Callable[[], T]) -> None:
        """Have a job done."""
        if self._executor is None:
            self._results.append(job())
        else:
            self._results.append(self._executor.submit(job))
            self._is_settled = False

    def take(self) -> T:
        """Return the oldest result, or raise what its job raised."""
        result = self._results.popleft()
        return result.result() if isinstance(result, Future) else result

    def settle(self) -> None:
        """Wait until no job is under way; what one raised is kept for `take`."""
        if not self._is_settled:
            wait(self._futures())
            self._is_settled = True

    def drop(self) -> None:
        """Forget all jobs and results."""
        for future in self._futures():
            future.cancel()
        self.settle()
        self._results.clear()

    def close(self) -> None:
        """End the threads."""
        self.drop()
        if self._executor is not None:
            self._executor.shutdown()

    def _futures(self) -> list[Future[T]]:
        return [result for result in self._results if isinstance(result, Future)]


_all: "WeakSet[Prefetcher[Any]]" = WeakSet()


def _settle_all() -> None:
    for each in list(_all):
        each.settle()


def _renew_all() -> None:
    for each in list(_all):
        each.renew()


# A process that is forked finds all results made, and has threads of its own for those to come.
os.register_at_fork(before=_settle_all, after_in_child=_renew_all)
