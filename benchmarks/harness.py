"""Runs the competitors in their processes, in turn, and collects the times."""

import logging
import multiprocessing
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import median
from typing import Any

from benchmarks.worker import Block, Failure, serve
from benchmarks.workloads import Footprint, Store, Workload

logger = logging.getLogger(__name__)

WARM_STORE_STEPS = 2_000


class PeerProcess:
    """A competitor in a process of its own; a new one takes over when it dies."""

    def __init__(self, name: str, num_threads: int) -> None:
        self.name = name
        self._num_threads = num_threads
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far_end = context.Pipe()
        self._process = context.Process(target=serve, args=(self.name, self._num_threads, far_end), daemon=True)
        self._process.start()
        far_end.close()

    def send(self, method: str, *arguments: Any) -> None:
        """Ask without waiting."""
        self._pipe.send((method, arguments))

    def receive(self) -> Any:
        """Wait for the answer; a `Failure` where the process died or the competitor raised."""
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            reason = _exit_reason(self._process.exitcode)
            self._start()
            return Failure(reason, missing=False)

    def ask(self, method: str, *arguments: Any) -> Any:
        self.send(method, *arguments)
        return self.receive()

    def close(self) -> None:
        self._pipe.close()
        self._process.join(timeout=10)
        if self._process.is_alive():
            self._process.kill()


@dataclass
class Timing:
    """The blocks that one competitor ran of one workload."""

    blocks: list[Block] = field(default_factory=list)

    @property
    def min_us(self) -> float:
        return min(block.us_per_call for block in self.blocks)

    @property
    def median_us(self) -> float:
        return median(block.us_per_call for block in self.blocks)

    @property
    def calls(self) -> int:
        return sum(block.calls for block in self.blocks)

    def per_call(self, counter: str) -> float | None:
        """Return what a counter grew by per call, if it is counted."""
        if not all(counter in block.counters for block in self.blocks):
            return None
        return sum(block.counters[counter] for block in self.blocks) / self.calls


Outcome = Timing | Failure
Times = dict[str, dict[str, Outcome]]
"""Outcomes by workload and competitor."""


def run(processes: dict[str, PeerProcess], workloads: Sequence[Workload], repeats: int) -> Times:
    """Time all workloads, group by group."""
    times: Times = {}
    for group, members in groupby(workloads, key=lambda workload: workload.group):
        logger.info("group %s", group)
        times |= _run_group(processes, list(members), repeats)
    return times


def _run_group(processes: dict[str, PeerProcess], workloads: list[Workload], repeats: int) -> Times:
    failures = _build(processes, workloads)
    entries: dict[tuple[str, str], tuple[Workload, int]] = {}
    times: Times = {workload.key: {} for workload in workloads}
    for workload in workloads:
        for name in _taking_part(workload, processes):
            failure = failures.get((name, workload.store))
            calls = failure or processes[name].ask("prepare", workload)
            if isinstance(calls, Failure):
                times[workload.key][name] = _named(calls, name, workload)
            else:
                entries[workload.key, name] = (workload, calls)
                times[workload.key][name] = Timing()
    for repeat in range(repeats):
        _take_turns(processes, entries, times, first=repeat)
    for process in processes.values():
        process.ask("drop")
    return times


def _build(processes: dict[str, PeerProcess], workloads: list[Workload]) -> dict[tuple[str, Store], Failure]:
    failures: dict[tuple[str, Store], Failure] = {}
    for store in dict.fromkeys(workload.store for workload in workloads):
        names = {name for w in workloads if w.store == store for name in _taking_part(w, processes)}
        for name in processes:
            if name in names:
                answer = processes[name].ask("build", store, True)
                if isinstance(answer, Failure):
                    failures[name, store] = answer
    return failures


def _take_turns(
    processes: dict[str, PeerProcess],
    entries: dict[tuple[str, str], tuple[Workload, int]],
    times: Times,
    first: int,
) -> None:
    """Let every competitor run one block of every workload; each repeat starts with another one."""
    keys = list(entries)
    turn = first % max(1, len(keys))
    for key, name in keys[turn:] + keys[:turn]:
        workload, calls = entries[key, name]
        timing = times[key][name]
        if isinstance(timing, Failure):
            continue
        block = processes[name].ask("time", workload, calls)
        if isinstance(block, Failure):
            times[key][name] = _named(block, name, workload)
        else:
            timing.blocks.append(block)


def measure_footprints(
    names: Sequence[str], footprints: Iterable[Footprint], num_threads: int
) -> dict[str, dict[str, float | Failure]]:
    """Measure the bytes that a full store takes per transition, each in a fresh process."""
    results: dict[str, dict[str, float | Failure]] = {}
    for footprint in footprints:
        logger.info("memory %s", footprint.key)
        results[footprint.key] = {
            name: _footprint(name, footprint.store, num_threads) for name in names if name in footprint.competitors
        }
    return results


def _footprint(name: str, store: Store, num_threads: int) -> float | Failure:
    """Fill a small store first, so that imports and compiled code are not counted."""
    process = PeerProcess(name, num_threads)
    try:
        small = Store(kind=store.kind, num_steps=WARM_STORE_STEPS, num_envs=store.num_envs)
        warm = process.ask("build", small, False)
        if isinstance(warm, Failure):
            return warm
        process.ask("drop")
        grown = process.ask("build", store, False)
        return grown if isinstance(grown, Failure) else grown / store.num_steps
    finally:
        process.close()


def _taking_part(workload: Workload, processes: dict[str, PeerProcess]) -> list[str]:
    return [name for name in workload.competitors if name in processes]


def _named(failure: Failure, name: str, workload: Workload) -> Failure:
    if not failure.missing:
        logger.warning("%s does not run %s: %s", name, workload.key, failure.reason)
    return failure


def _exit_reason(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process died of {signal.Signals(-code).name}"
    return f"its process ended with code {code}"
