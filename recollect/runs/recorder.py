"""`Recorder`: writes what a training does into its run directory, and to all who want its metrics."""

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from recollect import metrics
from recollect.agent.storages.base_buffer import BaseBuffer
from recollect.errors import ConfigError, RecollectWarning, StorageError
from recollect.files.lock import FolderLock
from recollect.roles import Storage, Training
from recollect.runs.checkpointing.background import BackgroundWriter
from recollect.runs.checkpointing.pace import CheckpointPace, next_multiple
from recollect.runs.checkpointing.saving import LoopState, capture_training, restore_training
from recollect.runs.directory import RunDirectory
from recollect.runs.writers import CSVWriter, MetricWriter, RowFunction, TensorBoardWriter, as_writer
from recollect.scheme.collection.worker.evaluation import Evaluation
from recollect.scheme.scheme import Scheme

_LOG = logging.getLogger(__name__)
_EVAL_PREFIX: Final = metrics.EVAL_RETURN.partition("/")[0] + "/"


class Recorder:
    """Writes metrics and checkpoints of a training when they are due; the options are those of `Learner`.

    Without a run's folder it only hands metrics to the writers. What cannot be written is tried again later. A
    checkpoint is copied after an update stage, and written in a thread; one that comes due meanwhile waits for it.

    Attributes
    ----------
    num_failed : int
        Checkpoints and rows that could not be written at first.
    stall_ms : float or None
        How long the training stood still for the newest checkpoint on its way.
    """

    def __init__(
        self,
        run: RunDirectory | None,
        *,
        log_every: int,
        pace: CheckpointPace,
        with_storage: bool = True,
        in_background: bool = True,
        writers: Sequence[MetricWriter | RowFunction] = (),
    ) -> None:
        self._others = [as_writer(writer) for writer in writers]
        self.run = run
        self._lock = None if run is None else FolderLock(run.path)
        self._log_every = log_every
        self._pace = pace
        self._with_storage = with_storage
        self._writer = BackgroundWriter(is_inline=not in_background)
        self._new: list[Path] = []
        self._files: list[CSVWriter | TensorBoardWriter] = []
        if run is not None:
            self._files = [CSVWriter(run.metrics_file), TensorBoardWriter(run.tensorboard_folder)]
        self._evaluation: Evaluation | None = None
        self._next_row = log_every
        # The newest one that was due, or nothing yet; None if that is not known.
        self._row: dict[str, float] | None = {}
        self.num_failed = 0
        self.stall_ms: float | None = None

    @property
    def folder(self) -> RunDirectory:
        """Where to save to and resume from."""
        if self.run is None:
            raise _no_folder()
        return self.run

    @property
    def write_s(self) -> float | None:
        """How long it took to write the newest checkpoint of those on the way."""
        return self._writer.write_s

    def follow(self, learner: Training) -> None:
        """Do what is due after an update stage."""
        self._take_written(learner)
        if self._is_row_due(learner):
            self.write_row(learner)
        if self._is_checkpoint_due(learner):
            self._begin_checkpoint(learner)

    def is_due(self, learner: Training) -> bool:
        """Whether `follow` has anything to do."""
        return self._is_row_due(learner) or self._writer.has_result or self._is_checkpoint_due(learner)

    def request_checkpoint(self) -> None:
        """Let a checkpoint be due after this update stage; an error if there is no folder for it."""
        if self.run is None:
            raise _no_folder()
        self._pace.request()

    def take_new(self) -> list[Path]:
        """Folders of the checkpoints that were written on the way since this was last asked."""
        new, self._new = self._new, []
        return new

    def _is_row_due(self, learner: Training) -> bool:
        return learner.num_steps >= self._next_row or learner.last_evaluation is not self._evaluation

    def _is_checkpoint_due(self, learner: Training) -> bool:
        return self.run is not None and self._pace.is_due(learner.num_steps) and not self._writer.is_busy

    def begin(self, learner: Training) -> None:
        """Write a checkpoint if there is none yet, so that a run can be resumed from its first moment on."""
        self._pace.begin(learner.num_steps)
        if self.run is not None and not self.run.checkpoints.paths():
            with self._tolerating_checkpoint(learner):
                self.save(learner)

    def _begin_checkpoint(self, learner: Training) -> None:
        """Copy what a checkpoint needs, and have it written beside the training."""
        begin = time.perf_counter()
        with self._tolerating_checkpoint(learner):
            self._writer.begin(self._capture(learner))
        self.stall_ms = 1e3 * (time.perf_counter() - begin)
        self._take_written(learner)

    def _take_written(self, learner: Training) -> None:
        """Hear of the checkpoint that was written beside the training, if it is whole or has failed by now."""
        with self._tolerating_checkpoint(learner):
            path = self._writer.take()
            if path is not None:
                self._new.append(path)

    def finish(self, learner: Training) -> None:
        """Wait until no checkpoint is being written."""
        self._writer.wait()
        self._take_written(learner)

    @contextmanager
    def _tolerating_checkpoint(self, learner: Training) -> Iterator[None]:
        """Let a checkpoint that fails be tried again soon."""
        num_before = self.num_failed
        with self.tolerating():
            yield
        if self.num_failed > num_before:
            self._pace.retry(learner.num_steps)

    @contextmanager
    def tolerating(self) -> Iterator[None]:
        """Let a write that fails be a warning, and count it."""
        try:
            yield
        except (OSError, StorageError) as error:
            self.num_failed += 1
            warnings.warn(f"{error}; the run continues, and tries again", RecollectWarning, stacklevel=3)

    def write_row(self, learner: Training) -> None:
        """Write the present metrics, those of an evaluation and those that callbacks logged once.

        Rows behind that of a checkpoint are dropped by whoever resumes from it.
        """
        row = learner.get_metrics() if self._files or self._others else {}
        stale = set(learner.logged) - learner.unwritten
        if learner.last_evaluation is self._evaluation:
            stale |= {name for name in row if name.startswith(_EVAL_PREFIX)} - learner.unwritten
        row = {name: value for name, value in row.items() if name not in stale}
        for writer in self._files:
            with self.tolerating():
                writer.write(row)
        for other in self._others:
            other.write(row)
        learner.unwritten.clear()
        self._evaluation = learner.last_evaluation
        self._next_row = next_multiple(learner.num_steps, self._log_every)
        is_again = self._row is not None and self._row.get(metrics.STEPS) == row.get(metrics.STEPS)
        self._row = {**(self._row or {}), **row} if is_again else row

    def save(self, learner: Training, *, with_storage: bool = True) -> Path:
        """Write a checkpoint now and return its folder, the replay only where it is wanted at all."""
        self.finish(learner)
        return self._capture(learner, with_storage=with_storage)()

    def _warn_of_lost_replay(self, storage: Storage) -> None:
        """Say once that checkpoints lack the replay, where the storage is not one of the library's."""
        if self._with_storage and not isinstance(storage, BaseBuffer):
            self._with_storage = False
            warnings.warn(
                f"checkpoints lack the replay, because {type(storage).__name__} cannot be saved: a resumed run begins "
                "with an empty one; derive it from ReplayBuffer, or another storage of the library",
                RecollectWarning,
                stacklevel=3,
            )

    def _capture(self, learner: Training, *, with_storage: bool = True) -> Callable[[], Path]:
        """Copy what a checkpoint needs, and return the function that writes it, for any thread to call."""
        self._warn_of_lost_replay(learner.scheme.storage)
        loop = LoopState(
            learner.elapsed_s,
            learner.callback_states(),
            {name: learner.logged[name] for name in sorted(learner.unwritten)},
            self._row,
            learner.stop_reason,
        )
        with_storage = with_storage and self._with_storage
        captured = capture_training(self.folder, learner.scheme, loop, with_storage=with_storage)
        self._pace.took(learner.num_steps)

        def write() -> Path:
            # Rows before a checkpoint must not be lost if it is not.
            for writer in self._files:
                writer.sync()
            return captured.write()

        return write

    def restore(self, scheme: Scheme) -> LoopState:
        """Load the newest whole checkpoint into a scheme; a run that has none yet starts from its beginning."""
        restored = LoopState(row={})
        self.folder.sweep()
        if self.folder.checkpoints.paths():
            restored = restore_training(self.folder, scheme)
        else:
            _LOG.warning("%s was stopped before its first checkpoint, and starts again", self.folder.path)
        self._row = None if restored.row is None else dict(restored.row)
        for writer in self._files:
            writer.go_back(scheme.num_steps, self._row)
        self._next_row = next_multiple(scheme.num_steps, self._log_every)
        self._pace.begin(scheme.num_steps)
        return restored

    def close(self) -> None:
        """Write what is left, and let other processes have the folder."""
        try:
            self._writer.wait()
            for writer in self._files:
                with self.tolerating():
                    writer.close()
            for other in self._others:
                other.close()
        finally:
            if self._lock is not None:
                self._lock.release()


def _no_folder() -> ConfigError:
    return ConfigError("the learner has no folder to save to or resume from; give log_dir")
