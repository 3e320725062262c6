"""Turns a run's results into a text table, a Markdown section and JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.harness import Outcome, Timing
from benchmarks.machine import summary
from benchmarks.targets import NODES, TARGETS, Results, targets_of
from benchmarks.worker import Failure
from benchmarks.workloads import OURS, Footprint, Workload

HIGHLIGHTS: Final = ("uniform", "nstep", "per", "her", "insert")
"""Workloads of the README's table, which ends with the bytes of a transition."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A run: what took part, where, and what came out."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    competitors: dict[str, dict[str, str]]
    """Title, version and note of every competitor that runs."""
    absent: dict[str, str]
    """Why a competitor does not run at all."""
    workloads: Sequence[Workload]
    footprints: Sequence[Footprint]
    results: Results

    @property
    def names(self) -> list[str]:
        return list(self.competitors)

    def title(self, name: str) -> str:
        return self.competitors[name]["title"] if name in self.competitors else name


def rows(report: Report) -> list[list[str]]:
    """Return the table's header and rows: µs per call, best of the repeats."""
    titles = [report.title(name) for name in report.names]
    table = [["µs per call", *titles, "vs fastest peer", "target"]]
    table += [
        [
            workload.title,
            *(_us(report.results.times[workload.key].get(name)) for name in report.names),
            _ratio(report, workload.key),
            _verdicts(report, workload.key),
        ]
        for workload in report.workloads
        if workload.key in report.results.times
    ]
    return table


def memory_rows(report: Report) -> list[list[str]]:
    """Return the table of bytes per transition."""
    table = [["bytes per transition", *(report.title(name) for name in report.names), "target"]]
    table += [
        [
            footprint.title,
            *(_bytes(report.results.bytes_per_transition(footprint.key, name)) for name in report.names),
            _verdicts(report, footprint.key),
        ]
        for footprint in report.footprints
        if footprint.key in report.results.footprints
    ]
    return table


def text(report: Report) -> str:
    """Return everything as text for a terminal."""
    parts = [summary(report.machine), _align(rows(report))]
    if report.results.footprints:
        parts.append(_align(memory_rows(report)))
    return "\n\n".join([*parts, _footnotes(report, bullet="  "), _count(report)])


def markdown(report: Report, chart: str | None) -> str:
    """Return the section of the page of results, without its markers."""
    parts = [f"![Times of Recollect and its peers]({chart})"] if chart else []
    parts += [_markdown_table(rows(report))]
    if report.results.footprints:
        parts.append(_markdown_table(memory_rows(report)))
    settings = report.settings
    how = (
        f"Best of {settings['repeats']} interleaved repeats, batch 256 unless stated, "
        f"{settings['steps']:,} transitions ({settings['frames']:,} of frames), {settings['date']}. "
        f"{summary(report.machine)}."
    )
    return "\n\n".join([*parts, how, _footnotes(report, bullet="- ")])


def highlights(report: Report) -> str:
    """Return the README's short table: the best times of some work, and bytes per transition."""
    header = ["µs per call, and bytes per transition", *(report.title(name) for name in report.names)]
    titles = {workload.key: workload.title for workload in report.workloads}
    table = [header]
    for key in HIGHLIGHTS:
        outcomes = report.results.times.get(key, {})
        table.append([titles[key], *(_best(outcomes.get(name)) for name in report.names)])
    table += [row[:-1] for row in memory_rows(report)[1:2]]
    return _markdown_table(table, last="---:")


def to_json(report: Report) -> dict[str, Any]:
    """Return everything as plain data."""
    results = report.results
    return {
        "settings": report.settings,
        "machine": report.machine,
        "competitors": report.competitors,
        "absent": report.absent,
        "workloads": [
            {
                **asdict(workload),
                "results": {name: _outcome(x) for name, x in results.times[workload.key].items()},
                "speed_up": results.speed_up(workload.key),
            }
            for workload in report.workloads
            if workload.key in results.times
        ],
        "bytes_per_transition": {
            key: {name: asdict(x) if isinstance(x, Failure) else round(x, 1) for name, x in sizes.items()}
            for key, sizes in results.footprints.items()
        },
        "targets": [
            {
                "row": target.workload,
                "required": target.requirement(),
                "value": target.measure(results),
                "met": target.met(results),
            }
            for target in TARGETS
        ],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Failure):
        return asdict(outcome)
    return {
        "min_us": round(outcome.min_us, 3),
        "median_us": round(outcome.median_us, 3),
        "repeats_us": [round(block.us_per_call, 3) for block in outcome.blocks],
        "calls": outcome.calls,
        NODES: outcome.per_call(NODES),
    }


def _us(outcome: Outcome | None) -> str:
    return f"{_best(outcome)} ({_short(outcome.median_us)})" if isinstance(outcome, Timing) else _best(outcome)


def _best(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    if isinstance(outcome, Timing):
        return _short(outcome.min_us)
    return "–" if outcome.missing else "failed"


def _short(us: float) -> str:
    return f"{us:,.0f}" if us >= 10 else f"{us:.1f}"


def _bytes(size: float | None) -> str:
    return "–" if size is None else f"{size:,.0f}"


def _ratio(report: Report, key: str) -> str:
    ratio, peer = report.results.speed_up(key), report.results.fastest_peer(key)
    return "" if ratio is None or peer is None else f"{_factor(ratio)}× {report.title(peer[0])}"


def _factor(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"


def _verdicts(report: Report, key: str) -> str:
    return "; ".join(f"{x.requirement()}: {x.verdict(report.results)}" for x in targets_of(key))


def _footnotes(report: Report, bullet: str) -> str:
    lines = [_introduction(report, name) for name in report.names]
    lines += [f"{name} did not run: {reason}" for name, reason in report.absent.items()]
    lines += [
        f"{report.title(name)} failed at {key!r}: {outcome.reason}"
        for key, outcomes in report.results.times.items()
        for name, outcome in outcomes.items()
        if isinstance(outcome, Failure) and not outcome.missing
    ]
    lines.append("Medians of the repeats are in brackets; – means that the library does not have the feature.")
    return "\n".join(bullet + line for line in lines)


def _introduction(report: Report, name: str) -> str:
    """Name a competitor's version and build, and the features that it does not have."""
    about = report.competitors[name]
    outcomes = [outcomes.get(name) for outcomes in report.results.times.values()]
    missing = [x.reason for x in outcomes if isinstance(x, Failure) and x.missing]
    remarks = [about["note"], *missing] if about["note"] else missing
    text = "; ".join(dict.fromkeys(remarks))
    return f"{about['title']} {about['version']}" + (f": {text}" if text else "")


def _count(report: Report) -> str:
    outcomes = [target.met(report.results) for target in TARGETS]
    unmeasured = outcomes.count(None)
    note = f", {unmeasured} not measured" if unmeasured else ""
    return f"targets met by {OURS}: {outcomes.count(True)} of {len(outcomes) - unmeasured}{note}"


def _align(table: list[list[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index in (0, len(row) - 1) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    )


def _markdown_table(table: list[list[str]], last: str = "---") -> str:
    header, *body = table
    rule = ["---", *["---:"] * (len(header) - 2), last]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *body])
