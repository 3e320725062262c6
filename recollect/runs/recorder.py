"""`Recorder`: writes what a training does into its run directory, and to all who want its metrics."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from recollect import metrics
from recollect.errors import ConfigError
from recollect.roles import Training
from recollect.runs.directory import RunDirectory
from recollect.runs.lock import FolderLock
from recollect.runs.saving import Restored, restore_training, save_training
from recollect.runs.writers import CSVWriter, MetricWriter, RowFunction, TensorBoardWriter, as_writer
from recollect.scheme.collection.worker.evaluation import Evaluation
from recollect.scheme.scheme import Scheme

_EVAL_PREFIX: Final = metrics.EVAL_RETURN.partition("/")[0] + "/"


class Recorder:
    """Writes metrics and checkpoints of a training when they are due; the options are those of `Learner`.

    Without a run's folder it only hands metrics to the writers.
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
        others = [as_writer(writer) for writer in writers]
        self.run = run
        self._lock = None if run is None else FolderLock(run.path)
        self._log_every = log_every
        self._checkpoint_every = checkpoint_every
        self._with_storage = with_storage
        self._files: list[CSVWriter | TensorBoardWriter] = []
        if run is not None:
            self._files = [CSVWriter(run.metrics_file), TensorBoardWriter(run.tensorboard_folder)]
        self._writers: list[MetricWriter] = [*self._files, *others]
        self._evaluation: Evaluation | None = None
        self._next_row = log_every
        self._next_checkpoint = checkpoint_every

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
        return self.save(learner) if self._is_checkpoint_due(learner) else None

    def is_due(self, learner: Training) -> bool:
        """Whether `follow` has anything to write."""
        return self._is_row_due(learner) or self._is_checkpoint_due(learner)

    def _is_row_due(self, learner: Training) -> bool:
        return learner.num_steps >= self._next_row or learner.last_evaluation is not self._evaluation

    def _is_checkpoint_due(self, learner: Training) -> bool:
        return self.run is not None and learner.num_steps >= self._next_checkpoint

    def write_row(self, learner: Training) -> None:
        """Write the present metrics, those of an evaluation and those that callbacks logged once."""
        if self._writers:
            row = learner.get_metrics()
            stale = set(learner.logged) - learner.unwritten
            if learner.last_evaluation is self._evaluation:
                stale |= {name for name in row if name.startswith(_EVAL_PREFIX)} - learner.unwritten
            for writer in self._writers:
                writer.write({name: value for name, value in row.items() if name not in stale})
        learner.unwritten.clear()
        self._evaluation = learner.last_evaluation
        self._next_row = _next_multiple(learner.num_steps, self._log_every)

    def save(self, learner: Training, *, with_storage: bool = True) -> Path:
        """Write a checkpoint and return its folder, the replay only where it is wanted at all."""
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
        """Load the newest checkpoint into a scheme."""
        restored = restore_training(self.folder, scheme)
        for writer in self._files:
            writer.forget_after(scheme.num_steps)
        self._next_row = _next_multiple(scheme.num_steps, self._log_every)
        self._next_checkpoint = _next_multiple(scheme.num_steps, self._checkpoint_every)
        return restored

    def close(self) -> None:
        """Write what is left, and let other processes have the folder."""
        try:
            for writer in self._writers:
                writer.close()
        finally:
            if self._lock is not None:
                self._lock.release()


def _next_multiple(number: int, every: int) -> int:
    """The next whole multiple: what is written, and when, does not depend on where a run was resumed."""
    return (number // every + 1) * every
