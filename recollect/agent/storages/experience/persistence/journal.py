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

from recollect.agent.storages.experience.persistence.manifest import dump_store, load_store
from recollect.agent.storages.experience.persistence.snapshot import Snapshot, standing
from recollect.agent.storages.experience.persistence.snapshot_content import (
    Addition,
    Content,
    Extras,
    Piece,
    SlotValues,
    cut_slots,
    group_size_of,
    lanes_of,
)
from recollect.agent.storages.experience.store.experience_store import ExperienceStore
from recollect.agent.storages.experience.store.lane_ring import LaneRing
from recollect.agent.storages.experience.store.ring_pieces import cut_piece
from recollect.errors import StorageError

# Entries are put together once there is as much of them as of the chunk that a snapshot writes anew.
_MOST_BYTES: Final = 1 << 23
_ENTRIES: Final = "entries"
_SNAPSHOT: Final = "snapshot"
# Length and checksum of the entry that follows.
_HEAD: Final = struct.Struct("<QI")
_ABOUT: Final = "about"


@dataclass
class _Noted:
    """How far a store had got when it was last written."""

    ring: ref[LaneRing]
    group_size: int
    heads: np.ndarray
    table: np.ndarray
    num_bytes: int = 0

    def leads_to(self, store: ExperienceStore) -> bool:
        """Whether nothing but new steps came since: the lanes are the same, and go on."""
        ring = store.ring
        return (
            self.ring() is ring
            # Lane by lane is always possible, also where lanes have got equally far again.
            and self.group_size in (1, group_size_of(ring, store.num_envs))
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
        self._noted: _Noted | None = None
        self._token = ""

    @property
    def exists(self) -> bool:
        """Whether something was written, damaged or not."""
        return self._snapshot.exists

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
            if noted is None or noted.num_bytes > _MOST_BYTES or not noted.leads_to(store):
                self._begin(store, extras)
                return
            entry = _entry(self._token, store, extras, noted)
            noted.heads = store.ring.heads.copy()
            noted.num_bytes += len(entry)
        try:
            with open(self._path, "ab") as file:
                file.write(_HEAD.pack(len(entry), zlib.crc32(entry)) + entry)
        except OSError as error:
            self._noted = None
            raise StorageError(f"cannot write to {self._path}: {error}") from error

    def read(self, store: ExperienceStore, check: Callable[[Extras], None] | None = None) -> Extras:
        """Fill a store with what was written, the newest steps if it has not room for all; see `Snapshot.read`."""
        additions = list(_read_entries(self._path, self._snapshot.token))
        return self._snapshot.read(store, additions, check)

    def _begin(self, store: ExperienceStore, extras: Extras) -> None:
        """Write a snapshot. Entries of the one before may stay behind: they have not its token."""
        self._noted = None
        self._snapshot.write(store, extras)
        self._path.unlink(missing_ok=True)
        self._token = self._snapshot.token
        ring = store.ring
        size = group_size_of(ring, store.num_envs)
        self._noted = _Noted(ref(ring), size, ring.heads.copy(), store.starts.table.copy())


def _entry(token: str, store: ExperienceStore, extras: Extras, noted: _Noted) -> bytes:
    """The steps since `noted` and how the store stands, as bytes."""
    ring, starts, size = store.ring, store.starts, noted.group_size
    pieces = []
    arrays: dict[str, np.ndarray] = {}
    for group in range(ring.num_lanes // size):
        lanes = lanes_of(size, group)
        # What the newest step led to may have changed since it was written.
        low, head = int(ring.lows[lanes.start]), int(ring.heads[lanes.start])
        begin = max(low, int(noted.heads[lanes.start]) - 1)
        if low < head:
            pieces.append((group, begin, head + 1))
            arrays |= {f"{group}/{name}": array for name, array in cut_piece(ring, lanes, begin, head + 1).items()}
    # A start is drawn, and gets a value, once it has all of its steps.
    slots = cut_slots(ring, size, extras.slot_arrays, noted.heads - starts.length)
    arrays |= {f"slots/{each.group}/{each.name}": each.values for each in slots}
    arrays |= {f"sequences/{name}": array for name, array in starts.state(ring, noted.heads).items()}
    changes = standing(store, extras.state)
    about = {
        "token": token,
        "pieces": pieces,
        "slots": [(each.name, each.group, each.begin) for each in slots],
        **changes,
        "store": dump_store(changes["store"]),
    }
    arrays[_ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


def _read_entries(path: Path, token: str) -> Iterator[Addition]:
    """Entries that go on from the snapshot with `token`; what the end of the process cut off is left out."""
    data = path.read_bytes() if path.exists() else b""
    position = 0
    while position + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        entry = data[position : position + length]
        position += length
        if len(entry) < length or zlib.crc32(entry) != checksum:
            return
        try:
            addition = _parse(load(entry), token)
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise StorageError(f"{path} is damaged: {error}") from error
        if addition is not None:
            yield addition


def _parse(arrays: Mapping[str, np.ndarray], token: str) -> Addition | None:
    about: dict[str, Any] = json.loads(arrays[_ABOUT].tobytes())
    if about.pop("token") != token:
        return None
    pieces = [
        Piece(group, begin, end, partial(_below, arrays, f"{group}/")) for group, begin, end in about.pop("pieces")
    ]
    slots = [
        SlotValues(name, group, first, arrays[f"slots/{group}/{name}"]) for name, group, first in about.pop("slots")
    ]
    content = Content(pieces, slots, _below(arrays, "sequences/"))
    return Addition({**about, "store": load_store(about["store"])}, content)


def _below(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
