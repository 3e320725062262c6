"""The process in which one competitor lives: it builds stores, times calls and answers over a pipe.

Every competitor has a process of its own, so that one library's threads, allocator settings or crash
cannot touch another's times.
"""

import ctypes
import gc
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from time import perf_counter_ns
from typing import Any

import psutil

from benchmarks.workloads import SEQUENCE_LENGTH, Store, Workload

BLOCK_NS = 60_000_000
"""Aim of one timed block: long enough for the clock, short enough to take turns often."""
MIN_CALLS, MAX_CALLS = 8, 20_000
WARM_UP_CALLS = 5


@dataclass(frozen=True)
class Failure:
    """Why a competitor does not take part in a workload."""

    reason: str
    missing: bool
    """True where the competitor does not have the feature, False where something went wrong."""


@dataclass(frozen=True)
class Block:
    """One timed block of calls."""

    us_per_call: float
    calls: int
    counters: dict[str, int]


class Worker:
    """Holds one competitor's stores and does what the parent asks for by name."""

    def __init__(self, name: str, num_threads: int) -> None:
        import torch

        from benchmarks import peers

        torch.set_num_threads(num_threads)
        self._adapter = peers.load(name)
        self._stores: dict[Store, Any] = {}
        self._calls: dict[str, Callable[[], Any]] = {}

    def describe(self) -> dict[str, str]:
        """Return the competitor's title, version and note."""
        return {
            "title": self._adapter.title,
            "version": self._adapter.version(),
            "note": self._adapter.note(),
        }

    def build(self, store: Store, prioritise: bool) -> int:
        """Build and fill a store, and return the growth of resident memory in bytes."""
        before = resident_bytes()
        adapter = self._adapter(store)
        adapter.fill()
        self._stores[store] = adapter
        gc.collect()
        grown = resident_bytes() - before
        if prioritise and store.prioritised:
            adapter.prioritise()
        return grown

    def prepare(self, workload: Workload) -> int:
        """Warm a workload's call up, check what it returns, and return the calls of a block."""
        adapter = self._store(workload)
        call = adapter.operation(workload)
        result = call()
        if workload.operation in ("sample", "round_trip", "train"):
            check_rows(adapter.num_rows(result), workload)
        for _ in range(WARM_UP_CALLS):
            call()
        self._calls[workload.key] = call
        gc.collect()
        gc.freeze()
        return _block_calls(call)

    def time(self, workload: Workload, calls: int) -> Block:
        """Time one block of calls."""
        adapter = self._store(workload)
        before = adapter.counters()
        elapsed = _timed(self._calls[workload.key], calls)
        counters = {key: value - before.get(key, 0) for key, value in adapter.counters().items()}
        return Block(elapsed / calls / 1000, calls, counters)

    def _store(self, workload: Workload) -> Any:
        if workload.store not in self._stores:
            raise RuntimeError("its store was lost when its process died")
        return self._stores[workload.store]

    def drop(self) -> None:
        """Free all stores."""
        self._calls.clear()
        self._stores.clear()
        gc.unfreeze()
        gc.collect()


def resident_bytes() -> int:
    """Return this process's resident set size, after freed memory went back to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)
    return int(psutil.Process().memory_info().rss)


def check_rows(num_rows: int, workload: Workload) -> None:
    """Raise where a batch is smaller than asked for; sequences are whole."""
    expected = workload.batch_size
    if workload.store.kind == "sequence":
        expected -= expected % SEQUENCE_LENGTH
    if num_rows != expected:
        raise AssertionError(f"a batch has {num_rows} transitions, expected {expected}")


def _timed(call: Callable[[], Any], calls: int) -> int:
    """Time calls in nanoseconds; each result lives until the next is there, as in a training loop."""
    gc.disable()
    try:
        start = perf_counter_ns()
        for _ in range(calls):
            result = call()
        elapsed = perf_counter_ns() - start
    finally:
        gc.enable()
    del result
    return elapsed


def _block_calls(call: Callable[[], Any]) -> int:
    calls, elapsed = MIN_CALLS, _timed(call, MIN_CALLS)
    while elapsed < BLOCK_NS // 4 and calls < MAX_CALLS:
        calls *= 2
        elapsed = _timed(call, calls)
    return min(MAX_CALLS, max(MIN_CALLS, calls * BLOCK_NS // elapsed))


def serve(name: str, num_threads: int, pipe: Connection) -> None:
    """Answer the parent's requests `(method, arguments)` until it hangs up."""
    worker: Worker | None = None
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        try:
            if worker is None:
                worker = Worker(name, num_threads)
            answer = getattr(worker, method)(*arguments)
        except Exception as error:  # noqa: BLE001  whatever a competitor raises is its result
            answer = _failure(error)
        pipe.send(answer)


def _failure(error: Exception) -> Failure:
    from benchmarks.peers.base import UnsupportedError

    if isinstance(error, UnsupportedError):
        return Failure(str(error), missing=True)
    if os.environ.get("BENCH_TRACEBACKS"):
        traceback.print_exception(error)
    text = str(error).strip().splitlines()
    return Failure(f"{type(error).__name__}: {text[0] if text else ''}"[:300], missing=False)
