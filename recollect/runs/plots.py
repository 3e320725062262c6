"""Plots of learning curves: one run, or several with confidence bands over seeds."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from recollect import metrics
from recollect.files.disk import make_folder, write_file
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
    whole_curves,
)
from recollect.runs.directory import RunDirectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_INCHES: Final = (5.6, 3.8)
_DOTS_PER_INCH: Final = 140
_SHADE: Final = 0.2
_FORMATS: Final = (".png", ".svg")
# Where returns come from, as legends say it.
_SOURCES: Final = {metrics.TRAIN_RETURN: "training", metrics.EVAL_RETURN: "evaluation"}


def plot_run(path: Path | str) -> Path:
    """Draw how one run went, training and evaluation, and return the PNG file in its folder."""
    run = RunDirectory.open(path)
    figure, (axes,) = panels(1)
    training, evaluation = read_points(run, metrics.TRAIN_RETURN), read_points(run, metrics.EVAL_RETURN)
    if len(training.steps):
        _draw(axes, training, "training, mean of recent episodes")
    if len(evaluation.steps):
        spread = read_points(run, metrics.EVAL_STANDARD_ERROR)
        has_spread = len(spread.steps) == len(evaluation.steps)
        _draw(axes, evaluation, f"evaluation{', ± standard error' if has_spread else ''}", marker="o")
        if has_spread:
            low, high = evaluation.values - spread.values, evaluation.values + spread.values
            axes.fill_between(evaluation.steps, low, high, alpha=_SHADE, color=axes.lines[-1].get_color())
    _finish(axes, f"{env_of(run)} · {label_of(run, None)}")
    write_figure(figure, run.curve_file)
    return run.curve_file


def plot_runs(paths: Sequence[Path], out: Path | str, by: str | None = None) -> list[Path]:
    """Draw several runs side by side and return the files, PNG and SVG.

    Every environment has a panel, every label a curve: the interquartile mean over its runs, with a
    95 % bootstrap band where there are several. A legend says whether returns are those of training or of
    evaluations; the two are not averaged.

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
    tasks: dict[str, dict[str, list[Points]]] = {}
    runs = open_runs(paths)
    for (run, returns), label in zip(runs.items(), labels_of(list(runs), by), strict=True):
        curves = tasks.setdefault(env_of(run), {})
        curves.setdefault(f"{label}, {_SOURCES[returns.metric]}", []).append(returns.points)
    figure, all_axes = panels(len(tasks))
    for axes, (env, labels) in zip(all_axes, tasks.items(), strict=True):
        for label, points in labels.items():
            kept = whole_curves(points)
            if num_short := len(points) - len(kept):
                label += f", without {num_short} of one point"
            _draw_group(axes, label, make_group(kept))
        _finish(axes, env)
    if any(len(points) > 1 for labels in tasks.values() for points in labels.values()):
        figure.supxlabel("several runs: interquartile mean and its 95 % bootstrap interval", fontsize=8)
    return save_figure(figure, out)


def save_figure(figure: "Figure", out: Path | str) -> list[Path]:
    """Write a figure as PNG and as SVG, and return both files."""
    out = Path(out)
    # What else stands behind a dot is part of the name, as in alpha0.6.
    stem = out.stem if out.suffix in _FORMATS else out.name
    files = [out.with_name(stem + suffix) for suffix in _FORMATS]
    make_folder(files[0].parent)
    for file in files:
        write_figure(figure, file)
    return files


def write_figure(figure: "Figure", file: Path) -> None:
    """Write a figure in the format that the file's name says."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=_DOTS_PER_INCH, format=file.suffix[1:])
    write_file(file, buffer.getbuffer())


def panels(count: int) -> tuple["Figure", list["Axes"]]:
    """Make a figure with `count` panels in rows, without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    num_columns = min(count, 2 if count == 4 else 3 if count <= 9 else 4)
    num_rows = -(-count // num_columns)
    width, height = _PANEL_INCHES
    figure = Figure(figsize=(width * num_columns, height * num_rows), layout="constrained")
    FigureCanvasAgg(figure)
    found = list(figure.subplots(num_rows, num_columns, squeeze=False).flat)
    for axes in found[count:]:
        axes.remove()
    return figure, found[:count]


def _draw_group(axes: "Axes", label: str, group: Points) -> None:
    num_runs = len(group.values)
    if num_runs > 1:
        label += f" ({num_runs} runs)"
    _draw(axes, Points(group.steps, interquartile_mean(group.values)), label)
    if num_runs > 1:
        low, high = bootstrap_band(group.values, np.random.default_rng(0))
        axes.fill_between(group.steps, low, high, alpha=_SHADE, color=axes.lines[-1].get_color())


def _draw(axes: "Axes", points: Points, label: str, marker: str = "") -> None:
    """Draw a curve; a single point is no line, and says so."""
    is_single = len(points.steps) == 1
    label += ": one point, train longer for a curve" if is_single else ""
    axes.plot(points.steps, points.values, label=label, marker="o" if is_single else marker, markersize=3.5)


def _finish(axes: "Axes", title: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("environment steps")
    axes.set_ylabel("return")
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(fontsize=7)
    else:
        axes.text(0.5, 0.5, "no episode has ended yet", ha="center", transform=axes.transAxes)
