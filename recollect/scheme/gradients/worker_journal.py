"""`WorkerJournal`: the journal of a gradient worker's storage, from which it resumes if it is killed."""

import logging
import shutil
from contextlib import suppress
from pathlib import Path

from recollect.agent.storages.base_buffer import BaseBuffer
from recollect.agent.storages.snapshots import StorageJournal, cut_streams
from recollect.errors import StorageError
from recollect.roles import Storage
from recollect.scheme.collection.agent_worker import AgentWorker

_LOG = logging.getLogger(__name__)


class WorkerJournal:
    """The journal of one worker; it is begun again with every storage that the worker is given.

    Parameters
    ----------
    folder : Path or None
        Where all workers of a training have theirs; None keeps no journal.
    index_worker : int
        Whose it is.
    """

    def __init__(self, folder: Path | None, index_worker: int) -> None:
        self._folder = None if folder is None else folder_of(folder, index_worker)
        self._index_worker = index_worker
        self._journal: StorageJournal | None = None
        self.begin(0)

    @property
    def exists(self) -> bool:
        """Whether something was noted of the present storage."""
        return self._journal is not None and self._journal.exists

    def begin(self, number: int) -> None:
        """Note from now on what comes into the storage of that number."""
        if self._folder is not None:
            self._journal = StorageJournal(self._folder / str(number))

    def note(self, col_worker: AgentWorker) -> None:
        """Write what is new in a worker's storage, and how it stands; without a journal if that is impossible."""
        if self._journal is None:
            return
        try:
            self._journal.note(as_buffer(col_worker.storage), col_worker.state())
        except StorageError as error:
            _LOG.warning("gradient worker %d keeps no journal from now on: %s", self._index_worker, error)
            self._journal = None

    def load(self, col_worker: AgentWorker) -> None:
        """Give a worker what another, which it takes the place of, has stored and counted."""
        assert self._journal is not None
        storage = as_buffer(col_worker.storage)
        col_worker.load_state(self._journal.load(storage))
        cut_streams(storage)

    def remove(self) -> None:
        """Remove all that was noted."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            # On another machine than the one that made it, nobody else removes the folder of all workers.
            with suppress(OSError):
                self._folder.parent.rmdir()


def as_buffer(storage: Storage) -> BaseBuffer:
    """The storage as one that can be written to disk; a user's own may not be."""
    if not isinstance(storage, BaseBuffer):
        raise StorageError(f"{type(storage).__name__} cannot be saved; derive it from BaseBuffer")
    return storage


def folder_of(folder: Path, index: int) -> Path:
    """Folder of one worker; workers do not have the same working directory as the process that starts them."""
    return folder.absolute() / f"worker-{index}"
