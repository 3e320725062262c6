"""Plots are files that show what was asked for."""

from pathlib import Path

import matplotlib.image
import pytest

from recollect import metrics
from recollect.errors import ConfigError
from recollect.runs.curves import make_group, read_points, whole_curves
from recollect.runs.directory import RunDirectory
from recollect.runs.plots import panels, plot_run, plot_runs
from tests.unit.runs.test_curves import CONFIG, make_run

ROWS = [
    {metrics.STEPS: step, metrics.TRAIN_RETURN: step, metrics.EVAL_RETURN: 2 * step, metrics.EVAL_STANDARD_ERROR: 1.0}
    for step in (10, 20, 30)
]


def test_one_run_has_a_curve_in_its_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path, ROWS)
    assert plot_run(tmp_path) == run.curve_file
    assert matplotlib.image.imread(run.curve_file).std() > 0.01


def test_a_run_without_evaluations_can_be_drawn(tmp_path: Path) -> None:
    make_run(tmp_path, [{metrics.STEPS: 1, metrics.TRAIN_RETURN: 2}])
    assert plot_run(tmp_path).exists()


def test_several_runs_side_by_side(tmp_path: Path) -> None:
    for seed in range(3):
        make_run(tmp_path / f"per-{seed}", ROWS)
        make_run(tmp_path / f"ere-{seed}", ROWS, {**CONFIG, "storage": {"name": "ere"}})
    make_run(tmp_path / "other", ROWS, {**CONFIG, "env": {"name": "CartPole-v1"}})
    runs = [path for path in sorted(tmp_path.iterdir()) if path.is_dir()]
    png, svg = plot_runs(runs, tmp_path / "plots" / "comparison", by="storage")
    assert png.name == "comparison.png"
    text = svg.read_text()
    for part in (
        "Pendulum-v1",
        "CartPole-v1",
        "PER, evaluation (3 runs)",
        "ERE, evaluation (3 runs)",
        "bootstrap interval",
    ):
        assert part in text, part
    height, width, _ = matplotlib.image.imread(png).shape
    assert width > 2 * height


def test_training_and_evaluation_are_told_apart_and_never_averaged(tmp_path: Path) -> None:
    make_run(tmp_path / "a", ROWS)
    make_run(tmp_path / "b", [{metrics.STEPS: step, metrics.TRAIN_RETURN: step} for step in (10, 20)])
    _, svg = plot_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "curves")
    text = svg.read_text()
    assert "<!-- SAC with PER, evaluation -->" in text
    assert "<!-- SAC with PER, training -->" in text


def test_a_run_with_one_point_says_so(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [{metrics.STEPS: 5, metrics.EVAL_RETURN: 1.0}])
    _, svg = plot_runs([tmp_path / "a"], tmp_path / "curves")
    assert "SAC with PER, evaluation: one point, train longer for a curve" in svg.read_text()
    _, svg = plot_runs([make_run(tmp_path / "b", ROWS).path], tmp_path / "more")
    assert "one point" not in svg.read_text()


def test_a_run_with_one_point_does_not_take_the_others_curve_away(tmp_path: Path) -> None:
    make_run(tmp_path / "c", [{metrics.STEPS: 50, metrics.TRAIN_RETURN: 1.0, metrics.EVAL_RETURN: 1.0}])
    for name in "ab":
        make_run(tmp_path / name, [{metrics.STEPS: step, metrics.TRAIN_RETURN: step} for step in (10, 20)])
    folders = [tmp_path / name for name in "abc"]
    _, svg = plot_runs(folders, tmp_path / "curves")
    assert "<!-- SAC with PER, training, without 1 of one point (2 runs) -->" in svg.read_text()
    group = make_group(whole_curves([read_points(RunDirectory(folder), metrics.TRAIN_RETURN) for folder in folders]))
    assert (group.steps[0], group.steps[-1]) == (10, 20)


@pytest.mark.parametrize(("count", "rows", "columns"), [(1, 1, 1), (3, 1, 3), (4, 2, 2), (7, 3, 3), (12, 3, 4)])
def test_many_tasks_are_a_grid(count: int, rows: int, columns: int) -> None:
    figure, axes = panels(count)
    assert len(axes) == len(figure.axes) == count
    grid = axes[0].get_subplotspec()
    assert grid is not None
    assert grid.get_gridspec().get_geometry() == (rows, columns)


@pytest.mark.parametrize(
    ("out", "names"),
    [
        ("alpha0.6", ["alpha0.6.png", "alpha0.6.svg"]),
        ("lr0.02", ["lr0.02.png", "lr0.02.svg"]),
        ("curves.png", ["curves.png", "curves.svg"]),
        ("curves.svg", ["curves.png", "curves.svg"]),
    ],
)
def test_what_stands_behind_a_dot_stays_in_the_name(out: str, names: list[str], tmp_path: Path) -> None:
    make_run(tmp_path / "run", ROWS)
    assert [file.name for file in plot_runs([tmp_path / "run"], tmp_path / out)] == names


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        plot_runs([tmp_path], tmp_path / "out")
