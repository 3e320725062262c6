"""Draws the aggregate page: performance profiles by kind of task, learning curves by task."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.learn.aggregate import Combination
from benchmarks.learn.report import Row
from recollect.runs.curves import bootstrap_band, interquartile_mean

_THRESHOLDS: Final = np.linspace(0.0, 1.1, 221)
_COLUMNS: Final = 3
# Okabe and Ito's colours, then the same with broken lines.
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
_STYLES: Final = ("-", "--", ":")


def draw_profiles(combinations: Sequence[Combination], path: Path) -> None:
    """Write a figure with a panel for each kind of task: the share of runs above each normalised score."""
    kinds = list(dict.fromkeys(each.kind for each in combinations))
    figure, panels = _panels(kinds)
    for kind, axes in zip(kinds, panels, strict=False):
        for number, each in enumerate(other for other in combinations if other.kind == kind):
            axes.step(_THRESHOLDS, each.profile(_THRESHOLDS), label=each.agent, where="post", **_look(number))
        axes.set_xlabel("normalised score")
        axes.set_ylabel("share of runs above it")
        axes.set_ylim(-0.03, 1.03)
        axes.legend(fontsize="x-small", loc="lower left")
    _write(figure, path)


def draw_curves(rows: Sequence[Row], path: Path) -> None:
    """Write a figure with a panel for each task: returns during training of each cell that has been run."""
    run = [row for row in rows if row.records]
    tasks = list(dict.fromkeys(row.cell.task for row in run))
    figure, panels = _panels(tasks)
    for task, axes in zip(tasks, panels, strict=False):
        for number, row in enumerate(other for other in run if other.cell.task == task):
            _draw_curve(axes, row, number)
        axes.set_xlabel("thousand environment steps")
        axes.set_ylabel("return")
        axes.legend(fontsize="x-small", loc="best")
    _write(figure, path)


def _draw_curve(axes: Any, row: Row, number: int) -> None:
    length = min(len(record.curve) for record in row.records)
    steps = [steps / 1000 for steps, _ in row.records[0].curve[:length]]
    returns = np.array([[score for _, score in record.curve[:length]] for record in row.records])
    axes.plot(steps, interquartile_mean(returns), label=row.cell.agent, **_look(number))
    low, high = bootstrap_band(returns, np.random.default_rng(0))
    axes.fill_between(steps, low, high, color=_look(number)["color"], alpha=0.12, linewidth=0)


def _panels(titles: Sequence[str]) -> tuple[Any, list[Any]]:
    num_lines = -(-len(titles) // _COLUMNS)
    size = (4.4 * _COLUMNS, 3.2 * num_lines)
    figure, axes = plt.subplots(num_lines, _COLUMNS, squeeze=False, figsize=size, layout="constrained")
    panels = list(axes.flat)
    for title, panel in zip(titles, panels, strict=False):
        panel.set_title(title, fontsize="medium")
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[len(titles) :]:
        panel.set_axis_off()
    return figure, panels


def _look(number: int) -> dict[str, str]:
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "linestyle": _STYLES[number // len(_COLOURS) % len(_STYLES)],
    }


def _write(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)
