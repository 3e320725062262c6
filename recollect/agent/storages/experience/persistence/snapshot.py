"""`Snapshot`: a lane store in a folder, written bit by bit, whole at any moment, checked when read.

Steps lie in chunks that never change once later steps exist, so that a snapshot writes what is new
since the one before and refers to the rest. Files are never written over: the manifest, which names
them, gets its name in one move once they are all on disk. A folder may hold several snapshots, which
share chunks, each under the name that it was given; without a name, a new one replaces the old.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from weakref import ref

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from recollect.agent.storages.experience.persistence.manifest import FIRSTS, HEADS, Chunk, Manifest, read_manifest
from recollect.agent.storages.experience.persistence.snapshot_content import (
    SEQUENCES,
    SLOTS,
    Content,
    Extras,
    Part,
    SlotValues,
    below,
    cut_slots,
    put_slots,
    put_steps,
)
from recollect.agent.storages.experience.persistence.snapshot_files import (
    SnapshotWriter,
    manifest_file,
    remove_unused,
)
from recollect.agent.storages.experience.store.experience_store import ExperienceStore
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.ring.ring_piece import RingPiece
from recollect.errors import RecollectError, StorageError
from recollect.files.disk import Seal, has_seal, make_folder, read_sealed
from recollect.files.records import PARSE_ERRORS

# A chunk that is still growing is written again each time: small enough for that, large enough to be few.
_CHUNK_BYTES: Final = 1 << 23
_ARRAYS: Final = "arrays.safetensors"


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

    def exists(self, name: str = "") -> bool:
        """Whether a snapshot of that name is there, damaged or not."""
        return manifest_file(self.folder, name).exists()

    def manifest(self, name: str = "") -> Manifest:
        """What the snapshot of a name says of itself."""
        return read_manifest(manifest_file(self.folder, name))

    def write(self, store: ExperienceStore, extras: Extras | None = None, name: str = "") -> None:
        """Write a store; if that fails, the snapshots before it are still there.

        Parameters
        ----------
        store : ExperienceStore
            What to write; at least its schema must be known.
        extras : Extras, optional
            What to write with it.
        name : str
            What to call the snapshot.
        """
        self.capture(store, extras, name).write()

    def capture(self, store: ExperienceStore, extras: Extras | None = None, name: str = "") -> "CapturedStore":
        """Copy what `write` would write, so that it can be written while the store changes.

        Until that is done, nothing else may be captured for this folder.
        """
        extras = extras or Extras()
        self._check_folder(name)
        with store.lock:
            ring = store.ring
            arrays = {SEQUENCES + path: array for path, array in store.starts.state(ring).items()}
            slots = cut_slots(ring, extras.slot_arrays, ring.firsts)
            arrays |= {SLOTS + path: values for path, values in slots.values.items()}
            chunks = list(self._cut_chunks(ring, store.num_envs))
            entries = {
                "num_envs": store.num_envs,
                "sequence": store.sequence,
                "schema": ring.schema,
                **standing(store, deepcopy(dict(extras.state))),
            }
        return CapturedStore(self, name, ref(ring), arrays, chunks, entries)

    def read(
        self,
        store: ExperienceStore,
        additions: Sequence[Content] = (),
        check: Callable[[Extras], None] | None = None,
        name: str = "",
    ) -> Extras:
        """Fill a store with the steps of the snapshot, the newest ones if it has not room for all.

        The store's own steps are gone then. If anything is wrong, it stays as it is.

        Parameters
        ----------
        store : ExperienceStore
            What to fill.
        additions : sequence of Content
            What has come since, oldest first.
        check : callable, optional
            Told what was written with the steps, before the store changes; may refuse it with an error.
        name : str
            Which snapshot.
        """
        base = self.manifest(name)
        manifest = replace(base, **additions[-1].changes) if additions else base
        with store.lock:
            self._check_shape(store, manifest)
            ring = store.empty_ring(manifest.schema, manifest.num_lanes // manifest.num_envs)
            try:
                contents = [_read_content(base, self.folder), *additions]
                _fill(ring, manifest, contents)
                extras = Extras(manifest.state, put_slots(ring, contents))
                if check is not None:
                    check(extras)
                store.adopt(ring, manifest.store, [content.sequences for content in contents])
            except (*PARSE_ERRORS, SafetensorError, OSError, MemoryError) as error:
                ring.allocator.forget(ring.generation)
                raise StorageError(f"the snapshot in {self.folder} is damaged: {error}") from error
            except RecollectError:
                ring.allocator.forget(ring.generation)
                raise
        self._last, self._ring = base, ref(ring)
        return extras

    def _cut_chunks(self, ring: LaneRing, num_envs: int) -> Iterator["CapturedChunk"]:
        """Copy the steps in memory, apart from chunks that are there already."""
        before, finals = self._last, {}
        if before is not None and self._ring is not None and self._ring() is ring:
            finals = {(chunk.group, chunk.end): chunk for chunk in before.chunks if chunk.is_final}
        num_steps = max(1, _CHUNK_BYTES // (ring.schema.slot_bytes * num_envs))
        for lane in range(0, ring.num_lanes, num_envs):
            lows, heads = (cursors[lane : lane + num_envs] for cursors in (ring.lows, ring.heads))
            for begin in range(int(lows.min()) // num_steps * num_steps, int(heads.max()), num_steps):
                group, end = lane // num_envs, begin + num_steps
                known = finals.get((group, end))
                # It is gone if the snapshot was removed that it was written for.
                if known is not None and before and has_seal(self.folder / known.file, before.seals[known.file]):
                    yield CapturedChunk(known, before.seals[known.file], None)
                    continue
                ends = np.clip(end, lows, heads)
                piece = RingPiece.cut_from(ring, lane, np.clip(begin, lows, ends), ends)
                chunk = Chunk(group, end, end < int(heads.min()), f"{group}-{begin}.piece")
                yield CapturedChunk(chunk, None, piece.data)

    def has_written(self, manifest: Manifest, ring: "ref[LaneRing]") -> None:
        """Let the next snapshot write only what is new since this one."""
        self._last, self._ring = manifest, ring

    def _check_shape(self, store: ExperienceStore, manifest: Manifest) -> None:
        if (manifest.num_envs, manifest.sequence) != (store.num_envs, store.sequence):
            raise StorageError(
                f"the snapshot in {self.folder} has {manifest.num_envs} envs and sequences "
                f"{manifest.sequence}, this storage {store.num_envs} and {store.sequence}; name another folder"
            )

    def _check_folder(self, name: str) -> None:
        """Refuse a folder of something else."""
        if self.exists(name):
            self.manifest(name)
        if self.folder.exists() and not self.folder.is_dir():
            raise StorageError(f"{self.folder} is a file; a snapshot needs a folder")


class CapturedChunk(NamedTuple):
    """A chunk of a snapshot: one that is written already has its seal; of a new one, there are its bytes."""

    chunk: Chunk
    seal: Seal | None
    data: np.ndarray | None


@dataclass(frozen=True)
class CapturedStore:
    """A store as it was at one moment, copied; any thread may write it, whatever becomes of the store.

    Attributes
    ----------
    snapshot : Snapshot
        Where it is to be written.
    name : str
        What to call it there.
    ring : ref of LaneRing
        Where the steps were copied from.
    arrays : dict
        What is written again each time.
    chunks : list of CapturedChunk
        The steps.
    entries : dict
        All else that the manifest says.
    """

    snapshot: Snapshot
    name: str
    ring: "ref[LaneRing]"
    arrays: Mapping[str, np.ndarray]
    chunks: Sequence[CapturedChunk]
    entries: Mapping[str, Any]

    def write(self) -> None:
        """Write the snapshot; if that fails, those before it are still there."""
        folder = self.snapshot.folder
        writer = SnapshotWriter(folder, uuid.uuid4().hex)
        try:
            make_folder(folder)
            manifest = self._write_files(writer)
            writer.commit(self.name, manifest.dump())
        except (OSError, RecollectError) as error:
            writer.undo()
            if isinstance(error, OSError):
                raise StorageError(f"cannot write a snapshot to {folder}: {error}") from error
            raise
        self.snapshot.has_written(manifest, self.ring)
        remove_unused(folder)

    def _write_files(self, writer: SnapshotWriter) -> Manifest:
        arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        file = writer.save(_ARRAYS, save(arrays))
        chunks = [self._write_chunk(writer, each) for each in self.chunks]
        return Manifest(token=writer.token, chunks=chunks, arrays=file, seals=writer.seals, **self.entries)

    def _write_chunk(self, writer: SnapshotWriter, captured: CapturedChunk) -> Chunk:
        chunk, seal, data = captured
        if data is None:
            assert seal is not None
            if not has_seal(self.snapshot.folder / chunk.file, seal):
                raise StorageError(
                    f"{self.snapshot.folder / chunk.file} was removed while a snapshot was to be written"
                )
            writer.seals[chunk.file] = seal
            return chunk
        return replace(chunk, file=writer.save(chunk.file, data.data))


def standing(store: ExperienceStore, state: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a manifest that say how far a store has got."""
    ring = store.ring
    return {
        "store": store.state(),
        "cursors": {HEADS: ring.heads.tolist(), FIRSTS: ring.firsts.tolist()},
        "num_cuts": ring.num_cuts,
        "num_ends": ring.num_ends,
        "state": dict(state),
    }


def _fill(ring: LaneRing, manifest: Manifest, contents: Sequence[Content]) -> None:
    """Put the newest steps into an empty ring, as many as fit."""
    heads, firsts = (np.array(manifest.cursors[name], np.int64) for name in (HEADS, FIRSTS))
    firsts = np.maximum(firsts, heads - ring.capacity)
    # The oldest stack is made of frames of the steps before it.
    put_steps(ring, manifest.num_envs, np.minimum(heads, firsts - (ring.schema.depth - 1)), contents)
    for lane, (head, first) in enumerate(zip(heads, firsts, strict=True)):
        if ring.heads[lane] == ring.lows[lane] and first == head >= ring.heads[lane]:
            ring.jump(lane, head)
        if ring.heads[lane] != head or ring.lows[lane] > first:
            raise StorageError(f"steps of lane {lane} are missing")
        ring.forget(lane, first)
    ring.set_counts(manifest.num_cuts, manifest.num_ends)


def _read_content(manifest: Manifest, folder: Path) -> Content:
    """The steps of a snapshot, read chunk by chunk, and what is kept beside them."""

    def read(file: str) -> bytes:
        return read_sealed(folder / file, manifest.seals[file])

    def read_piece(file: str) -> np.ndarray:
        return np.frombuffer(read(file), np.uint8)

    arrays = load(read(manifest.arrays))
    firsts, heads = (np.array(manifest.cursors[name], np.int64) for name in (FIRSTS, HEADS))
    parts = [Part(chunk.group, chunk.end, partial(read_piece, chunk.file)) for chunk in manifest.chunks]
    return Content(parts, SlotValues(firsts, heads, below(arrays, SLOTS)), below(arrays, SEQUENCES))
