"""`Journal`: a lane store on disk as it grows, so that it outlives the process that fills it.

It is a snapshot and, behind it, one file with an entry for each time that something was new. An entry is
as small as what it tells, and nothing waits for the disk: the journal is there for a process that is
killed, a snapshot for a machine that is switched off. Once the entries are many, a new snapshot takes
their place.
"""

import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from weakref import ref

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from recollect.agent.storages.experience.persistence.manifest import HEADS, Manifest, dump_store, load_standing
from recollect.agent.storages.experience.persistence.snapshot import Snapshot, standing
from recollect.agent.storages.experience.persistence.snapshot_content import (
    SEQUENCES,
    SLOTS,
    Content,
    Extras,
    Part,
    SlotValues,
    below,
    cut_slots,
)
from recollect.agent.storages.experience.store.experience_store import ExperienceStore
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.ring.ring_piece import RingPiece
from recollect.errors import StorageError
from recollect.files.disk import append_file, read_file, remove_file
from recollect.files.records import PARSE_ERRORS

# Entries are merged once they hold as much as the chunk that a snapshot writes again.
_MAX_BYTES: Final = 1 << 23
_ENTRIES: Final = "entries"
_SNAPSHOT: Final = "snapshot"
# Length and checksum of the entry that follows.
_HEAD: Final = struct.Struct("<QI")
_ABOUT: Final = "about"
_PIECES: Final = "pieces/"
_BEGINS: Final = "begins"
_ENDS: Final = "ends"
# An entry is small: it is read whatever steps are asked for.
_NO_END: Final = 1 << 62


@dataclass
class _Progress:
    """How far a store had got when it was last written."""

    ring: ref[LaneRing]
    heads: np.ndarray
    are_broken: np.ndarray
    table: np.ndarray
    num_bytes: int = 0

    def precedes(self, store: ExperienceStore) -> bool:
        """Whether nothing but new steps came since: the lanes are the same, and continue."""
        ring = store.ring
        return (
            self.ring() is ring
            and bool((ring.heads >= self.heads).all())
            and np.array_equal(self.table, store.starts.table)
        )


class Journal:
    """A folder that a store is written to again and again.

    Parameters
    ----------
    folder : path-like
        Where; made when first written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._path = Path(folder) / _ENTRIES
        self._snapshot = Snapshot(Path(folder) / _SNAPSHOT)
        self._noted: _Progress | None = None
        self._token = ""

    @property
    def exists(self) -> bool:
        """Whether something was written, damaged or not."""
        return self._snapshot.exists()

    def note(self, store: ExperienceStore, extras: Extras) -> None:
        """Write what is new in a store since the last time; at first, and after a new layout, all of it.

        Parameters
        ----------
        store : ExperienceStore
            What to write; at least its schema must be known.
        extras : Extras
            What to write with it. Of its arrays, only the entries of new steps: others may be older.
        """
        with store.lock:
            noted = self._noted
            if noted is None or noted.num_bytes > _MAX_BYTES or not noted.precedes(store):
                self._begin(store, extras)
                return
            entry = _entry(self._token, store, extras, noted)
            noted.heads, noted.are_broken = _standing_of(store.ring)
            noted.num_bytes += len(entry)
        try:
            append_file(self._path, _HEAD.pack(len(entry), zlib.crc32(entry)) + entry)
        except OSError as error:
            self._noted = None
            raise StorageError(f"cannot write to {self._path}: {error}") from error

    def read(self, store: ExperienceStore, check: Callable[[Extras], None] | None = None) -> Extras:
        """Fill a store with what was written, the newest steps if it has not room for all; see `Snapshot.read`."""
        additions = list(_read_entries(self._path, self._snapshot.manifest()))
        return self._snapshot.read(store, additions, check)

    def _begin(self, store: ExperienceStore, extras: Extras) -> None:
        """Write a snapshot. Entries of the one before may stay behind: they have not its token."""
        self._noted = None
        self._snapshot.write(store, extras)
        remove_file(self._path)
        self._token = self._snapshot.manifest().token
        ring = store.ring
        self._noted = _Progress(ref(ring), *_standing_of(ring), store.starts.table.copy())


def _standing_of(ring: LaneRing) -> tuple[np.ndarray, np.ndarray]:
    """How far each lane has got, and whether its stream is broken there."""
    return ring.heads.copy(), ring.are_broken(np.arange(ring.num_lanes), ring.heads)


def _entry(token: str, store: ExperienceStore, extras: Extras, noted: _Progress) -> bytes:
    """The steps since `noted` and how the store stands, as bytes."""
    ring, starts = store.ring, store.starts
    arrays: dict[str, np.ndarray] = {}
    heads, are_broken = _standing_of(ring)
    has_new = ((heads > noted.heads) | (are_broken != noted.are_broken)).reshape(-1, store.num_envs).any(1)
    for lane in (np.flatnonzero(has_new) * store.num_envs).tolist():
        lanes = slice(lane, lane + store.num_envs)
        piece = RingPiece.cut_from(ring, lane, np.maximum(ring.lows, noted.heads)[lanes], ring.heads[lanes])
        arrays[f"{_PIECES}{lane // store.num_envs}"] = piece.data
    # A start is drawn, and gets a value, once it has all of its steps.
    begins, ends, values = cut_slots(ring, extras.slot_arrays, noted.heads - starts.length)
    arrays |= {_BEGINS: begins, _ENDS: ends, **{SLOTS + name: array for name, array in values.items()}}
    arrays |= {SEQUENCES + name: array for name, array in starts.state(ring, noted.heads).items()}
    changes = standing(store, extras.state)
    about = {"token": token, **changes, "store": dump_store(changes["store"])}
    arrays[_ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


def _read_entries(path: Path, base: Manifest) -> Iterator[Content]:
    """Entries that continue the snapshot `base`; what the end of the process cut off is left out."""
    data = read_file(path) if path.exists() else b""
    position = 0
    while position + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        entry = data[position : position + length]
        position += length
        if len(entry) < length or zlib.crc32(entry) != checksum:
            return
        try:
            content = _parse(load(entry), base)
        except (*PARSE_ERRORS, SafetensorError) as error:
            raise StorageError(f"{path} is damaged: {error}") from error
        if content is not None:
            yield content


def _parse(arrays: Mapping[str, np.ndarray], base: Manifest) -> Content | None:
    about: dict[str, Any] = json.loads(arrays[_ABOUT].tobytes())
    if about["token"] != base.token:
        return None
    parts = [Part(int(group), _NO_END, partial(np.asarray, data)) for group, data in below(arrays, _PIECES).items()]
    slots = SlotValues(arrays[_BEGINS], arrays[_ENDS], below(arrays, SLOTS))
    changes = load_standing(about, base.num_envs)
    if len(changes["cursors"][HEADS]) != base.num_lanes:
        raise ValueError("its lanes are not those of the snapshot")
    return Content(parts, slots, below(arrays, SEQUENCES), changes)
