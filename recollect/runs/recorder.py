"""`Recorder`: writes what a training does into its run directory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from recollect import metrics
from recollect.roles import Training
from recollect.runs.directory import RunDirectory
from recollect.runs.saving import restore_training, save_training
from recollect.runs.writers import CSVWriter, MetricWriter, TensorBoardWriter
from recollect.scheme.collection.worker.evaluation import Evaluation
from recollect.scheme.scheme import Scheme

_EVAL_PREFIX: Final = metrics.EVAL_RETURN.partition("/")[0] + "/"


class Recorder:
    """Writes metrics and checkpoints of a training into `run` when they are due; the options are those of `Learner`."""

    def __init__(
        self,
        run: RunDirectory,
        *,
        log_every: int,
        checkpoint_every: int,
        with_storage: bool = True,
        writers: Sequence[MetricWriter] = (),
    ) -> None:
        self.run = run
        self._log_every = log_every
        self._checkpoint_every = checkpoint_every
        self._with_storage = with_storage
        self._csv = CSVWriter(run.metrics_file)
        self._events = TensorBoardWriter(run.tensorboard_folder)
        self._writers: list[MetricWriter] = [self._csv, self._events, *writers]
        self._evaluation: Evaluation | None = None
        self._next_row = log_every
        self._next_checkpoint = checkpoint_every

    def follow(self, learner: Training) -> None:
        """Write what is due after an update stage."""
        if learner.num_steps >= self._next_row or learner.last_evaluation is not self._evaluation:
            self.write_row(learner)
        if learner.num_steps >= self._next_checkpoint:
            self.save(learner)

    def write_row(self, learner: Training) -> None:
        """Write the present metrics, those of an evaluation once."""
        row = learner.get_metrics()
        if learner.last_evaluation is self._evaluation:
            row = {name: value for name, value in row.items() if not name.startswith(_EVAL_PREFIX)}
        for writer in self._writers:
            writer.write(row)
        self._evaluation = learner.last_evaluation
        self._next_row = learner.num_steps + self._log_every

    def save(self, learner: Training, *, with_storage: bool = True) -> Path:
        """Write a checkpoint and return its folder, the replay only where it is wanted at all."""
        with_storage = with_storage and self._with_storage
        path = save_training(self.run, learner.scheme, learner.elapsed_s, with_storage=with_storage)
        self._next_checkpoint = learner.num_steps + self._checkpoint_every
        return path

    def restore(self, scheme: Scheme) -> float:
        """Load the newest checkpoint into a scheme and return the seconds that its training took."""
        elapsed_s = restore_training(self.run, scheme)
        self._csv.forget_after(scheme.num_steps)
        self._events.forget_after(scheme.num_steps)
        self._next_row = scheme.num_steps + self._log_every
        self._next_checkpoint = scheme.num_steps + self._checkpoint_every
        return elapsed_s

    def close(self) -> None:
        """Write what is left."""
        for writer in self._writers:
            writer.close()
