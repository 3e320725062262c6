"""Metrics are on disk as soon as they are written."""

import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recollect import metrics
from recollect.errors import ConfigError, StorageError
from recollect.runs.writers import CSVWriter, MLflowWriter, TensorBoardWriter, WandbWriter, as_writer, read_rows
from tests.waiting import PATIENCE_S


def test_rows_with_new_columns_extend_the_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    writer = CSVWriter(path)
    writer.write({metrics.STEPS: 1, "a": 0.5})
    writer.write({metrics.STEPS: 2, "b": 7})
    writer.write({metrics.STEPS: 3, "a": 2})
    assert path.read_text().splitlines() == ["steps,a,b", "1,0.5,", "2,,7", "3,2,"]


def test_a_file_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    CSVWriter(path).write({metrics.STEPS: 1, "a": 1})
    CSVWriter(path).write({metrics.STEPS: 2, "a": 2, "b": 3})
    assert read_rows(path) == [{"steps": "1", "a": "1", "b": ""}, {"steps": "2", "a": "2", "b": "3"}]


def test_a_second_row_of_the_same_steps_adds_to_the_first(tmp_path: Path) -> None:
    writer = CSVWriter(tmp_path / "metrics.csv")
    for row in ({"a": 1}, {"a": 2}, {"b": 3}, {"a": 4}):
        writer.write({metrics.STEPS: 7, **row})
    CSVWriter(writer.path).write({metrics.STEPS: 7, "a": 5})
    assert read_rows(writer.path) == [{"steps": "7", "a": "5", "b": "3"}]
    writer.write({metrics.STEPS: 8, "a": 6})
    assert [row["a"] for row in read_rows(writer.path)] == ["5", "6"]


def test_rows_after_a_checkpoint_are_dropped(tmp_path: Path) -> None:
    writer = CSVWriter(tmp_path / "metrics.csv")
    writer.go_back(10)
    for steps in (5, 10, 15):
        writer.write({metrics.STEPS: steps})
    writer.go_back(10)
    writer.write({metrics.STEPS: 12})
    assert [row["steps"] for row in read_rows(writer.path)] == ["5", "10", "12"]


def test_a_known_last_row_is_the_last_one_and_says_nothing_else(tmp_path: Path) -> None:
    writer = CSVWriter(tmp_path / "metrics.csv")
    writer.write({metrics.STEPS: 5, "a": 1})
    writer.write({metrics.STEPS: 10, "a": 2, "b": 3})
    writer.write({metrics.STEPS: 12, "c": 4})
    CSVWriter(writer.path).go_back(13, {metrics.STEPS: 10, "a": 2})
    assert writer.path.read_text().splitlines() == ["steps,a", "5,1", "10,2"]
    CSVWriter(writer.path).go_back(13, {})
    assert read_rows(writer.path) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"steps,a\nten,1\n", "steps must be a number in every row, got 'ten'"),
        (b"a\n1\n", "steps must be a number in every row, got None"),
        (b"steps\n1,2\n", "row 1 has more values than the header has names"),
        (b"steps\n\xff\n", "can't decode byte 0xff"),
    ],
)
def test_a_damaged_file_is_named(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    with pytest.raises(StorageError) as caught:
        CSVWriter(path).go_back(10)
    assert str(caught.value).startswith(f"{path} is damaged: ")
    assert reason in str(caught.value)
    assert path.read_bytes() == content


def test_tensorboard_gets_every_metric(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    writer = TensorBoardWriter(tmp_path)
    writer.write({metrics.STEPS: 10, "train/return": 1.5})
    writer.write({metrics.STEPS: 20, "train/return": 2.5, "eval/return": 7})
    writer.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/return")] == [(10, 1.5), (20, 2.5)]
    assert [event.step for event in events.Scalars("eval/return")] == [20]
    assert metrics.STEPS not in events.Tags()["scalars"]


def test_tensorboard_shows_steps_that_are_taken_again_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    # Files are read in the order of their names, which begin with the second in which they were made.
    seconds = count(int(time.time()))
    monkeypatch.setattr(time, "time", lambda: float(next(seconds)))
    for begin, value in ((10, 1.0), (30, 2.0)):
        writer = TensorBoardWriter(tmp_path)
        if begin > 10:
            writer.go_back(20)
        for steps in range(begin, 50, 10):
            writer.write({metrics.STEPS: steps, "train/return": value})
        writer.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    points = [(event.step, event.value) for event in events.Scalars("train/return")]
    assert points == [(10, 1.0), (20, 1.0), (30, 2.0), (40, 2.0)]


def test_tensorboard_gets_no_file_without_a_row(tmp_path: Path) -> None:
    TensorBoardWriter(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r'needs the extra \'wandb\': pip install "recollect\[wandb\]"'):
        WandbWriter("project", "run")


def test_what_weights_and_biases_refuse_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class UsageError(Exception):
        """As raised where nobody has logged in."""

    def init(**options: Any) -> None:
        raise UsageError("api_key not configured (no-tty)")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init, errors=SimpleNamespace(Error=UsageError)))
    with pytest.raises(ConfigError, match="refuses the run: api_key not configured"):
        WandbWriter("project", "run")


def test_weights_and_biases_get_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    run = SimpleNamespace(
        log=lambda row, step: calls.append((row, step)),
        finish=lambda: calls.append("finish"),
    )
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **options: calls.append(options) or run))
    writer = WandbWriter("project", "run", {"seed": 1})
    writer.write({metrics.STEPS: 4, "a": 1.0})
    writer.close()
    assert calls == [
        {"project": "project", "name": "run", "config": {"seed": 1}, "id": None, "resume": None},
        ({"steps": 4, "a": 1.0}, 4),
        "finish",
    ]


def test_a_run_at_weights_and_biases_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    run = SimpleNamespace(id="abc")
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **options: calls.append(options) or run))
    assert WandbWriter("project", "run").run_id == "abc"
    WandbWriter("project", "run", run_id="abc")
    new, known = calls
    assert known == {**new, "id": "abc", "resume": "allow"}


@pytest.mark.slow
def test_a_real_run_of_weights_and_biases_without_a_network(tmp_path: Path) -> None:
    """In a process of its own: the service that writes the file ends with it."""
    code = (
        "from recollect.runs.writers import WandbWriter\n"
        "writer = WandbWriter('project', 'run', {'seed': 1})\n"
        "writer.write({'steps': 4, 'mine': 1.5})\n"
        "writer.write({'steps': 8, 'mine': 2.5})\n"
        "writer.close()\n"
        "print(writer.run_id)\n"
    )
    env = {**os.environ, "WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    (file,) = tmp_path.rglob(f"run-{shown.split()[-1]}.wandb")
    content = file.read_bytes()
    assert all(text in content for text in (b"mine", b"1.5", b"2.5"))


def mlflow_points(folder: Path, run_id: str, name: str) -> list[tuple[int, float]]:
    from mlflow import MlflowClient

    return [(point.step, point.value) for point in MlflowClient(folder.as_uri()).get_metric_history(run_id, name)]


@pytest.mark.slow
def test_a_real_run_of_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "")  # so that the test leaves it as it was
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    writer = MLflowWriter("experiment", "run", {"seed": 1, "algo": {"gamma": 0.9}})
    writer.write({metrics.STEPS: 4, "train/return": 1.5})
    writer.close()
    resumed = MLflowWriter("experiment", "run", {"seed": 1}, writer.run_id)
    resumed.write({metrics.STEPS: 8, "train/return": 2.5})
    resumed.close()
    other = MLflowWriter("experiment", "run")
    other.close()
    assert other.run_id != resumed.run_id == writer.run_id
    folder = tmp_path / "mlruns"
    assert mlflow_points(folder, writer.run_id, "train/return") == [(4, 1.5), (8, 2.5)]
    from mlflow import MlflowClient

    run = MlflowClient(folder.as_uri()).get_run(writer.run_id)
    assert run.data.params == {"seed": "1", "algo.gamma": "0.9"}
    assert run.info.status == "FINISHED"


def test_mlflow_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ConfigError, match=r'MLflow needs the extra \'mlflow\': pip install "recollect\[mlflow\]"'):
        MLflowWriter("experiment", "run")


@pytest.mark.slow
def test_what_mlflow_refuses_is_a_typed_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://at.all")
    with pytest.raises(ConfigError, match=r"MLflow refuses the run: .*set MLFLOW_TRACKING_URI"):
        MLflowWriter("experiment", "run")


def test_a_function_gets_rows_of_its_own() -> None:
    rows: list[dict[str, float]] = []
    writer = as_writer(rows.append)
    row = {metrics.STEPS: 4.0}
    writer.write(row)
    writer.close()
    assert rows == [row]
    assert rows[0] is not row


@pytest.mark.parametrize("given", [3, "file.csv", WandbWriter])
def test_what_takes_no_rows_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="writers must have the methods write and close"):
        as_writer(given)
