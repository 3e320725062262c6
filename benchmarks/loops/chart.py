"""Draws a run: how fast every competitor's loop is beside ours."""

from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from benchmarks.loops.catalog import COMPETITORS, OURS
from benchmarks.loops.harness import cores_text
from benchmarks.loops.report import Report, number
from benchmarks.loops.results import Cell

# Okabe and Ito's colours: told apart by readers with any colour vision.
COLOURS: Final = ("#D55E00", "#999999", "#0072B2", "#F0E442", "#009E73", "#56B4E9", "#CC79A7", "#E69F00")
BAR_HEIGHT: Final = 0.13


def draw(report: Report, path: Path) -> None:
    """Write a chart with a panel for each number of cores: steps/s of whole loops, ours taken as 1."""
    numbers = sorted({cores for _, cores in report.results.cells()})
    keys = list(dict.fromkeys(key for key, _ in report.results.cells()))
    size = (6.5 * len(numbers), 1.5 + 1.0 * len(keys))
    figure, panels = plt.subplots(1, len(numbers), figsize=size, layout="constrained", squeeze=False, sharey=True)
    for axes, cores in zip(panels[0], numbers, strict=True):
        for row, key in enumerate(keys):
            _draw_row(axes, report, (key, cores), row)
        axes.axvline(1.0, color="#444444", linewidth=0.8)
        axes.set_title(f"{cores_text(cores)}: steps/s of the whole loop, ours = 1")
        axes.set_yticks(range(len(keys)), keys)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.15)
    panels[0][0].invert_yaxis()
    handles = [Patch(color=_colour(name)) for name in report.names]
    titles = [COMPETITORS[name].title for name in report.names]
    columns = min(len(titles), 4 * len(numbers))
    figure.legend(handles, titles, loc="outside upper center", ncols=columns, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_row(axes: Any, report: Report, cell: Cell, row: int) -> None:
    ours = report.results.rate(cell, OURS)
    rates = [(name, report.results.rate(cell, name)) for name in report.names]
    ran = [(name, rate) for name, rate in rates if rate is not None]
    unit = ours.median if ours is not None else max((rate.median for _, rate in ran), default=1.0)
    for place, (name, rate) in enumerate(ran):
        y = row + (place - (len(ran) - 1) / 2) * BAR_HEIGHT
        spread = [[(rate.median - rate.low) / unit], [(rate.high - rate.median) / unit]]
        axes.barh(y, rate.median / unit, BAR_HEIGHT * 0.92, color=_colour(name), xerr=spread, error_kw={"lw": 0.7})
        weight = "bold" if name == OURS else "normal"
        axes.text(rate.high / unit, y, f"  {number(rate.median)}", va="center", fontsize=7, fontweight=weight)


def _colour(name: str) -> str:
    return COLOURS[list(COMPETITORS).index(name) % len(COLOURS)]
