"""Curves are read as they were written, and summed up as the formulas say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect import metrics
from recollect.errors import ConfigError, RecollectWarning
from recollect.runs import RunDirectory
from recollect.runs.curves import (
    NUM_POINTS,
    Points,
    bootstrap_band,
    env_of,
    interquartile_mean,
    label_of,
    labels_of,
    make_group,
    open_runs,
    read_points,
    read_returns,
)
from recollect.runs.writers import CSVWriter

CONFIG: dict[str, Any] = {
    "algo": {"name": "sac"},
    "env": {"name": "Pendulum-v1"},
    "storage": {"name": "per", "alpha": 0.6},
    "seed": 4,
}


def make_run(folder: Path, rows: list[dict[str, float]], config: dict[str, Any] = CONFIG) -> RunDirectory:
    run = RunDirectory.create(folder, config)
    writer = CSVWriter(run.metrics_file)
    for row in rows:
        writer.write(row)
    return run


def test_points_are_the_rows_that_have_the_metric(tmp_path: Path) -> None:
    run = make_run(tmp_path, [{metrics.STEPS: 1, "a": 5}, {metrics.STEPS: 2, "b": 1}, {metrics.STEPS: 3, "a": 7}])
    steps, values = read_points(run, "a")
    assert steps.tolist() == [1, 3]
    assert values.tolist() == [5, 7]


def test_evaluations_count_if_there_are_several(tmp_path: Path) -> None:
    train = [{metrics.STEPS: step, metrics.TRAIN_RETURN: -step} for step in (1, 2, 3)]
    tests = [{metrics.STEPS: step, metrics.EVAL_RETURN: step} for step in (2, 3)]
    (_, values), metric = read_returns(make_run(tmp_path / "a", train + tests[:1]))
    assert (values.tolist(), metric) == ([-1, -2, -3], metrics.TRAIN_RETURN)
    (_, values), metric = read_returns(make_run(tmp_path / "b", train + tests))
    assert (values.tolist(), metric) == ([2, 3], metrics.EVAL_RETURN)


def test_seeds_with_the_same_steps_keep_them() -> None:
    group = make_group([Points(np.array([1.0, 2.0]), np.array([5.0, 6.0]))] * 2)
    assert group.steps.tolist() == [1, 2]
    assert group.values.tolist() == [[5, 6], [5, 6]]


def test_seeds_with_other_steps_meet_where_all_have_been() -> None:
    one = Points(np.array([0.0, 10.0]), np.array([0.0, 100.0]))
    other = Points(np.array([2.0, 4.0, 8.0]), np.array([1.0, 1.0, 1.0]))
    group = make_group([one, other])
    assert (group.steps[0], group.steps[-1], len(group.steps)) == (2, 8, NUM_POINTS)
    assert group.values[0] == pytest.approx(10 * group.steps)
    assert group.values[1] == pytest.approx(np.ones(NUM_POINTS))


def test_what_a_pattern_finds_beside_runs_is_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [{metrics.STEPS: 1, metrics.TRAIN_RETURN: 5}])
    saved = make_run(tmp_path / "saved", []).path
    (tmp_path / "figures").mkdir()
    with pytest.warns(RecollectWarning, match="saved has nothing to plot yet.*figures holds no run"):
        (found,) = open_runs([run.path, saved, tmp_path / "figures"]).items()
    assert found[0].path == run.path
    assert found[1].points.values.tolist() == [5]


@pytest.mark.parametrize("names", [["saved"], ["figures", "saved"]])
def test_where_there_is_nothing_to_draw_each_folder_is_named(names: list[str], tmp_path: Path) -> None:
    make_run(tmp_path / "saved", [])
    (tmp_path / "figures").mkdir()
    with pytest.raises(ConfigError, match=f"no run to plot: .*{' .*'.join(names)} has nothing to plot yet"):
        open_runs([tmp_path / name for name in names])


def test_a_folder_that_is_not_there_is_not_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [{metrics.STEPS: 1, metrics.TRAIN_RETURN: 5}])
    with pytest.raises(ConfigError, match="typo holds no run"):
        open_runs([run.path, tmp_path / "typo"])


def test_an_only_evaluation_is_drawn_where_no_episode_of_training_ended(tmp_path: Path) -> None:
    run = make_run(tmp_path, [{metrics.STEPS: 1}, {metrics.STEPS: 2, metrics.EVAL_RETURN: 7}])
    assert read_returns(run).points.values.tolist() == [7]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([3.0], 3.0), ([1.0, 2.0, 9.0], 4.0), ([0.0, 1.0, 3.0, 100.0], 2.0), ([0, 1, 2, 3, 4, 5, 6, 700], 3.5)],
)
def test_interquartile_means_worked_by_hand(values: list[float], expected: float) -> None:
    assert interquartile_mean(np.array(values)[:, None]).item() == expected


def test_the_band_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(20, 1000))
    low, high = bootstrap_band(values, np.random.default_rng(2))
    covered = np.mean((low < 0) & (high > 0))
    assert 0.85 < covered < 0.99
    assert (low <= interquartile_mean(values)).all()
    assert (interquartile_mean(values) <= high).all()


def test_labels_come_from_the_config(tmp_path: Path) -> None:
    run = make_run(tmp_path, [])
    assert label_of(run, None) == "SAC with PER"
    assert label_of(run, "storage") == "PER"
    assert label_of(run, "storage.alpha") == "alpha 0.6"
    assert label_of(run, "seed") == "seed 4"
    assert env_of(run) == "Pendulum-v1"


def test_a_run_that_does_not_say_is_called_by_its_default_or_by_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "per", [])
    other = make_run(tmp_path / "replay", [], {**CONFIG, "storage": {"name": "replay"}, "env": {"name": "A", "n": 3}})
    strange = make_run(tmp_path / "strange", [], {"storage": {"name": "of one's own"}})
    runs = [run, other, strange]
    assert labels_of(runs, "storage.alpha") == ["alpha 0.6", "no alpha", "no alpha"]
    assert labels_of(runs, "storage.beta")[:2] == ["beta 1.0", "no beta"]
    assert labels_of(runs, "actor.hidden_sizes") == ["hidden sizes [256, 256]"] * 3
    assert labels_of(runs, "env.n") == ["no n", "n 3", "no n"]
    assert labels_of(runs, "seed") == ["seed 4", "seed 4", "no seed"]
    assert labels_of(runs, "storage") == ["PER", "uniform replay", "of one's own"]


def test_an_entry_that_no_run_has_is_refused_with_the_closest(tmp_path: Path) -> None:
    run = make_run(tmp_path, [])
    with pytest.raises(ConfigError, match="no run has 'alhpa' in its storage; did you mean 'alpha'"):
        labels_of([run], "storage.alhpa")
    with pytest.raises(ConfigError, match="no run has 'storag' in its config; did you mean 'storage'"):
        labels_of([run], "storag.alpha")


def test_a_run_of_unknown_parts_is_called_by_its_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path / "mine", [], {})
    assert label_of(run, None) == env_of(run) == "mine"


def test_no_runs_is_refused() -> None:
    with pytest.raises(ConfigError, match="no run to plot"):
        open_runs([])
