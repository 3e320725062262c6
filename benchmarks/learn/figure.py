"""Draws the ablation: learning curves with bands above, final returns with intervals below."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.learn.ablation import VARIANTS, Outcome
from recollect.runs.curves import bootstrap_band, interquartile_mean

# Okabe and Ito's colours: told apart by readers with any colour vision.
COLOURS: Final = dict(zip(VARIANTS, ("#999999", "#0072B2", "#009E73", "#E69F00", "#D55E00"), strict=True))


def draw(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write one figure with a column per task."""
    tasks = list(dict.fromkeys(outcome.task for outcome in outcomes))
    size = (5.2 * len(tasks), 6.4)
    figure, axes = plt.subplots(
        2, len(tasks), height_ratios=(3, 1.4), squeeze=False, figsize=size, layout="constrained"
    )
    for column, task in enumerate(tasks):
        of_task = [outcome for outcome in outcomes if outcome.task == task]
        _draw_curves(axes[0][column], of_task)
        _draw_intervals(axes[1][column], of_task)
        axes[0][column].set_title(task)
    handles, titles = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, titles, loc="outside upper center", ncols=len(titles), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_curves(axes: Any, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        colour = COLOURS[outcome.variant]
        axes.plot(outcome.steps, interquartile_mean(outcome.curve), color=colour, label=outcome.variant)
        low, high = bootstrap_band(outcome.curve, np.random.default_rng(0))
        axes.fill_between(outcome.steps, low, high, color=colour, alpha=0.12, linewidth=0)
    axes.set_xlabel("environment steps")
    axes.set_ylabel("evaluation return, interquartile mean")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_intervals(axes: Any, outcomes: Sequence[Outcome]) -> None:
    for place, outcome in enumerate(outcomes):
        final, colour = outcome.final, COLOURS[outcome.variant]
        axes.plot([final.low, final.high], [place, place], color=colour, linewidth=6, alpha=0.35)
        axes.plot(final.value, place, "o", color=colour)
    axes.set_yticks(range(len(outcomes)), [outcome.variant for outcome in outcomes])
    axes.invert_yaxis()
    axes.set_xlabel("return after training, 95 % interval")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
