"""`Snapshot`: a lane store in a folder, written bit by bit, whole at any moment, checked when read.

Steps lie in chunks that never change once later steps exist, so that a snapshot writes what is new
since the one before and refers to the rest. Files are never written over: the manifest, which names
them, is replaced in one move once they are all on disk. Whatever happens in between, the folder holds
either the old snapshot or the new one.
"""

import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from recollect.agent.storages.experience import ring_layout as layout
from recollect.agent.storages.experience.lane_ring import LaneRing
from recollect.agent.storages.experience.lane_store import LaneStore
from recollect.agent.storages.experience.manifest import Chunk, Manifest, load_manifest
from recollect.agent.storages.experience.ring_pieces import cut_piece, put_piece
from recollect.agent.storages.experience.schema import Schema
from recollect.agent.storages.experience.sequences import Sequences
from recollect.agent.storages.experience.snapshot_files import (
    MANIFEST,
    SnapshotReader,
    SnapshotWriter,
    remove_unused,
)
from recollect.errors import RecollectError, StorageError

# A chunk that is still growing is written anew each time: small enough for that, large enough to be few.
_CHUNK_BYTES: Final = 1 << 23
_SEQUENCES: Final = "sequences-"
_SLOTS: Final = "slots-"
_CURSORS: Final = ("heads", "firsts", "lows")


@dataclass(frozen=True)
class Extras:
    """What the owner of a store keeps beside it.

    Attributes
    ----------
    state : dict
        Anything that JSON can hold.
    slot_arrays : dict
        Arrays with one entry for each slot of the ring, `[num_lanes * num_slots, ...]`, by name: raw
        errors, for one.
    """

    state: Mapping[str, Any]
    slot_arrays: Mapping[str, np.ndarray]


class Snapshot:
    """A folder that a store is written to and read from.

    Parameters
    ----------
    folder : path-like
        Where; made when first written. Of other files in it, nothing is known and nothing touched.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._last: Manifest | None = None

    @property
    def exists(self) -> bool:
        """Whether a snapshot is there, damaged or not."""
        return (self.folder / MANIFEST).exists()

    def write(self, store: LaneStore, extras: Extras | None = None) -> None:
        """Write a store; if that fails, the snapshot before it is still there.

        Parameters
        ----------
        store : LaneStore
            What to write; at least its schema must be known.
        extras : Extras, optional
            What to write with it.
        """
        extras = extras or Extras({}, {})
        before = self._found()
        writer = SnapshotWriter(self.folder, 0 if before is None else before.serial + 1)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with store.lock:
                manifest = self._write_files(store, extras, before, writer)
            writer.replace_manifest(manifest.dump())
        except (OSError, RecollectError) as error:
            writer.undo()
            if isinstance(error, OSError):
                raise StorageError(f"cannot write a snapshot to {self.folder}: {error}") from error
            raise
        self._last = manifest
        remove_unused(self.folder, manifest.checksums)

    def read(self, store: LaneStore) -> Extras:
        """Fill a store with the steps of the snapshot, the newest ones if it has not room for all.

        The store's own steps are gone then. If anything is wrong, it stays as it is.
        """
        manifest = self._load_manifest()
        reader = SnapshotReader(self.folder, manifest.checksums)
        with store.lock:
            self._check_shape(store, manifest)
            ring = store.empty_ring(manifest.schema, len(manifest.cursors[_CURSORS[0]]) // manifest.num_envs)
            try:
                _fill(ring, manifest, reader)
                slot_arrays = _read_slots(ring, manifest, reader)
                sequences = {
                    name.removeprefix(_SEQUENCES): reader.array(file)
                    for name, file in manifest.arrays.items()
                    if name.startswith(_SEQUENCES)
                }
                store.adopt(ring, manifest.store, sequences)
            except (KeyError, IndexError, ValueError) as error:
                ring.memory.forget(ring.generation)
                raise StorageError(f"the snapshot in {self.folder} is damaged: {error}") from error
            except RecollectError:
                ring.memory.forget(ring.generation)
                raise
        self._last = manifest
        return Extras(manifest.state, slot_arrays)

    def _write_files(
        self, store: LaneStore, extras: Extras, before: Manifest | None, writer: SnapshotWriter
    ) -> Manifest:
        ring, group_size = store.ring, _group_size(store.ring, store.num_envs)
        arrays = {}
        if isinstance(store.starts, Sequences):
            for name, array in store.starts.state(ring).items():
                arrays[_SEQUENCES + name] = writer.save(_SEQUENCES + name, array)
        for name, array in extras.slot_arrays.items():
            for group in range(ring.num_lanes // group_size):
                values = _cut_slots(ring, _lanes(group_size, group), array)
                arrays[f"{_SLOTS}{group}-{name}"] = writer.save(f"{_SLOTS}{group}-{len(arrays)}", values)
        chunks = list(self._write_chunks(ring, group_size, before, writer))
        return Manifest(
            serial=writer.serial,
            token=uuid.uuid4().hex,
            num_envs=store.num_envs,
            group_size=group_size,
            sequence=None if store.sequence is None else (store.sequence.length, store.sequence.overlap),
            schema=ring.schema,
            store=store.state(),
            cursors={
                name: cursor.tolist()
                for name, cursor in zip(_CURSORS, (ring.heads, ring.firsts, ring.lows), strict=True)
            },
            num_cuts=ring.num_cuts,
            num_ends=ring.num_ends,
            chunks=chunks,
            arrays=arrays,
            checksums=writer.checksums,
            state=dict(extras.state),
        )

    def _write_chunks(
        self, ring: LaneRing, group_size: int, before: Manifest | None, writer: SnapshotWriter
    ) -> Iterator[Chunk]:
        """Write the steps in memory and what the newest led to, apart from chunks that are there already."""
        finals = {}
        is_known = before is not None and self._last is not None and before.token == self._last.token
        if before is not None and is_known and before.group_size == group_size:
            finals = {(chunk.group, chunk.end): chunk for chunk in before.chunks if chunk.is_final}
        for group in range(ring.num_lanes // group_size):
            lanes = _lanes(group_size, group)
            head = int(ring.heads[lanes.start])
            for begin, end in _divide(int(ring.lows[lanes.start]), head, ring.schema, group_size):
                known = finals.get((group, end))
                if known is not None and known.begin <= begin:
                    assert before is not None
                    writer.keep(known.files.values(), before.checksums)
                    yield known
                    continue
                files = {
                    name: writer.save(f"{group}-{begin}-{name}", array)
                    for name, array in cut_piece(ring, lanes, begin, end).items()
                }
                yield Chunk(group, begin, end, end < head, files)

    def _check_shape(self, store: LaneStore, manifest: Manifest) -> None:
        sequence = None if store.sequence is None else (store.sequence.length, store.sequence.overlap)
        if (manifest.num_envs, manifest.sequence) != (store.num_envs, sequence):
            raise StorageError(
                f"the snapshot in {self.folder} has {manifest.num_envs} envs and sequences "
                f"{manifest.sequence}, this storage {store.num_envs} and {sequence}; name another folder"
            )

    def _found(self) -> Manifest | None:
        """The manifest of the snapshot that is there, if any; a folder of something else is refused."""
        if self.exists:
            return self._load_manifest()
        if self.folder.exists() and not self.folder.is_dir():
            raise StorageError(f"{self.folder} is a file; a snapshot needs a folder")
        return None

    def _load_manifest(self) -> Manifest:
        path = self.folder / MANIFEST
        try:
            return load_manifest(path.read_bytes(), str(path))
        except OSError as error:
            raise StorageError(f"no snapshot can be read from {self.folder}: {error}") from error


def _group_size(ring: LaneRing, num_envs: int) -> int:
    """Lanes that are written together: those of a source, unless some have got further than others."""
    cursors = np.stack([ring.heads, ring.firsts, ring.lows]).reshape(3, -1, num_envs)
    return num_envs if (cursors == cursors[:, :, :1]).all() else 1


def _lanes(group_size: int, group: int) -> slice:
    return slice(group * group_size, (group + 1) * group_size)


def _divide(low: int, head: int, schema: Schema, num_lanes: int) -> Iterator[tuple[int, int]]:
    """Begin and end of the chunks with the steps from `low` to the one to come, which is `head`."""
    num_steps = max(1, _CHUNK_BYTES // (schema.slot_bytes * num_lanes))
    begin = low
    while low < head and begin <= head:
        end = min((begin // num_steps + 1) * num_steps, head + 1)
        yield begin, end
        begin = end


def _fill(ring: LaneRing, manifest: Manifest, reader: SnapshotReader) -> None:
    """Put the newest steps into an empty ring, as many as fit."""
    heads, firsts, lows = (np.array(manifest.cursors[name], np.int64) for name in _CURSORS)
    ring.heads[:] = heads
    ring.firsts[:] = np.maximum(firsts, heads - ring.capacity)
    # The oldest stack is made of frames of the steps before it.
    ring.lows[:] = np.minimum(heads, np.maximum(lows, ring.firsts - (ring.schema.depth - 1)))
    for chunk in manifest.chunks:
        lanes = _lanes(manifest.group_size, chunk.group)
        lowest = int(ring.lows[lanes.start])
        if lowest < chunk.end:
            piece = {name: reader.array(file) for name, file in chunk.files.items()}
            put_piece(ring, lanes, chunk.begin, piece, lowest)
    ring.header[layout.H_NUM_CUTS] = manifest.num_cuts
    ring.header[layout.H_NUM_ENDS] = manifest.num_ends


def _cut_slots(ring: LaneRing, lanes: slice, values: np.ndarray) -> np.ndarray:
    """Values of the steps that may be handed out, `[num_lanes, num_steps, ...]`."""
    by_slot = values.reshape(ring.num_lanes, ring.num_slots, *values.shape[1:])
    numbers = np.arange(ring.firsts[lanes.start], ring.heads[lanes.start])
    taken: np.ndarray = by_slot[lanes][:, numbers % ring.num_slots]
    return taken


def _read_slots(ring: LaneRing, manifest: Manifest, reader: SnapshotReader) -> dict[str, np.ndarray]:
    """Arrays with an entry for each slot of `ring`, as they were cut out of another."""
    arrays: dict[str, np.ndarray] = {}
    for full_name, file in manifest.arrays.items():
        if not full_name.startswith(_SLOTS):
            continue
        group, _, name = full_name.removeprefix(_SLOTS).partition("-")
        values = reader.array(file)
        shape = (ring.num_lanes, ring.num_slots, *values.shape[2:])
        target = arrays.setdefault(name, np.zeros(shape, values.dtype))
        lanes = _lanes(manifest.group_size, int(group))
        numbers = np.arange(ring.firsts[lanes.start], ring.heads[lanes.start])
        target[lanes][:, numbers % ring.num_slots] = values[:, values.shape[1] - len(numbers) :]
    return {name: values.reshape(-1, *values.shape[2:]) for name, values in arrays.items()}
