"""Where the metrics of a run are written: a CSV file, TensorBoard, Weights & Biases, MLflow, a function."""

import csv
import io
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from recollect import metrics
from recollect.errors import CallbackError, ConfigError, StorageError
from recollect.extras import import_extra
from recollect.files.disk import append_file, make_folder, read_file, sync_file, write_file

Metrics = Mapping[str, float]

_MAX_BYTES: Final = 1 << 30
_TRACKING_URI: Final = "MLFLOW_TRACKING_URI"


@runtime_checkable
class MetricWriter(Protocol):
    """Takes rows of metrics; each row holds the env steps at which it was taken."""

    def write(self, row: Metrics) -> None:
        """Take a row."""

    def close(self) -> None:
        """Write what is left."""


RowFunction = Callable[[dict[str, float]], object]
"""A plain function in place of a writer: gets each row, a dict of its own."""


class _ToFunction:
    """Hands rows to a function."""

    def __init__(self, function: RowFunction) -> None:
        self._function = function

    def write(self, row: Metrics) -> None:
        try:
            self._function(dict(row))
        except Exception as error:
            name = getattr(self._function, "__qualname__", type(self._function).__name__)
            raise CallbackError(f"the writer {name} failed with {type(error).__name__}: {error}") from error

    def close(self) -> None: ...


def as_writer(given: MetricWriter | RowFunction) -> MetricWriter:
    """Take a writer as it is, and a function as one."""
    if isinstance(given, type) or not (isinstance(given, MetricWriter) or callable(given)):
        raise ConfigError(f"writers must have the methods write and close, or be functions of a row, got {given!r}")
    return given if isinstance(given, MetricWriter) else _ToFunction(given)


class CSVWriter:
    """Appends rows to a CSV file, each at once; a new column extends the header.

    A second row of the same steps, as of a last evaluation, adds to the first one. A row that could not be written
    comes with the next one. What a power cut has left of the last row is dropped.

    Parameters
    ----------
    path : Path
        The file. Rows that are there already stay.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        rows = read_rows(path)
        self._columns = list(rows[0]) if rows else []
        self._unwritten: list[Metrics] = []
        self._last_steps: float | None = None
        # Whether the file has all columns, and nothing but whole rows.
        self._is_whole = False

    def write(self, row: Metrics) -> None:
        """Append a row."""
        self._unwritten.append(row)
        new = [name for name in row if name not in self._columns]
        self._columns += new
        is_whole, self._is_whole = self._is_whole and not new and row[metrics.STEPS] != self._last_steps, False
        if is_whole:
            append_file(self.path, self._text(self._unwritten))
        else:
            rows = read_rows(self.path)
            # Another learner of this process may have added some.
            self._columns += [name for name in (rows[0] if rows else ()) if name not in self._columns]
            rows = _one_each([*rows, *self._unwritten], self.path)
            write_file(self.path, self._text(rows, with_header=True))
        self._is_whole, self._unwritten, self._last_steps = True, [], row[metrics.STEPS]

    def go_back(self, num_steps: int, last: Metrics | None = None) -> None:
        """Drop the rows of later steps, which a resumed run writes again.

        Parameters
        ----------
        num_steps : int
            How far the run has come.
        last : mapping, optional
            The newest row by then, if it is known: there are none behind it, and it says nothing else. If it is empty,
            there was none.
        """
        rows = [(number_in(row, metrics.STEPS, self.path), row) for row in read_rows(self.path)]
        kept: list[Mapping[str, object]] = [row for steps, row in rows if steps <= num_steps]
        if last is not None:
            kept = [row for steps, row in rows if steps < last.get(metrics.STEPS, -math.inf)]
            kept += [last] if last else []
            self._columns = [*self._columns, *(name for name in last if name not in self._columns)]
            self._columns = [name for name in self._columns if any(row.get(name, "") != "" for row in kept)]
        if rows or kept:
            write_file(self.path, self._text(kept, with_header=True))

    def sync(self) -> None:
        """Have the rows so far survive a power cut."""
        if self.path.exists():
            sync_file(self.path)

    def close(self) -> None:
        """Nothing is left to be written."""

    def _text(self, rows: Sequence[Mapping[str, object]], *, with_header: bool = False) -> bytes:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self._columns, restval="", extrasaction="ignore")
        if with_header:
            writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()


class TensorBoardWriter:
    """Writes event files for TensorBoard, the first one when there is something to write, each row at once.

    TensorBoard's own writer has a thread, which a full disk ends with a traceback.

    Parameters
    ----------
    folder : Path
        Where; files that are there already stay.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._purge_step: int | None = None

    def go_back(self, num_steps: int, last: Metrics | None = None) -> None:
        """Have TensorBoard drop the points that a resumed run repeats, see `CSVWriter`; call before the first row."""
        self._purge_step = 1 + int(num_steps if last is None else last.get(metrics.STEPS, -1))

    def write(self, row: Metrics) -> None:
        """Write a point for each metric; after a failure, into another file."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        points = [Summary.Value(tag=name, simple_value=value) for name, value in row.items() if name != metrics.STEPS]
        content = _event(step=int(row[metrics.STEPS]), summary=Summary(value=points))
        path, self._path = self._path, None
        if path is None:
            make_folder(self._folder)
            path = self._folder / f"events.out.tfevents.{time.time():017.6f}.{socket.gethostname()}.{os.getpid()}"
            write_file(path, self._head() + content)  # nothing is left of it on a full disk
        else:
            append_file(path, content)
        self._path, self._purge_step = path, None

    def _head(self) -> bytes:
        """What a file begins with: its version, and from which step on points of files before it do not count."""
        from tensorboard.compat.proto.event_pb2 import SessionLog

        head = _event(file_version="brain.Event:2")
        if self._purge_step is None:
            return head
        return head + _event(step=self._purge_step, session_log=SessionLog(status=SessionLog.START))

    def sync(self) -> None:
        """Points are drawn from `metrics.csv` too, so that nothing waits for these."""

    def close(self) -> None:
        """Nothing is left to be written."""


def _event(**content: Any) -> bytes:
    """A record of an event file: something that happened now."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    record = io.BytesIO()
    RecordWriter(record).write(Event(wall_time=time.time(), **content).SerializeToString())
    return record.getvalue()


class WandbWriter:
    """Sends metrics to Weights & Biases, an extra.

    Parameters
    ----------
    project : str
        Project there.
    name : str
        Name of the run.
    config : mapping, optional
        The resolved config.
    run_id : str, optional
        The run there to resume; by default a new one.
    """

    def __init__(
        self, project: str, name: str, config: Mapping[str, Any] | None = None, run_id: str | None = None
    ) -> None:
        wandb = import_extra("wandb", "wandb", "Weights & Biases needs")
        try:
            self._run = wandb.init(
                project=project,
                name=name,
                config=dict(config or {}),
                id=run_id,
                resume=None if run_id is None else "allow",
            )
        except wandb.errors.Error as error:
            raise ConfigError(
                f"Weights & Biases refuses the run: {error}; type `wandb login`, or set WANDB_MODE=offline"
            ) from error

    @property
    def run_id(self) -> str:
        """Id of the run there, to resume it later."""
        return str(self._run.id)

    def write(self, row: Metrics) -> None:
        """Send a row."""
        self._run.log(dict(row), step=int(row[metrics.STEPS]))

    def close(self) -> None:
        """Send what is left."""
        self._run.finish()


class MLflowWriter:
    """Sends metrics to MLflow, an extra; without `MLFLOW_TRACKING_URI` into the folder `mlruns`.

    Parameters
    ----------
    experiment : str
        Experiment there.
    name : str
        Name of the run.
    config : mapping, optional
        The resolved config; each of its values becomes a parameter of the run.
    run_id : str, optional
        The run there to resume; by default a new one.
    """

    def __init__(
        self, experiment: str, name: str, config: Mapping[str, Any] | None = None, run_id: str | None = None
    ) -> None:
        mlflow = import_extra("mlflow", "mlflow", "MLflow needs")
        if _TRACKING_URI not in os.environ:
            # The small package that the extra installs has no database, and newer ones refuse files unless told.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        try:
            self._client = mlflow.MlflowClient(os.environ.get(_TRACKING_URI, Path("mlruns").resolve().as_uri()))
            self.run_id = run_id or self._new_run(experiment, name, config or {})
        except mlflow.exceptions.MlflowException as error:
            raise ConfigError(f"MLflow refuses the run: {error}; set {_TRACKING_URI}") from error

    def _new_run(self, experiment: str, name: str, config: Mapping[str, Any]) -> str:
        known = self._client.get_experiment_by_name(experiment)
        place = self._client.create_experiment(experiment) if known is None else known.experiment_id
        run_id = str(self._client.create_run(place, run_name=name).info.run_id)
        for option, value in _flat(config):
            self._client.log_param(run_id, option, value)
        return run_id

    def write(self, row: Metrics) -> None:
        """Send a row."""
        from mlflow.entities import Metric

        now_ms, step = int(time.time() * 1000), int(row[metrics.STEPS])
        points = [Metric(name, value, now_ms, step) for name, value in row.items() if name != metrics.STEPS]
        self._client.log_batch(self.run_id, metrics=points)

    def close(self) -> None:
        """Mark the run as finished."""
        self._client.set_terminated(self.run_id)


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Values of a nested mapping by their dotted names."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file as they stand, apart from one that is not whole; none where there is no file."""
    try:
        # A power cut leaves zeros at the end, or a part of a row.
        content = read_file(path, _MAX_BYTES).partition(b"\0")[0]
        text = content[: content.rfind(b"\n") + 1].decode()
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    except FileNotFoundError:
        return []
    except (csv.Error, UnicodeDecodeError, OSError) as error:
        raise _damaged(path, str(error)) from error
    for number, row in enumerate(rows, start=1):
        if None in row:
            raise _damaged(path, f"row {number} has more values than the header has names")
    return rows


def _one_each(rows: Sequence[Mapping[str, Any]], path: Path) -> list[dict[str, Any]]:
    """Rows of which none has the steps of the one before it: that one has its values too."""
    found: list[dict[str, Any]] = []
    steps = math.nan
    for row in rows:
        before, steps = steps, number_in(row, metrics.STEPS, path)
        if steps == before:
            found[-1] |= {name: value for name, value in row.items() if value != ""}
        else:
            found.append(dict(row))
    return found


def number_in(row: Mapping[str, Any], name: str, path: Path) -> float:
    """A number in a row of the CSV file at `path`."""
    try:
        return float(row[name])
    except (KeyError, TypeError, ValueError):
        raise _damaged(path, f"{name} must be a number in every row, got {row.get(name)!r}") from None


def _damaged(path: Path, reason: str) -> StorageError:
    return StorageError(f"{path} is damaged: {reason}; correct the file, or leave the run out")
