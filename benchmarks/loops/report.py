"""Turns a run into text tables, a Markdown section and JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.loops.catalog import COMPETITORS, OURS
from benchmarks.loops.harness import describe
from benchmarks.loops.results import Cell, Rate, Results
from benchmarks.loops.targets import TARGETS
from benchmarks.loops.tasks import find

IDLE: Final = 0.9
"""Share of the time on the wall that a competitor's own work takes, below which other work has slowed it down."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A run: where and how, and what came out."""

    machine: Mapping[str, Any]
    settings: Mapping[str, Any]
    """Date, whether quick, rounds, and whether all rows were run."""
    results: Results

    @property
    def names(self) -> list[str]:
        """Competitors in the order of the catalog."""
        took_part = self.results.names()
        return [name for name in COMPETITORS if name in took_part]

    @property
    def is_beside_load(self) -> bool:
        """Whether the machine had other work."""
        return self.results.busy_share() < IDLE

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        targets = [
            {
                "task": target.cell[0],
                "cores": target.cell[1],
                "required": target.requirement(),
                "value": target.measure(self.results),
                "reached": target.met(self.results),
            }
            for target in TARGETS
        ]
        return {
            "settings": dict(self.settings),
            "machine": dict(self.machine),
            "rows": self.results.to_json(),
            "targets": targets,
        }

    @classmethod
    def read(cls, path: Path) -> "Report":
        """Read a file that a run has written."""
        data = json.loads(path.read_text())
        results = Results.from_json(data["rows"], data["settings"]["clock"])
        return cls(machine=data["machine"], settings=data["settings"], results=results)


def loop_rows(report: Report) -> list[list[str]]:
    """Return header and rows of the table of whole loops."""
    return _rows(report, "steps/s, whole loop", "loop")


def update_rows(report: Report) -> list[list[str]]:
    """Return header and rows of the table of updates alone."""
    header, *rows = _rows(report, "updates/s, alone", "updates")
    table = [[*header, "our loop loses", "our update / its matmuls"]]
    for cell, row in zip(report.results.cells(), rows, strict=True):
        lost, over = report.results.lost_to_the_loop(cell), report.results.over_matmuls(cell)
        table.append([*row, "" if lost is None else f"{lost:.0%}", "" if over is None else f"{over:.2f}×"])
    return table


def target_rows(report: Report) -> list[list[str]]:
    """Return header and rows of the table of targets; those of rows that were not run are left out."""
    measured = [target for target in TARGETS if target.cell in report.results.entries]
    table = [["target", "cores", "required", "verdict"]]
    table += [
        [find(target.cell[0]).title, str(target.cell[1]), target.requirement(), target.verdict(report.results)]
        for target in measured
    ]
    return table


def text(report: Report) -> str:
    """Return everything as text for a terminal."""
    tables = [loop_rows(report), update_rows(report), target_rows(report)]
    parts = [
        _origin(report).replace("**", ""),
        *(_align(table) for table in tables),
        "\n".join(_footnotes(report)),
        count(report),
    ]
    return "\n\n".join(part for part in parts if part)


def markdown(report: Report, chart: str | None) -> str:
    """Return the section of the page of results, without its markers."""
    parts = [f"![Training speed of Recollect and its peers]({chart})"] if chart else []
    parts += [_markdown_table(table) for table in (loop_rows(report), update_rows(report), target_rows(report))]
    parts += [_origin(report), "\n".join(f"- {line}" for line in _footnotes(report))]
    return "\n\n".join(parts)


def count(report: Report) -> str:
    """Say how many targets are reached."""
    verdicts = [target.met(report.results) for target in TARGETS]
    measured = [verdict for verdict in verdicts if verdict is not None]
    return f"{sum(measured)} of {len(measured)} measured targets reached ({len(verdicts)} in all)"


def _rows(report: Report, head: str, kind: str) -> list[list[str]]:
    titles = [COMPETITORS[name].title for name in report.names]
    table = [[head, "cores", *titles, "fastest peer", "ours / fastest"]]
    for cell in report.results.cells():
        rates = [_rate(report, cell, name, kind) for name in report.names]
        peer = report.results.fastest_peer(cell, kind)
        ratio = None if peer is None else report.results.ratio(cell, peer, kind)
        named = "" if peer is None else COMPETITORS[peer].title
        table.append([find(cell[0]).title, str(cell[1]), *rates, named, "" if ratio is None else f"{ratio:.2f}×"])
    return table


def _rate(report: Report, cell: Cell, name: str, kind: str) -> str:
    """A median with the slowest and fastest round; what did not run is named below the tables."""
    rate = report.results.rate(cell, name, kind)
    if rate is not None:
        return f"{number(rate.median)} ({_spread(rate)})"
    entry = report.results.entries[cell].get(name)
    return "failed" if entry is not None and entry.failure is not None else ""


def _spread(rate: Rate) -> str:
    return f"{number(rate.low)}–{number(rate.high)}"


def number(value: float) -> str:
    """Three digits are enough for rates."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _origin(report: Report) -> str:
    settings = report.settings
    kind = "**A quick run**: medians" if settings["quick"] else "Medians"
    whole = "" if settings["whole"] else "not all rows or competitors, "
    clock = "" if report.results.clock == "wall" else "per second of **processor time**, "
    share = report.results.busy_share()
    beside = f"; **beside other load**, which left {share:.0%} of a core's time" if report.is_beside_load else ""
    return (
        f"{kind} of {settings['rounds']} interleaved rounds (slowest–fastest), windows of {settings['loop_s']:g} s, "
        f"{clock}{whole}{settings['date']}. {_place(report.machine)}{beside}."
    )


def _place(machine: Mapping[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items() if version)
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; Python {machine['python']}, "
        f"{packages}; as many threads as cores, of which Recollect chooses; load {machine['load_average']} at the start"
    )


def _footnotes(report: Report) -> list[str]:
    lines = []
    for name in report.names:
        entries = [row[name] for row in report.results.entries.values() if name in row]
        version = next((entry.version for entry in entries if entry.version), "not installed")
        notes = dict.fromkeys(entry.note for entry in entries if entry.note)
        lines.append("; ".join([f"{COMPETITORS[name].title}: {COMPETITORS[name].package} {version}", *notes]))
    lines += [
        f"{COMPETITORS[name].title} did not run {describe(cell)}: {reason}"
        for cell, name, reason in report.results.failures()
    ]
    return lines + _unequal_sizes(report)


def _unequal_sizes(report: Report) -> list[str]:
    """Name the tasks in which a peer trains another number of weights than we do."""
    lines = []
    for key in dict.fromkeys(cell[0] for cell in report.results.cells()):
        rows = [row for cell, row in report.results.entries.items() if cell[0] == key]
        sizes = {name: entry.num_parameters for row in rows for name, entry in row.items() if entry.num_parameters}
        others = {name: size for name, size in sizes.items() if OURS in sizes and size != sizes[OURS]}
        if others:
            told = ", ".join(f"{COMPETITORS[name].title} {size:,}" for name, size in others.items())
            lines.append(f"Weights in {key}: {sizes[OURS]:,}, but {told}")
    return lines or ["All competitors train the same number of weights in every row."]


def _align(table: Sequence[Sequence[str]]) -> str:
    if len(table) < 2:
        return ""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip() for row in table
    )


def _markdown_table(table: Sequence[Sequence[str]]) -> str:
    header, *rows = table
    rule = ["---" if place == 0 else "---:" for place in range(len(header))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))
