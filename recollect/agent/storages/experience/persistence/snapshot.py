"""`Snapshot`: a lane store in a folder, written bit by bit, whole at any moment, checked when read.

Steps lie in chunks that never change once later steps exist, so that a snapshot writes what is new
since the one before and refers to the rest. Files are never written over: the manifest, which names
them, is replaced in one move once they are all on disk. Whatever happens in between, the folder holds
either the old snapshot or the new one.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from weakref import ref

import numpy as np

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.persistence.manifest import Chunk, Manifest, load_manifest
from recollect.agent.storages.experience.persistence.snapshot_content import (
    Addition,
    Content,
    Extras,
    Piece,
    SlotValues,
    cut_slots,
    group_size_of,
    lanes_of,
    put_slots,
    put_steps,
)
from recollect.agent.storages.experience.persistence.snapshot_files import (
    MANIFEST,
    SnapshotReader,
    SnapshotWriter,
    remove_unused,
)
from recollect.agent.storages.experience.store.experience_store import ExperienceStore
from recollect.agent.storages.experience.store.lane_ring import LaneRing
from recollect.agent.storages.experience.store.ring_pieces import cut_piece
from recollect.agent.storages.experience.store.schema import Schema
from recollect.errors import RecollectError, StorageError

# A chunk that is still growing is written anew each time: small enough for that, large enough to be few.
_CHUNK_BYTES: Final = 1 << 23
_SEQUENCES: Final = "sequences-"
_SLOTS: Final = "slots-"
_FIRSTS: Final = "firsts"
_CURSORS: Final = ("heads", _FIRSTS, "lows")


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
        self._ring: ref[LaneRing] | None = None

    @property
    def exists(self) -> bool:
        """Whether a snapshot is there, damaged or not."""
        return (self.folder / MANIFEST).exists()

    @property
    def token(self) -> str:
        """What tells the snapshot that is there from any other."""
        return self._load_manifest().token

    def write(self, store: ExperienceStore, extras: Extras | None = None) -> None:
        """Write a store; if that fails, the snapshot before it is still there.

        Parameters
        ----------
        store : ExperienceStore
            What to write; at least its schema must be known.
        extras : Extras, optional
            What to write with it.
        """
        extras = extras or Extras()
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
        self._last, self._ring = manifest, ref(store.ring)
        remove_unused(self.folder, manifest.checksums)

    def read(
        self,
        store: ExperienceStore,
        additions: Sequence[Addition] = (),
        check: Callable[[Extras], None] | None = None,
    ) -> Extras:
        """Fill a store with the steps of the snapshot, the newest ones if it has not room for all.

        The store's own steps are gone then. If anything is wrong, it stays as it is.

        Parameters
        ----------
        store : ExperienceStore
            What to fill.
        additions : sequence of Addition
            What has come since, oldest first.
        check : callable, optional
            Told what was written with the steps, before the store changes; may refuse it with an error.
        """
        base = self._load_manifest()
        manifest = replace(base, **additions[-1].changes) if additions else base
        with store.lock:
            self._check_shape(store, manifest)
            ring = store.empty_ring(manifest.schema, len(manifest.cursors[_CURSORS[0]]) // manifest.num_envs)
            try:
                contents = [_read_content(base, SnapshotReader(self.folder, base.checksums))]
                contents += [addition.content for addition in additions]
                _set_cursors(ring, manifest)
                put_steps(ring, manifest.group_size, contents)
                extras = Extras(manifest.state, put_slots(ring, manifest.group_size, contents))
                if check is not None:
                    check(extras)
                store.adopt(ring, manifest.store, [content.sequences for content in contents])
            except (KeyError, IndexError, ValueError) as error:
                ring.allocator.forget(ring.generation)
                raise StorageError(f"the snapshot in {self.folder} is damaged: {error}") from error
            except RecollectError:
                ring.allocator.forget(ring.generation)
                raise
        self._last, self._ring = base, ref(ring)
        return extras

    def _write_files(
        self, store: ExperienceStore, extras: Extras, before: Manifest | None, writer: SnapshotWriter
    ) -> Manifest:
        ring, group_size = store.ring, group_size_of(store.ring, store.num_envs)
        arrays = {}
        for name, array in store.starts.state(ring).items():
            arrays[_SEQUENCES + name] = writer.save(_SEQUENCES + name, array)
        for name, group, _, values in cut_slots(ring, group_size, extras.slot_arrays, ring.firsts):
            arrays[f"{_SLOTS}{group}-{name}"] = writer.save(f"{_SLOTS}{group}-{len(arrays)}", values)
        chunks = list(self._write_chunks(ring, group_size, before, writer))
        return Manifest(
            serial=writer.serial,
            token=uuid.uuid4().hex,
            num_envs=store.num_envs,
            group_size=group_size,
            sequence=None if store.sequence is None else (store.sequence.length, store.sequence.overlap),
            schema=ring.schema,
            chunks=chunks,
            arrays=arrays,
            checksums=writer.checksums,
            **standing(store, extras.state),
        )

    def _write_chunks(
        self, ring: LaneRing, group_size: int, before: Manifest | None, writer: SnapshotWriter
    ) -> Iterator[Chunk]:
        """Write the steps in memory and what the newest led to, apart from chunks that are there already."""
        finals = {}
        if before is not None and before.group_size == group_size and self._is_of(ring, before):
            finals = {(chunk.group, chunk.end): chunk for chunk in before.chunks if chunk.is_final}
        for group in range(ring.num_lanes // group_size):
            lanes = lanes_of(group_size, group)
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

    def _is_of(self, ring: LaneRing, manifest: Manifest) -> bool:
        """Whether the snapshot that is there was written from, or read into, the same ring."""
        is_own = self._last is not None and self._last.token == manifest.token
        return is_own and self._ring is not None and self._ring() is ring

    def _check_shape(self, store: ExperienceStore, manifest: Manifest) -> None:
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


def standing(store: ExperienceStore, state: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a manifest that say how far a store has got."""
    ring = store.ring
    cursors = zip(_CURSORS, (ring.heads, ring.firsts, ring.lows), strict=True)
    return {
        "store": store.state(),
        "cursors": {name: cursor.tolist() for name, cursor in cursors},
        "num_cuts": ring.num_cuts,
        "num_ends": ring.num_ends,
        "state": dict(state),
    }


def _divide(low: int, head: int, schema: Schema, num_lanes: int) -> Iterator[tuple[int, int]]:
    """Begin and end of the chunks with the steps from `low` to the one to come, which is `head`."""
    num_steps = max(1, _CHUNK_BYTES // (schema.slot_bytes * num_lanes))
    begin = low
    while low < head and begin <= head:
        end = min((begin // num_steps + 1) * num_steps, head + 1)
        yield begin, end
        begin = end


def _set_cursors(ring: LaneRing, manifest: Manifest) -> None:
    """Prepare an empty ring for the newest steps, as many as fit."""
    heads, firsts, lows = (np.array(manifest.cursors[name], np.int64) for name in _CURSORS)
    ring.heads[:] = heads
    ring.firsts[:] = np.maximum(firsts, heads - ring.capacity)
    # The oldest stack is made of frames of the steps before it.
    ring.lows[:] = np.minimum(heads, np.maximum(lows, ring.firsts - (ring.schema.depth - 1)))
    ring.header[layout.H_NUM_CUTS] = manifest.num_cuts
    ring.header[layout.H_NUM_ENDS] = manifest.num_ends


def _read_content(manifest: Manifest, reader: SnapshotReader) -> Content:
    """The steps of a snapshot, read chunk by chunk, and what is kept beside them."""

    def load(chunk: Chunk) -> dict[str, np.ndarray]:
        return {name: reader.array(file) for name, file in chunk.files.items()}

    slot_values, sequences = [], {}
    for full_name, file in manifest.arrays.items():
        if full_name.startswith(_SEQUENCES):
            sequences[full_name.removeprefix(_SEQUENCES)] = reader.array(file)
        else:
            group, _, name = full_name.removeprefix(_SLOTS).partition("-")
            begin = manifest.cursors[_FIRSTS][int(group) * manifest.group_size]
            slot_values.append(SlotValues(name, int(group), begin, reader.array(file)))
    pieces = [Piece(chunk.group, chunk.begin, chunk.end, partial(load, chunk)) for chunk in manifest.chunks]
    return Content(pieces, slot_values, sequences)
