"""Draws a run as a bar chart."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from benchmarks.report import Report
from benchmarks.workloads import OURS, PEERS, Workload

# Okabe and Ito's colours: told apart by readers with any colour vision.
COLOURS = {
    OURS: "#D55E00",
    "cpprb": "#0072B2",
    "tianshou": "#56B4E9",
    "torchrl": "#009E73",
    "sb3": "#999999",
    "rlox": "#CC79A7",
}
BAR_HEIGHT = 0.14


def draw(report: Report, path: Path) -> None:
    """Write a chart of all workloads that a peer takes part in, on a logarithmic axis."""
    shown = [workload for workload in report.workloads if report.results.fastest_peer(workload.key)]
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.72 * len(shown)), layout="constrained")
    for row, workload in enumerate(shown):
        _draw_group(axes, report, workload, row)
    axes.set_yticks(range(len(shown)), [workload.title for workload in shown])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.12, y=0.01)
    axes.set_xlabel("µs per call, best of the repeats; shorter is better")
    axes.set_title(f"Recollect and its peers, {report.settings['steps']:,} transitions stored")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    handles = [Patch(color=COLOURS[name]) for name in report.names]
    titles = [report.title(name) for name in report.names]
    figure.legend(handles, titles, loc="outside upper center", ncols=len(titles), frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_group(axes: Any, report: Report, workload: Workload, row: int) -> None:
    times = [(name, report.results.best_us(workload.key, name)) for name in (OURS, *PEERS)]
    ran = [(name, us) for name, us in times if us is not None]
    for place, (name, us) in enumerate(ran):
        y = row + (place - (len(ran) - 1) / 2) * BAR_HEIGHT
        axes.barh(y, us, BAR_HEIGHT * 0.92, color=COLOURS[name])
        label = f" {us:,.0f}" if us >= 10 else f" {us:.1f}"
        weight = "bold" if name == OURS else "normal"
        axes.text(us, y, label, va="center", fontsize=7, fontweight=weight)
