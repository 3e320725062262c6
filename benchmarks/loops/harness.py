"""Runs the competitors in turn, row by row, and collects their windows."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, TextIO

from benchmarks.loops.catalog import COMPETITORS, OURS
from benchmarks.loops.process import Failure, LoopProcess, Window
from benchmarks.loops.results import Cell, Entry, Rate, Results
from benchmarks.loops.tasks import Task
from benchmarks.loops.watch import LOOP, MATMULS, UPDATES

logger = logging.getLogger("benchmarks")

NUM_WARM_UPS: Final = 2
"""Rounds before those that count: JAX compiles TD3's two kinds of update one after the other."""


@dataclass(frozen=True)
class Plan:
    """How long everything takes: rounds, and the seconds of each window."""

    rounds: int
    loop_s: float
    updates_s: float
    warm_s: float


FULL: Final = Plan(rounds=5, loop_s=2.5, updates_s=1.0, warm_s=0.5)
QUICK: Final = Plan(rounds=2, loop_s=1.0, updates_s=0.5, warm_s=0.2)

Process = Callable[[str, Task, int], LoopProcess | Failure]
"""Starts a competitor by name on a task with so many cores."""


class Starter:
    """Starts competitors, each in the interpreter that has its library.

    Parameters
    ----------
    cores : sequence of int
        Cores to pin to; a row with fewer takes the first ones.
    python, jax_python : Path
        Interpreters: of torch's libraries, and of JAX's.
    log : TextIO, optional
        Where competitors write their tracebacks.
    """

    def __init__(self, cores: Sequence[int], python: Path, jax_python: Path, log: TextIO | None = None) -> None:
        self._cores = list(cores)
        self._pythons = {False: python, True: jax_python}
        self._log = log

    def __call__(self, name: str, task: Task, num_cores: int) -> LoopProcess | Failure:
        competitor = COMPETITORS[name]
        python = self._pythons[competitor.is_jax]
        if not python.exists():
            return Failure(f"there is no interpreter {python}; `make bench-training` creates it")
        return LoopProcess(competitor, task, self._cores[:num_cores], python, self._log)


def run(
    start: Process,
    cells: Sequence[tuple[Task, int]],
    names: Sequence[str],
    plan: Plan,
    keep: Callable[[Results], None] = lambda results: None,
    results: Results | None = None,
) -> Results:
    """Time all rows.

    Parameters
    ----------
    start : callable
        Starts a competitor.
    cells : sequence of (Task, int)
        Rows: what to train, and on how many cores.
    names : sequence of str
        Competitors.
    plan : Plan
        Rounds and seconds.
    keep : callable
        Called after each row with all results so far.
    results : Results, optional
        Where to collect them, for a caller who wants what there is when interrupted.
    """
    results = Results() if results is None else results
    begin = time.monotonic()
    for number, (task, num_cores) in enumerate(cells):
        place, eta = f"[{number + 1}/{len(cells)}]", _eta(begin, number, len(cells))
        logger.info("%s %s, %s%s", place, task.title, cores_text(num_cores), eta)
        taking_part = [name for name in names if task.key in (COMPETITORS[name].only or (task.key,))]
        entries = results.entries[task.key, num_cores] = {name: Entry() for name in taking_part}
        Row(start, task, num_cores, entries).run(plan)
        keep(results)
    return results


class Row:
    """All competitors on one task: set up together, then run one at a time.

    Parameters
    ----------
    start : callable
        Starts a competitor.
    task, num_cores
        The row.
    entries : mapping
        By competitor, where windows and failures are noted.
    """

    def __init__(self, start: Process, task: Task, num_cores: int, entries: Mapping[str, Entry]) -> None:
        self._start = start
        self._task = task
        self._num_cores = num_cores
        self._entries = entries
        self._processes: dict[str, LoopProcess] = {}

    def run(self, plan: Plan) -> None:
        """Run all rounds; whoever fails is left out of the rest."""
        try:
            self._set_up()
            for _ in range(NUM_WARM_UPS):
                self._take_turns(list(self._processes), plan.warm_s, plan.warm_s, counts=False)
            for number in range(plan.rounds):
                self._take_turns(turns(list(self._processes), number), plan.loop_s, plan.updates_s, counts=True)
                logger.info("  round %d/%d: %s", number + 1, plan.rounds, self._latest())
            if OURS in self._processes:
                self._ask(OURS, MATMULS, plan.updates_s, counts=True)
        finally:
            for process in self._processes.values():
                process.close()

    def _set_up(self) -> None:
        """Set up one after the other: what somebody tries out at the start, such as threads, is of an idle machine."""
        for name in self._entries:
            process = self._start(name, self._task, self._num_cores)
            if isinstance(process, Failure):
                self._fail(name, process)
            else:
                self._processes[name] = process
                self._introduce(name)

    def _introduce(self, name: str) -> None:
        """Read what a competitor says of itself: its version, then what it has built."""
        for _ in range(2):
            message = self._processes[name].receive()
            if isinstance(message, Failure):
                self._fail(name, message)
                return
            for field, value in message.items():
                setattr(self._entries[name], field, value)

    def _take_turns(self, names: Sequence[str], loop_s: float, updates_s: float, *, counts: bool) -> None:
        for name in names:
            if self._ask(name, LOOP, loop_s, counts=counts):
                self._ask(name, UPDATES, updates_s, counts=counts)

    def _ask(self, name: str, what: str, seconds: float, *, counts: bool) -> bool:
        """Open a window, and say whether it came to an end."""
        window = self._processes[name].ask(what, seconds)
        if isinstance(window, Failure):
            self._fail(name, window)
            return False
        if counts:
            windows: list[Window] = getattr(self._entries[name], what)
            windows.append(window)
        return True

    def _fail(self, name: str, failure: Failure) -> None:
        """Note a failure; what was measured before does not stand by itself."""
        logger.warning("  %s does not run: %s", name, failure.reason)
        entry = self._entries[name]
        entry.failure = failure.reason
        for windows in (entry.loop, entry.updates, entry.matmuls):
            windows.clear()
        if name in self._processes:
            self._processes.pop(name).close()

    def _latest(self) -> str:
        loops = {name: Rate.of(self._entries[name].loop[-1:], "wall") for name in self._processes}
        return ", ".join(f"{name} {rate.median:,.0f}" for name, rate in loops.items() if rate) + " steps/s"


def turns(names: Sequence[str], number: int) -> list[str]:
    """Order of a round: each begins with another competitor, so that none always follows the same one's heat."""
    first = number % max(1, len(names))
    return [*names[first:], *names[:first]]


def cells_of(tasks: Sequence[Task], cores: Sequence[int]) -> list[tuple[Task, int]]:
    """Rows of a run: the numbers of cores one after the other, each with all tasks."""
    return [(task, number) for number in cores for task in tasks]


def cores_text(number: int) -> str:
    return "1 core" if number == 1 else f"{number} cores"


def describe(cell: Cell) -> str:
    """Name a row in a sentence."""
    return f"{cell[0]} on {cores_text(cell[1])}"


def _eta(begin: float, num_done: int, num_all: int) -> str:
    if not num_done:
        return ""
    left_s = (time.monotonic() - begin) / num_done * (num_all - num_done)
    return f"  ETA {timedelta(seconds=round(left_s))}"
