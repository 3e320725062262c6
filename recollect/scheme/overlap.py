"""`Overlap`: whether a stage's data are collected during its updates, in their own thread."""

import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from statistics import median
from typing import Final

from recollect.interrupts import Interrupts
from recollect.scheme.collection.worker.deferred_collection import DeferredCollection

_LOG = logging.getLogger(__name__)

_NUM_TRIALS: Final = 9
# What a thread must save of a stage's time, so that it is not chosen for noise.
_MIN_GAIN: Final = 0.02


class Overlap:
    """Collects for an update stage during its updates, or before them; the results are the same.

    Parameters
    ----------
    wanted : bool, optional
        Whether during them. By default the first stages run both ways in turns, and the faster way is chosen: before
        them on a single core, with environments that render, and if one fails in the thread.
    """

    def __init__(self, wanted: bool | None = None) -> None:
        self._choice = wanted if wanted is not None or num_cores() > 1 else False
        self._trials: dict[bool, list[float]] = {True: [], False: []}
        self._executor: ThreadPoolExecutor | None = None
        self._taking: Future[None] | None = None

    @contextmanager
    def running(self, collection: DeferredCollection) -> Iterator[None]:
        """Take the steps of a stage during the block that makes its updates, or before it, and store them after it.

        If the block fails, the steps are stored too: all of them, or as many as there are at an interrupt. An error
        of either side is raised.
        """
        begin = time.perf_counter()
        self._wait()
        if self._choice is None and collection.draws_frames:
            self._choice = False
        num_failures = collection.num_failures
        is_parallel = self._next_way() and collection.can_run_in_parallel
        collection.begin(is_parallel=is_parallel)
        try:
            if is_parallel:
                self._taking = self._thread().submit(collection.take)
            else:
                collection.take()
            yield
        except (*Interrupts, GeneratorExit):
            # Nobody waits for a whole stage; after an error the run is the same with and without overlap.
            collection.stop()
            raise
        finally:
            error = self._wait()
            collection.store()
            if error is not None:
                raise error
        if self._choice is None and is_parallel and collection.num_failures > num_failures:
            self._choice = False
            _LOG.info("environments step before updates: one failed in another thread than its own")
        elif self._choice is None:
            self._follow(is_parallel, time.perf_counter() - begin)

    def close(self) -> None:
        """End the thread."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def _next_way(self) -> bool:
        """Whether the next stage collects during its updates."""
        if self._choice is not None:
            return self._choice
        return len(self._trials[True]) < len(self._trials[False])

    def _follow(self, is_parallel: bool, elapsed_s: float) -> None:
        """Take in how long a stage took, and choose when enough is known."""
        self._trials[is_parallel].append(elapsed_s)
        if min(len(trials) for trials in self._trials.values()) < _NUM_TRIALS:
            return
        during_s, before_s = median(self._trials[True]), median(self._trials[False])
        self._choice = during_s < (1.0 - _MIN_GAIN) * before_s
        _LOG.info(
            "environments step %s updates: a stage takes %.2f ms in parallel and %.2f ms in turn",
            "during" if self._choice else "before",
            1e3 * during_s,
            1e3 * before_s,
        )

    def _thread(self) -> ThreadPoolExecutor:
        """One thread for all stages, since envs may want to be stepped by the same one."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "recollect-collection")
        return self._executor

    def _wait(self) -> BaseException | None:
        """Wait for the thread, also for what it still does if an interrupt broke off a wait; returns its error."""
        if self._taking is None:
            return None
        wait([self._taking])
        taking, self._taking = self._taking, None
        return taking.exception()


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
