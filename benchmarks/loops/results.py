"""What a run measured: windows of every competitor, by task and number of cores."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from benchmarks.loops.catalog import OURS, PEERS
from benchmarks.loops.process import Clock, Window
from benchmarks.loops.tasks import TASKS, find


@dataclass(frozen=True)
class Rate:
    """Windows of one kind as counts per second: the median, and how far they spread."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, windows: Sequence[Window], clock: Clock) -> "Rate | None":
        """Sum windows up; None without any."""
        rates = [window.per_second(clock) for window in windows]
        return cls(median(rates), min(rates), max(rates)) if rates else None


@dataclass
class Entry:
    """One competitor on one task: its windows so far, or why there are none."""

    loop: list[Window] = field(default_factory=list)
    updates: list[Window] = field(default_factory=list)
    matmuls: list[Window] = field(default_factory=list)
    """Ours alone: the products of an update by themselves, counted in updates."""
    num_parameters: int | None = None
    note: str = ""
    version: str = ""
    failure: str | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Entry":
        """Read what `asdict` gave."""
        windows = {name: [Window(**window) for window in data[name]] for name in ("loop", "updates", "matmuls")}
        return cls(**{**data, **windows})


Cell = tuple[str, int]
"""A row of the tables: key of a task, and number of cores."""


@dataclass
class Results:
    """Entries by row and competitor.

    Attributes
    ----------
    clock : {"wall", "cpu"}
        What seconds are. Beside other work, those of the processor tell more, and on one core little less.
    """

    entries: dict[Cell, dict[str, Entry]] = field(default_factory=dict)
    clock: Clock = "wall"

    def cells(self) -> list[Cell]:
        """Rows that were run, by task and then by cores."""
        order = {task.key: place for place, task in enumerate(TASKS)}
        return sorted(self.entries, key=lambda cell: (order[cell[0]], cell[1]))

    def names(self) -> list[str]:
        """Competitors that took part in any row, or failed in it."""
        return list(dict.fromkeys(name for row in self.entries.values() for name in row))

    def rate(self, cell: Cell, name: str, kind: str = "loop") -> Rate | None:
        """Return the rate of a kind of window (`loop`, `updates` or `matmuls`), if there is one."""
        entry = self.entries.get(cell, {}).get(name)
        return None if entry is None else Rate.of(getattr(entry, kind), self.clock)

    def ratio(self, cell: Cell, name: str, kind: str = "loop") -> float | None:
        """Return how many times faster ours is than a peer, by medians."""
        ours, peer = self.rate(cell, OURS, kind), self.rate(cell, name, kind)
        return ours.median / peer.median if ours and peer else None

    def fastest_peer(self, cell: Cell, kind: str = "loop") -> str | None:
        """Return the peer with the largest median, if any ran."""
        rates = {name: rate.median for name in PEERS if (rate := self.rate(cell, name, kind))}
        return max(rates, key=lambda name: rates[name]) if rates else None

    def lost_to_the_loop(self, cell: Cell) -> float | None:
        """Return the share of the loop's time that is not its updates."""
        loop, updates = self.rate(cell, OURS), self.rate(cell, OURS, "updates")
        if loop is None or updates is None:
            return None
        task = find(cell[0])
        steps_per_update = task.update_every * task.num_envs / (task.num_epochs * task.num_mini_batch)
        return 1 - loop.median / (updates.median * steps_per_update)

    def over_matmuls(self, cell: Cell) -> float | None:
        """Return how many times as long our update takes as its products alone."""
        updates, products = self.rate(cell, OURS, "updates"), self.rate(cell, OURS, "matmuls")
        return products.median / updates.median if updates and products else None

    def busy_share(self) -> float:
        """Return the processor time that competitors had, of what their cores would have given to one thread."""
        windows = [window for row in self.entries.values() for entry in row.values() for window in entry.loop]
        shares = [window.cpu_seconds / window.seconds for window in windows]
        return median(shares) if shares else 1.0

    def failures(self) -> Iterator[tuple[Cell, str, str]]:
        """Yield row, competitor and reason where one did not run."""
        for cell in self.cells():
            for name, entry in self.entries[cell].items():
                if entry.failure is not None:
                    yield cell, name, entry.failure

    def to_json(self) -> list[dict[str, Any]]:
        """Return the rows as plain data."""
        return [
            {
                "task": key,
                "cores": cores,
                "competitors": {name: asdict(entry) for name, entry in self.entries[key, cores].items()},
            }
            for key, cores in self.cells()
        ]

    @classmethod
    def from_json(cls, rows: Sequence[Mapping[str, Any]], clock: Clock = "wall") -> "Results":
        """Read what `to_json` gave."""
        entries = {
            (row["task"], row["cores"]): {name: Entry.from_json(entry) for name, entry in row["competitors"].items()}
            for row in rows
        }
        return cls(entries, clock)
