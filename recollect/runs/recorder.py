"""`Recorder`: writes what a training does into its run directory, and to all who want its metrics."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from recollect import metrics
from recollect.errors import ConfigError, RecollectWarning, StorageError
from recollect.lock import FolderLock
from recollect.roles import Training
from recollect.runs.directory import RunDirectory
from recollect.runs.saving import Restored, restore_training, save_training
from recollect.runs.writers import CSVWriter, MetricWriter, RowFunction, TensorBoardWriter, as_writer
from recollect.scheme.collection.worker.evaluation import Evaluation
from recollect.scheme.scheme import Scheme

# A checkpoint that could not be written is tried again so much sooner than the next one is due.
_TRIES_A_CHECKPOINT: Final = 10
_LOG = logging.getLogger(__name__)
_EVAL_PREFIX: Final = metrics.EVAL_RETURN.partition("/")[0] + "/"


class Recorder:
    """Writes metrics and checkpoints of a training when they are due; the options are those of `Learner`.

    Without a run's folder it only hands metrics to the writers. What cannot be written is tried again later.

    Attributes
    ----------
    num_failed : int
        Checkpoints and rows that could not be written at first.
    """

    def __init__(
        self,
        run: RunDirectory | None,
        *,
        log_every: int,
        checkpoint_every: int,
        with_storage: bool = True,
        writers: Sequence[MetricWriter | RowFunction] = (),
    ) -> None:
        self._others = [as_writer(writer) for writer in writers]
        self.run = run
        self._lock = None if run is None else FolderLock(run.path)
        self._log_every = log_every
        self._checkpoint_every = checkpoint_every
        self._with_storage = with_storage
        self._files: list[CSVWriter | TensorBoardWriter] = []
        if run is not None:
            self._files = [CSVWriter(run.metrics_file), TensorBoardWriter(run.tensorboard_folder)]
        self._evaluation: Evaluation | None = None
        self._next_row = log_every
        self._next_checkpoint = checkpoint_every
        self.num_failed = 0

    @property
    def folder(self) -> RunDirectory:
        """Where to save to and resume from."""
        if self.run is None:
            raise ConfigError("the learner has no folder to save to or resume from; give log_dir")
        return self.run

    def follow(self, learner: Training) -> Path | None:
        """Write what is due after an update stage; returns the folder of a checkpoint, if there is a new one."""
        if self._is_row_due(learner):
            self.write_row(learner)
        return self.attempt(learner) if self._is_checkpoint_due(learner) else None

    def is_due(self, learner: Training) -> bool:
        """Whether `follow` has anything to write."""
        return self._is_row_due(learner) or self._is_checkpoint_due(learner)

    def _is_row_due(self, learner: Training) -> bool:
        return learner.num_steps >= self._next_row or learner.last_evaluation is not self._evaluation

    def _is_checkpoint_due(self, learner: Training) -> bool:
        return self.run is not None and learner.num_steps >= self._next_checkpoint

    def begin(self, learner: Training) -> Path | None:
        """Write a checkpoint if there is none yet, so that a run can be resumed from its first moment on."""
        if self.run is None or self.run.checkpoints.paths():
            return None
        return self.attempt(learner)

    def attempt(self, learner: Training) -> Path | None:
        """Write a checkpoint and return its folder; if that fails, the run continues, and tries again soon."""
        self._next_checkpoint = learner.num_steps + max(1, self._checkpoint_every // _TRIES_A_CHECKPOINT)
        saved: list[Path] = []
        with self.tolerating():
            saved.append(self.save(learner))
        return saved[0] if saved else None

    @contextmanager
    def tolerating(self) -> Iterator[None]:
        """Let a write that fails be a warning, and count it."""
        try:
            yield
        except (OSError, StorageError) as error:
            self.num_failed += 1
            warnings.warn(f"{error}; the run continues, and tries again", RecollectWarning, stacklevel=3)

    def write_row(self, learner: Training) -> None:
        """Write the present metrics, those of an evaluation and those that callbacks logged once."""
        if self._files or self._others:
            row = learner.get_metrics()
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
        self._next_row = _next_multiple(learner.num_steps, self._log_every)

    def save(self, learner: Training, *, with_storage: bool = True) -> Path:
        """Write a checkpoint and return its folder, the replay only where it is wanted at all."""
        for writer in self._files:
            writer.sync()
        path = save_training(
            self.folder,
            learner.scheme,
            learner.elapsed_s,
            learner.callback_states(),
            with_storage=with_storage and self._with_storage,
        )
        self._next_checkpoint = _next_multiple(learner.num_steps, self._checkpoint_every)
        return path

    def restore(self, scheme: Scheme) -> Restored:
        """Load the newest whole checkpoint into a scheme; a run that has none yet starts from its beginning."""
        restored = Restored(0.0, {})
        if self.folder.checkpoints.paths():
            restored = restore_training(self.folder, scheme)
        else:
            _LOG.warning("%s was stopped before its first checkpoint, and starts again", self.folder.path)
        for writer in self._files:
            writer.forget_after(scheme.num_steps)
        self._next_row = _next_multiple(scheme.num_steps, self._log_every)
        self._next_checkpoint = _next_multiple(scheme.num_steps, self._checkpoint_every)
        return restored

    def close(self) -> None:
        """Write what is left, and let other processes have the folder."""
        try:
            for writer in self._files:
                with self.tolerating():
                    writer.close()
            for other in self._others:
                other.close()
        finally:
            if self._lock is not None:
                self._lock.release()


def _next_multiple(number: int, every: int) -> int:
    """The next whole multiple: what is written, and when, does not depend on where a run was resumed."""
    return (number // every + 1) * every
