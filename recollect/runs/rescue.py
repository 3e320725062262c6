"""`Rescue`: saves what a training has reached before an error ends it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recollect.errors import NotFiniteError, RecollectError, StorageError, WorkerError
from recollect.roles import Training
from recollect.runs.checkpointing.state_files import flatten, write_tensors
from recollect.runs.directory import RunDirectory
from recollect.runs.recorder import Recorder


class Rescue:
    """Saves a checkpoint before an error of the library's own ends a block, and adds its location to the message.

    Parameters
    ----------
    recorder : Recorder
        Writes the checkpoint; without a run's folder nothing is saved.
    learner : Training
        What to save.
    """

    def __init__(self, recorder: Recorder, learner: Training) -> None:
        self._recorder = recorder
        self._learner = learner

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        run = self._recorder.run
        if isinstance(error, RecollectError) and run is not None:
            message = str(error).rstrip(".")
            # Errors of workers have several lines; all others stay on one line.
            separator = "\n" if "\n" in message else ". "
            error.args = (separator.join([message, *self._save_all(error, run)]),)

    def _save_all(self, error: RecollectError, run: RunDirectory) -> list[str]:
        """Save a checkpoint to resume from and the offending batch, if any; returns where they are."""
        before = run.checkpoints.paths()
        batch = self._learner.scheme.gradients.offending_batch if isinstance(error, NotFiniteError) else None
        places = [] if batch is None else [_save_batch(run.batch_file, batch)]
        try:
            # A gradient that is not finite is never applied: the weights are still good.
            return [*places, f"The training so far is saved in {self._save_checkpoint()}"]
        except (RecollectError, OSError) as reason:
            last = f"the last good checkpoint is {before[-1]}" if before else "there was no checkpoint yet"
            return [*places, f"The training since then could not be saved ({reason}); {last}"]

    def _save_checkpoint(self) -> Path:
        """Write a checkpoint, without the replay if it cannot be written or the workers that hold it are gone."""
        try:
            return self._recorder.save(self._learner)
        except (StorageError, WorkerError):
            return self._recorder.save(self._learner, with_storage=False)


def _save_batch(path: Path, batch: Mapping[str, Any]) -> str:
    """Save a batch, and say where it is or why it could not be saved."""
    try:
        write_tensors(path, flatten(batch))
    except (RecollectError, OSError) as reason:
        return f"The batch could not be saved ({reason})"
    return f"The batch is in {path}"
