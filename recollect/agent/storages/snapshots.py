"""Snapshots of storages: steps, priorities and the generator, so that a loaded one draws the same."""

from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from typing import Any, Final

from recollect.agent.storages.base_buffer import BaseBuffer
from recollect.agent.storages.experience.persistence.journal import Journal
from recollect.agent.storages.experience.persistence.snapshot import Snapshot
from recollect.agent.storages.experience.persistence.snapshot_content import Extras
from recollect.agent.storages.spaces_check import check_steps
from recollect.errors import StorageError
from recollect.files.records import PARSE_ERRORS

_OWNER: Final = "owner"


class StorageSnapshot:
    """A folder that one storage is written to again and again, each time only what is new.

    Parameters
    ----------
    folder : path-like
        Where; made when first written.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._snapshot = Snapshot(folder)

    def exists(self, name: str = "") -> bool:
        """Whether a snapshot of that name is there, damaged or not."""
        return self._snapshot.exists(name)

    def save(self, storage: BaseBuffer, name: str = "") -> None:
        """Write a storage; if that fails, snapshots before it are still there. An empty one is not written.

        Snapshots of different names stay side by side; one without a name replaces the one before.
        """
        self.capture(storage, name)()

    def capture(self, storage: BaseBuffer, name: str = "") -> Callable[[], None]:
        """Copy what `save` would write, and return the function that writes it, for any thread to call."""
        with storage.store.lock:
            if not storage.store.is_built:
                return _write_nothing
            return self._snapshot.capture(storage.store, storage.state(), name).write

    def load(self, storage: BaseBuffer, name: str = "") -> None:
        """Fill a storage from the snapshot, the newest steps if it has not room for all.

        The storage's parameters stay its own: a snapshot may be read with another alpha or n_step.
        """
        with storage.store.lock:
            folder = self._snapshot.folder
            extras = self._snapshot.read(storage.store, check=partial(_check_kind, storage, folder), name=name)
            _load_extras(storage, extras, folder)


class StorageJournal:
    """A folder that one storage is noted in as it grows, for another process to resume from if this one is killed.

    Steps are all there; errors of old steps may be those of some time ago.

    Parameters
    ----------
    folder : path-like
        Where; made when first written.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._folder = folder
        self._journal = Journal(folder)

    @property
    def exists(self) -> bool:
        """Whether something was noted."""
        return self._journal.exists

    def note(self, storage: BaseBuffer, owner: Mapping[str, Any]) -> None:
        """Write what is new in a storage, and how its owner stands: anything that JSON can hold."""
        with storage.store.lock:
            if storage.store.is_built:
                self._journal.note(storage.store, storage.state() | Extras({_OWNER: dict(owner)}))

    def load(self, storage: BaseBuffer) -> dict[str, Any]:
        """Fill a storage with what was noted; returns how its owner stood then."""
        with storage.store.lock:
            extras = self._journal.read(storage.store, partial(_check_kind, storage, self._folder))
            _load_extras(storage, extras, self._folder)
        owner: dict[str, Any] = extras.state[_OWNER]
        return owner


def save_storage(storage: BaseBuffer, folder: str | PathLike[str]) -> None:
    """Write a storage to a folder, whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from recollect import PERBuffer
    >>> memory = PERBuffer.standalone(100, alpha=0.6, seed=1)
    >>> obs, flag = np.zeros((1, 3), np.float32), np.zeros(1, bool)
    >>> memory.add(obs, obs, np.ones(1), obs + 1, flag, flag)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_storage(memory, folder)
    ...     other = PERBuffer.standalone(100, alpha=0.6)
    ...     load_storage(other, folder)
    >>> len(other)
    1
    """
    StorageSnapshot(folder).save(storage)


def load_storage(storage: BaseBuffer, folder: str | PathLike[str]) -> None:
    """Fill a storage from a folder that `save_storage` wrote; what it held before is gone."""
    StorageSnapshot(folder).load(storage)


def cut_streams(storage: BaseBuffer) -> None:
    """Say that what is stored next does not follow on what is stored last: the envs were reset.

    Workers that fed the storage from elsewhere are no more; others take their lanes.
    """
    store = storage.store
    with store.lock:
        if store.is_built:
            for source in store.sources:
                if source in storage.lasting_sources:
                    lane = store.lane_of(source)
                    store.ring.cut_lanes(range(lane, lane + store.num_envs))
                else:
                    store.release(source)


def _write_nothing() -> None:
    """Write the snapshot of a storage that holds nothing yet."""


def _check_kind(storage: BaseBuffer, folder: str | PathLike[str], extras: Extras) -> None:
    """Refuse what a storage wrote that keeps less beside its steps."""
    own = storage.state()
    if not (own.state.keys() <= extras.state.keys() and own.slot_arrays.keys() <= extras.slot_arrays.keys()):
        raise StorageError(
            f"the snapshot in {folder} is of another kind of storage than {type(storage).__name__}: it lacks "
            f"{', '.join(sorted((own.state.keys() - extras.state) | (own.slot_arrays.keys() - extras.slot_arrays)))}"
        )


def _load_extras(storage: BaseBuffer, extras: Extras, folder: str | PathLike[str]) -> None:
    """Give a storage what was written beside its steps; if that is nothing of a storage's, it is empty then."""
    try:
        storage.load_state(extras)
        check_steps(storage)
    except StorageError as error:
        storage.reset()
        raise StorageError(f"the snapshot in {folder} does not fit: {error}") from error
    except PARSE_ERRORS as error:
        storage.reset()
        raise StorageError(f"the snapshot in {folder} is damaged: {error!r}") from error
