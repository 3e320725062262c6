"""Plots of learning curves: one run as it went, or several side by side with confidence bands over seeds."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from recollect import metrics
from recollect.runs.curves import (
    Points,
    bootstrap_band,
    env_of,
    interquartile_mean,
    label_of,
    labels_of,
    make_group,
    open_runs,
    read_points,
)
from recollect.runs.directory import RunDirectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_INCHES: Final = (5.6, 3.8)
_DOTS_PER_INCH: Final = 140
_SHADE: Final = 0.2
_FORMATS: Final = (".png", ".svg")


def plot_run(path: Path | str) -> Path:
    """Draw how one run went, training and evaluation, and return the PNG file in its folder."""
    run = RunDirectory.open(path)
    figure, (axes,) = _panels(1)
    training, evaluation = read_points(run, metrics.TRAIN_RETURN), read_points(run, metrics.EVAL_RETURN)
    axes.plot(training.steps, training.values, label="training, mean of recent episodes", linewidth=1.2)
    if len(evaluation.steps):
        axes.plot(evaluation.steps, evaluation.values, "o-", label="evaluation", markersize=3.5)
        spread = read_points(run, metrics.EVAL_STANDARD_ERROR)
        if len(spread.steps) == len(evaluation.steps):
            low, high = evaluation.values - spread.values, evaluation.values + spread.values
            axes.fill_between(evaluation.steps, low, high, alpha=_SHADE, color=axes.lines[-1].get_color())
    _finish(axes, f"{env_of(run)} · {label_of(run, None)}")
    figure.savefig(run.curve_file, dpi=_DOTS_PER_INCH)
    return run.curve_file


def plot_runs(paths: Sequence[Path], out: Path | str, by: str | None = None) -> list[Path]:
    """Draw several runs side by side and return the files, PNG and SVG.

    Every environment has a panel, every label a curve: the interquartile mean over its runs, with a
    95 % bootstrap band where there are several.

    Parameters
    ----------
    paths : sequence of Path
        Folders of runs; those that hold nothing to draw are left out with a warning, unless all of them do.
    out : path
        Where to write, without a suffix or with one of the two.
    by : str, optional
        Entry of the config that tells curves apart, such as "storage" or "storage.alpha"; by default
        the algorithm and the storage.
    """
    panels: dict[str, dict[str, list[Points]]] = {}
    runs = open_runs(paths)
    for (run, points), label in zip(runs.items(), labels_of(list(runs), by), strict=True):
        panels.setdefault(env_of(run), {}).setdefault(label, []).append(points)
    figure, all_axes = _panels(len(panels))
    for axes, (env, labels) in zip(all_axes, panels.items(), strict=True):
        for label, curves in labels.items():
            _draw_group(axes, label, make_group(curves))
        _finish(axes, env)
    return save_figure(figure, out)


def save_figure(figure: "Figure", out: Path | str) -> list[Path]:
    """Write a figure as PNG and as SVG, and return both files."""
    out = Path(out)
    # What else stands behind a dot is part of the name, as in alpha0.6.
    stem = out.stem if out.suffix in _FORMATS else out.name
    files = [out.with_name(stem + suffix) for suffix in _FORMATS]
    files[0].parent.mkdir(parents=True, exist_ok=True)
    for file in files:
        figure.savefig(file, dpi=_DOTS_PER_INCH)
    return files


def _draw_group(axes: "Axes", label: str, group: Points) -> None:
    num_runs = len(group.values)
    label = label if num_runs == 1 else f"{label} ({num_runs} runs)"
    (line,) = axes.plot(group.steps, interquartile_mean(group.values), label=label)
    if num_runs > 1:
        low, high = bootstrap_band(group.values, np.random.default_rng(0))
        axes.fill_between(group.steps, low, high, alpha=_SHADE, color=line.get_color())


def _panels(count: int) -> tuple["Figure", list["Axes"]]:
    """A figure with `count` panels in a row, made without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = _PANEL_INCHES
    figure = Figure(figsize=(width * count, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def _finish(axes: "Axes", title: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("environment steps")
    axes.set_ylabel("return")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
