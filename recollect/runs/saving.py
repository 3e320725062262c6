"""What it takes to go on with a training: weights, optimisers, counters, generators and replay."""

import logging
from pathlib import Path
from typing import Any, Final

from recollect.runs.checkpoints import read_checkpoint
from recollect.runs.directory import RunDirectory

_SCHEME: Final = "scheme"
_ELAPSED_S: Final = "elapsed_s"
_LOG = logging.getLogger(__name__)


class Saves:
    """Saves of one run, the replay each time only as far as it is new.

    Parameters
    ----------
    run : RunDirectory
        Where to.
    with_storage : bool
        Save the replay too.
    """

    def __init__(self, run: RunDirectory, *, with_storage: bool = True) -> None:
        self._run = run
        self._with_storage = with_storage

    def write(self, scheme: Any, elapsed_s: float, *, with_storage: bool = True) -> Path:
        """Write a checkpoint and return its folder.

        The replay comes first: a checkpoint that is there can be gone on from.
        """
        if self._with_storage and with_storage:
            scheme.save_storage(self._run.storage_folder)
        state = {_SCHEME: scheme.state(), _ELAPSED_S: elapsed_s}
        path = self._run.checkpoints.write(scheme.actor, state, scheme.num_steps)
        _LOG.info("checkpoint %s", path)
        return path

    def restore(self, scheme: Any) -> float:
        """Put the newest checkpoint into a scheme and return the seconds that its training took.

        The environments begin new episodes. Without a saved replay, learning goes on once the storage
        has seen `start_steps` new steps.
        """
        state = read_checkpoint(self._run.checkpoints.newest(), scheme.actor)
        scheme.load_state(state[_SCHEME])
        scheme.load_storage(self._run.storage_folder)
        return float(state[_ELAPSED_S])
