"""`KeptStorage`: what a gradient worker writes of its storage to disk, and reads back when it resumes."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from recollect.agent.storages.snapshots import StorageSnapshot, cut_streams
from recollect.errors import SchemaError, StorageError
from recollect.scheme.collection.agent_worker import AgentWorker
from recollect.scheme.gradients.status import ResumePoint
from recollect.scheme.gradients.worker_journal import WorkerJournal, as_buffer

_LOG = logging.getLogger(__name__)


class KeptStorage:
    """The storage of one worker on disk: snapshots of it, and the journal of what has come in since it started.

    Parameters
    ----------
    col_worker : AgentWorker
        Whose storage, and whose counts.
    journal_folder : Path or None
        Where workers keep their journals; None keeps none.
    index_worker : int
        Index of the gradient worker.
    """

    def __init__(self, col_worker: AgentWorker, journal_folder: Path | None, index_worker: int) -> None:
        self._col_worker = col_worker
        self._index_worker = index_worker
        self._snapshots: dict[Path, StorageSnapshot] = {}
        self.journal = WorkerJournal(journal_folder, index_worker)

    def capture(self, folder: Path, name: str) -> Callable[[], None]:
        """Copy what is new in the storage, and return the function that writes it, for any thread to call."""
        return self._snapshot_in(folder).capture(as_buffer(self._col_worker.storage), name)

    def load(self, folder: Path, name: str) -> None:
        """Fill the storage with a snapshot, if there is one; else learning waits for `start_steps` new steps."""
        snapshot, storage = self._snapshot_in(folder), self._col_worker.storage
        if snapshot.exists(name):
            snapshot.load(as_buffer(storage), name)
            if not self._col_worker.continues_episodes:
                cut_streams(as_buffer(storage))
        else:
            self._count_as_lost()

    def note(self) -> None:
        """Write what is new in the storage to the journal."""
        self.journal.note(self._col_worker)

    def recover(self, resume_point: ResumePoint) -> None:
        """Fill the storage of a worker that resumes, from its journal or from a snapshot."""
        sources: list[Callable[[], None]] = []
        if resume_point.is_restart and self.journal.exists:
            sources.append(partial(self.journal.load, self._col_worker))
        if resume_point.storage is not None:
            sources.append(partial(self.load, *resume_point.storage))
        if not any(self._can_fill(fill) for fill in sources) and resume_point.is_restart:
            self._count_as_lost()

    def _can_fill(self, fill: Callable[[], None]) -> bool:
        """Fill the storage, and return whether that was possible; if not, it is empty and the run continues."""
        try:
            fill()
        except (OSError, SchemaError, StorageError) as error:
            _LOG.warning("gradient worker %d cannot read what was stored: %s", self._index_worker, error)
            self._col_worker.storage.reset()
            return False
        return True

    def _count_as_lost(self) -> None:
        counts = self._col_worker.counts
        counts.num_steps_lost = counts.num_steps

    def _snapshot_in(self, folder: Path) -> StorageSnapshot:
        return self._snapshots.setdefault(folder, StorageSnapshot(folder))
