"""What each rule of a storage adds: five storages, two tasks, five seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.learn.experiments import Cell
from benchmarks.learn.goals import format_score
from benchmarks.learn.report import Row
from benchmarks.learn.statistics import Interval, middle_with_interval

SEEDS: Final = (11, 12, 13, 14, 15)
_PER: Final = ("storage.alpha=0.6", "storage.beta=0.4", "storage.epsilon=0.01", "storage.default_error=1.0")
_ERE: Final = ("storage.eta=0.996", "storage.cmin=2500")
_ONE_STEP, _THREE_STEPS = "storage.n_step=1", "storage.n_step=3"

# A preset may have some of these options for a storage of its own, so each variant says all that matter to it.
VARIANTS: Final[dict[str, tuple[str, ...]]] = {
    "uniform": ("storage=replay",),
    "n-step": ("storage=nstep", _THREE_STEPS),
    "PER": ("storage=per", *_PER, _ONE_STEP),
    "ERE": ("storage=ere", "storage.alpha=0", *_ERE, _ONE_STEP),
    "PER + ERE + n-step": ("storage=ere", *_PER, *_ERE, _THREE_STEPS),
}
TASKS: Final = (("pendulum-sac", "Pendulum-v1", "SAC", 10_000), ("lunarlander-ddqn", "LunarLander-v3", "DDQN", 60_000))


def _cell(preset: str, task: str, agent: str, steps: int, variant: str) -> Cell:
    slug = variant.lower().replace(" + ", "-").replace("n-step", "nstep")
    return Cell(
        key=f"ablation-{preset}-{slug}",
        task=task,
        agent=f"{agent}, {variant}",
        steps=steps,
        preset=preset,
        settings=VARIANTS[variant],
        seeds=SEEDS,
    )


ABLATION: Final[tuple[Cell, ...]] = tuple(_cell(*task, variant) for task in TASKS for variant in VARIANTS)


@dataclass(frozen=True)
class Outcome:
    """A variant's results over seeds."""

    task: str
    variant: str
    num_seeds: int
    final: Interval
    """Interquartile mean of the evaluation after training."""
    during_training: Interval
    """The same of the mean over all evaluations during training: how soon it learned."""
    steps: NDArray[np.int64]
    curve: NDArray[np.float64]
    """Mean returns during training, `[seeds, points]`."""


def analyse(rows: Sequence[Row]) -> list[Outcome]:
    """Reduce the runs of each cell that has any."""
    return [_outcome(row) for row in rows if row.records]


def _outcome(row: Row) -> Outcome:
    curve = np.array([[score for _, score in record.curve] for record in row.records])
    return Outcome(
        task=row.cell.task,
        variant=row.cell.agent.partition(", ")[2],
        num_seeds=len(row.records),
        final=middle_with_interval([record.evaluation.mean_return for record in row.records]),
        during_training=middle_with_interval(curve.mean(axis=1)),
        steps=np.array([steps for steps, _ in row.records[0].curve]),
        curve=curve,
    )


def table(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Return the header and a line per variant."""
    header = ["task", "storage", "seeds", "after training", "mean during training"]
    body = ([x.task, x.variant, str(x.num_seeds), _show(x.final), _show(x.during_training)] for x in outcomes)
    return [header, *body]


def text(outcomes: Sequence[Outcome]) -> str:
    """Return the table for a terminal."""
    lines = table(outcomes)
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def markdown(outcomes: Sequence[Outcome], figure: str, origin: str) -> str:
    """Return figure, table and how to read them, as Markdown."""
    header, *body = table(outcomes)
    rule = ["---", "---", "---:", "---:", "---:"]
    lines = "\n".join("| " + " | ".join(line) + " |" for line in [header, rule, *body])
    how = (
        "Interquartile means over seeds with 95 % bootstrap intervals, of the mean return over 100 evaluation "
        f"episodes after training and of the mean of ten evaluations during training, 10 episodes each. {origin}"
    )
    return f"![Learning curves and final returns by storage]({figure})\n\n{lines}\n\n{how}"


def _show(interval: Interval) -> str:
    value, low, high = (format_score(x, "return") for x in (interval.value, interval.low, interval.high))
    return f"{value} [{low}, {high}]"
