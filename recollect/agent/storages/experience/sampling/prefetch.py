"""`Prefetcher`: results computed ahead of time by threads, returned in the order of the requests."""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class _Started(Generic[T]):
    """A job that a thread was given."""

    def __init__(self, job: Callable[[], T], executor: ThreadPoolExecutor) -> None:
        self._job = job
        self._future: Future[T] | None = executor.submit(job)

    def lose(self) -> None:
        """Forget the thread, which did not come with a fork; its lock may never be released."""
        self._future = None

    def finish(self) -> Future[T]:
        """Wait for the result; without a thread, it is made here."""
        if self._future is None:
            self._future = Future()
            try:
                self._future.set_result(self._job())
            except Exception as error:  # noqa: BLE001 raised where the result is asked for
                self._future.set_exception(error)
        wait([self._future])
        return self._future

    def cancel(self) -> list[Future[T]]:
        """Have it not done, if it is not under way; returns what there is to wait for."""
        if self._future is None:
            return []
        self._future.cancel()
        return [self._future]


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
        self._results: deque[T | _Started[T]] = deque()
        self._is_settled = True
        self.renew()
        _all.add(self)

    def renew(self) -> None:
        """Use new threads from now on, as a process has to that was forked: the old ones did not come with it."""
        for started in self._started():
            started.lose()
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
            self._results.append(_Started(job, self._executor))
            self._is_settled = False

    def take(self) -> T:
        """Return the oldest result, or raise what its job raised."""
        result = self._results.popleft()
        return result.finish().result() if isinstance(result, _Started) else result

    def settle(self) -> None:
        """Wait until no job is under way; what one raised is kept for `take`."""
        if not self._is_settled:
            for started in self._started():
                started.finish()
            self._is_settled = True

    def drop(self) -> None:
        """Forget all jobs and results."""
        wait([future for started in self._started() for future in started.cancel()])
        self._results.clear()
        self._is_settled = True

    def close(self) -> None:
        """End the threads."""
        self.drop()
        if self._executor is not None:
            self._executor.shutdown()

    def _started(self) -> list[_Started[T]]:
        return [result for result in self._results if isinstance(result, _Started)]


_all: "WeakSet[Prefetcher[Any]]" = WeakSet()


def _renew_all() -> None:
    for each in list(_all):
        each.renew()


# A process that is forked makes again what was being made, and has threads of its own for what is to come.
os.register_at_fork(after_in_child=_renew_all)
