"""Shows the table: mean ± standard error over seeds against the score to reach."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.learn.experiments import Cell
from benchmarks.learn.goals import format_score
from benchmarks.learn.records import Record
from benchmarks.learn.statistics import Estimate, mean_and_error

_REACHED: Final = "reached"
_PEER_ERROR: Final = "SB3's own standard error is as large as its mean"
HEADER: Final = ["task", "agent", "steps", "score", "to reach", "outcome"]


@dataclass(frozen=True)
class Row:
    """A cell with the records that there are."""

    cell: Cell
    records: Sequence[Record]

    @property
    def estimate(self) -> Estimate | None:
        """The score over seeds; None until the first seed has ended."""
        return mean_and_error([score_of(self.cell, record) for record in self.records]) if self.records else None

    @property
    def is_complete(self) -> bool:
        return len(self.records) == len(self.cell.seeds)


def score_of(cell: Cell, record: Record) -> float:
    """Return what one run is scored by."""
    return record.evaluation.mean_return if cell.metric == "return" else record.evaluation.success_rate


def table(rows: Sequence[Row]) -> list[list[str]]:
    """Return the header and a line per cell."""
    by_key = {row.cell.key: row for row in rows}
    return [HEADER, *(_line(row, by_key) for row in rows)]


def markdown(rows: Sequence[Row]) -> str:
    """Return the table and what it takes to read it, as Markdown."""
    how = "Mean ± standard error over seeds of the mean over 100 evaluation episodes after training."
    header, *body = table(rows)
    rule = ["---", "---", "---:", "---:", "---:", "---"]
    lines = "\n".join("| " + " | ".join(line) + " |" for line in [header, rule, *body])
    return "\n\n".join([lines, *(_note(*pair) for pair in weak(rows)), f"{how} {origin(rows)}"])


def text(rows: Sequence[Row]) -> str:
    """Return the table for a terminal."""
    lines = table(rows)
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def summary(rows: Sequence[Row]) -> str:
    """Count the outcomes of cells that have all their seeds, in one line."""
    by_key = {row.cell.key: row for row in rows}
    judged = [row for row in rows if row.cell.goal is not None]
    outcomes = [_verdict(row, by_key) for row in judged if _is_final(row, by_key)]
    num_known = sum(not outcome.startswith("no score") for outcome in outcomes)
    num_open = len(judged) - num_known
    tail = f", {num_open} not complete yet" if num_open else ""
    return f"{outcomes.count(_REACHED)} of {num_known} scores reached{tail}"


def sentence(rows: Sequence[Row]) -> str:
    """Return the summary as a sentence of a document, with its caveats."""
    text = f"{summary(rows)}, over three to five seeds and 100 evaluation episodes each."
    caveats = [f"The {row.cell.task} score is inconclusive: {_PEER_ERROR}." for row, _ in weak(rows)]
    return " ".join([text, *caveats])


def weak(rows: Sequence[Row]) -> list[tuple[Row, Estimate]]:
    """Return the rows held against a peer whose mean is no larger than its own standard error, with its score."""
    by_key = {row.cell.key: row for row in rows}
    held = [(row, by_key[row.cell.goal.peer]) for row in rows if row.cell.goal and row.cell.goal.peer in by_key]
    scores = [(row, peer.estimate) for row, peer in held]
    return [(row, score) for row, score in scores if score is not None and score.error >= abs(score.mean)]


def _note(row: Row, peer: Estimate) -> str:
    numbers = peer.mean, peer.error, peer.mean - peer.error
    mean, error, bound = (format_score(number, row.cell.metric) for number in numbers)
    return (
        f"The {row.cell.task} score is inconclusive: {_PEER_ERROR} ({error} and {mean}), which puts the bound at "
        f"{bound}. These seeds cannot tell which library is better."
    )


def _line(row: Row, by_key: dict[str, Row]) -> list[str]:
    cell = row.cell
    return [
        cell.task,
        cell.agent,
        f"{cell.steps:,}",
        _score(row),
        "" if cell.goal is None else cell.goal.text(cell.metric),
        _verdict(row, by_key),
    ]


def _score(row: Row) -> str:
    estimate, unit = row.estimate, row.cell.metric
    if estimate is None:
        return "–"
    spread = f" ± {format_score(estimate.error, unit)}" if len(row.records) > 1 else ""
    partial = "" if row.is_complete else f" ({len(row.records)} of {len(row.cell.seeds)} seeds)"
    return f"{format_score(estimate.mean, unit)}{spread}{partial}"


def _verdict(row: Row, by_key: dict[str, Row]) -> str:
    goal, estimate = row.cell.goal, row.estimate
    if goal is None:
        return ""
    if estimate is None:
        return "not measured yet"
    peer = by_key.get(goal.peer) if goal.peer else None
    shortfall = goal.shortfall(estimate, None if peer is None else peer.estimate)
    if shortfall is None:
        return "no score of the peer yet"
    outcome = _REACHED if shortfall == 0 else f"missed by {format_score(shortfall, row.cell.metric)}"
    return outcome if _is_final(row, by_key) else f"{outcome} so far"


def _is_final(row: Row, by_key: dict[str, Row]) -> bool:
    """Whether no run is missing that the verdict rests on."""
    goal = row.cell.goal
    peer = by_key.get(goal.peer) if goal is not None and goal.peer else None
    return row.is_complete and (peer is None or peer.is_complete)


def origin(rows: Sequence[Row]) -> str:
    """Say when, for how long and with what the runs were made."""
    records = [record for row in rows for record in row.records]
    if not records:
        return "No run has ended yet."
    days = sorted({record.date for record in records})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    versions = {name: number for record in records for name, number in record.versions.items()}
    hours = sum(record.elapsed_s for record in records) / 3600
    names = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    return f"{len(records)} runs, {when}, {hours:.1f} hours in total, one thread each, on a shared machine; {names}."
