"""`ExperienceStore`: samples in, rows by id out. Every buffer is built on it."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from recollect import keys
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.sampling.outputs import OutputPlan
from recollect.agent.storages.experience.sampling.sequences import Starts
from recollect.agent.storages.experience.sampling.tensor_pool import MakeTensor, host_tensor
from recollect.agent.storages.experience.store.allocator import Allocator
from recollect.agent.storages.experience.store.continuity_check import warn_of_cuts
from recollect.agent.storages.experience.store.fork_lock import make_lock
from recollect.agent.storages.experience.store.intake import naming_nan, take_marks, with_time
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.ring.ring_access import RingAccess
from recollect.agent.storages.experience.store.ring.ring_builder import RingBuilder, SequenceShape
from recollect.agent.storages.experience.store.ring.ring_piece import RingPiece
from recollect.agent.storages.experience.store.schema.planning import FrameStacks, no_sample
from recollect.agent.storages.experience.store.schema.schema import Schema
from recollect.agent.storages.experience.store.schema.schema_text import sample_of
from recollect.agent.storages.experience.store.sources import (
    Source,
    Sources,
    StoreState,
    check_origin,
    check_source,
    join,
)
from recollect.errors import RecollectError, SchemaError, StorageError

ONE_STEP: Final = np.ones(1, np.int64)
_STEPS_BETWEEN_CHECKS: Final = 100


class ExperienceStore:
    """Lanes of steps from one or more sources, each with `num_envs` lanes of its own.

    Parameters
    ----------
    size : int
        Steps along time that all sources' lanes hold together: with W sources each lane has `size // W`.
    num_envs : int
        Lanes of one source.
    allowed_keys : tuple of str
        Keys that a sample may have.
    allocator : Allocator
        Where the bytes live.
    frame_stack : int, tuple or mapping, optional
        Depth of stacked frames, for each observation key that has them.
    sequence : SequenceShape, optional
        Hand out sequences instead of steps.
    on_relayout : callable
        Called with the old and the new ring when steps have moved to other slots.
    extra_bytes : callable
        Tells the bytes that are kept for each step outside the store, for the estimate of its size.
    make_tensor : callable
        Makes the tensors that batches are gathered into.

    Attributes
    ----------
    is_nested : bool
        Whether a key holds a dict of arrays.
    num_repeated : int
        Steps of slices so far that were there already.
    """

    def __init__(
        self,
        size: int,
        num_envs: int,
        allowed_keys: tuple[str, ...],
        allocator: Allocator,
        *,
        frame_stack: FrameStacks = None,
        sequence: SequenceShape | None = None,
        on_relayout: Callable[[LaneRing | None, LaneRing], None] = lambda old, new: None,
        extra_bytes: Callable[[], float] = lambda: 0.0,
        make_tensor: MakeTensor = host_tensor,
    ) -> None:
        self.size = size
        self.num_envs = num_envs
        self.lock = make_lock()
        self.sequence = sequence
        self._allocator = allocator
        self._builder = RingBuilder(num_envs, allowed_keys, allocator, frame_stack, sequence, extra_bytes, make_tensor)
        self._builder.check_size(size)
        self._on_relayout = on_relayout
        self._sources = Sources()
        self._warned_of_cuts = False
        self._access: RingAccess | None = None
        # A schema that is known to be the store's: comparing takes longer than appending a few steps.
        self._piece_schema: Schema | None = None
        self._cleared_at = 0
        self.num_repeated = 0
        self.is_nested = False

    @property
    def access(self) -> RingAccess:
        """The ring and its parts; there are none before the first sample."""
        if self._access is None:
            raise StorageError("the storage is empty: insert data before sampling or reading")
        return self._access

    @property
    def ring(self) -> LaneRing:
        """The steps."""
        return self.access.ring

    @property
    def starts(self) -> Starts:
        """Which steps rows may start at."""
        return self.access.starts

    @property
    def is_built(self) -> bool:
        """Whether a first sample has come."""
        return self._access is not None

    @property
    def sources(self) -> list[Hashable]:
        """Sources that feed the store."""
        return self._sources.names

    def __len__(self) -> int:
        return 0 if self._access is None else self._access.num_steps

    @property
    def num_since_clear(self) -> int:
        """Steps that the first lane has received since the store was last emptied."""
        return 0 if self._access is None else int(self._access.ring.heads[0]) - self._cleared_at

    def lane_of(self, source: Hashable) -> int:
        """First of the lanes that a source feeds."""
        return self._sources.lane_of(source)

    def build(self, sample: Mapping[str, Any], num_lead: int = 1) -> None:
        """Plan the schema from a first sample, whose arrays have `num_lead` axes of time and envs."""
        if self._access is None:
            schema = self._builder.plan(sample, num_lead)
            self._hold(self._builder.access_to(self._builder.make_ring(schema, self.size, 1)), None)

    def insert(self, sample: Mapping[str, Any]) -> None:
        """Append one step of the first source, `[num_envs, ...]`; everything is checked before anything changes."""
        first, access = self._sources.known.get(0), self._access
        try:
            has_marks = keys.SKIP in sample or keys.START in sample
        except TypeError:
            raise no_sample(sample) from None
        if first is None or access is None or has_marks:
            self.insert_slice(with_time(sample), 0, 1, None)
            return
        addresses, alive = access.intake.read(sample)
        try:
            if self.sequence is None:
                access.ring.append(first.one_step, addresses)
            else:
                access.append(first.one_step, addresses, access.intake.read_hidden(sample, None))
        except SchemaError as refusal:
            raise naming_nan(refusal, with_time(sample)) from None
        del alive
        self._count_step(first)

    def insert_at(self, addresses: np.ndarray) -> bool:
        """Append one step of the first source, whose arrays have been read; False if there is no such source."""
        first, access = self._sources.known.get(0), self._access
        if first is None or access is None:
            return False
        access.ring.append(first.one_step, addresses)
        self._count_step(first)
        return True

    def _count_step(self, source: Source) -> None:
        source.num_rows += 1
        if source.num_rows % _STEPS_BETWEEN_CHECKS == 0:
            self._warned_of_cuts = self._warned_of_cuts or warn_of_cuts(self.ring)

    def insert_slice(self, sample: Mapping[str, Any], source: Hashable, num_steps: int, first_step: int | None) -> None:
        """Append `num_steps` steps of a source, `[num_steps, num_envs, ...]`, those that are not there already.

        Rows that the key `Skip` marks are left out; one that is marked `Cut` too breaks the stream before it.
        In lanes that hold no start of a sequence yet, sequences start where the key `SequenceStart` says.
        """
        first_step = check_origin(source, first_step)
        with self._undone_if_refused():
            sample, marks = take_marks(sample, (num_steps, self.num_envs, 1))
            self.build(sample, 2)
            new = self.access.intake.read_slice(sample, num_steps, marks)
            try:
                self.ring.check(new.addresses, num_steps * self.num_envs)
            except SchemaError as refusal:
                raise naming_nan(refusal, sample) from None
            if num_steps == 0 and source not in self._sources.known:
                return
            known = self._sources.add(source, np.full(self.num_envs, first_step or 0), self._add_lanes)
        begin = 0
        if first_step is not None:
            joint = join(known.received, np.full(self.num_envs, first_step), num_steps)
            begin = int(joint.num_known.max())
            self.num_repeated += begin
            known.received = np.maximum(known.received, first_step)
            self.ring.cut_lanes(known.lane + np.flatnonzero(~joint.follows))
        if begin < num_steps:
            self.access.append_slice(new, known.lane, begin)
            known.num_rows += num_steps - begin
            self._warned_of_cuts = self._warned_of_cuts or warn_of_cuts(self.ring)

    def append_piece(self, piece: RingPiece, source: Hashable) -> int:
        """Append the steps of a piece that are not there already; returns how many they were.

        A piece from elsewhere is checked here: one that does not fit is refused, and nothing has changed.
        """
        known = self._feeder_of_piece(piece, source)
        if known is None:
            return 0
        received = known.received
        joint = join(received, piece.begins, piece.num_steps)
        num_new = self.access.append_piece(piece, known.lane, joint)
        known.received = np.maximum(received, piece.begins + piece.num_steps)
        num_repeated = int(joint.num_known.max())
        self.num_repeated += num_repeated
        if num_repeated == 0:
            self.ring.header[layout.H_NUM_CUTS] += piece.num_cuts
        self._warned_of_cuts = self._warned_of_cuts or warn_of_cuts(self.ring)
        return num_new

    def num_new(self, source: Hashable, first_step: int | np.ndarray | None, num_steps: int | np.ndarray) -> int:
        """Most steps of a lane that are not there yet, of `num_steps` steps from `first_step` on."""
        check_source(source)
        known = self._sources.known.get(source)
        if known is None or first_step is None:
            return num_steps if isinstance(num_steps, int) else int(np.max(num_steps))
        return int((num_steps - join(known.received, np.asarray(first_step), num_steps).num_known).max())

    def make_outbox_store(self, size: int) -> "ExperienceStore":
        """A small store for steps of the same kind, which keeps the hidden state of each."""
        return ExperienceStore(
            size,
            self.num_envs,
            self._builder.allowed_keys,
            Allocator(),
            frame_stack=self._builder.frame_stack,
            sequence=None if self.sequence is None else SequenceShape(1, 0),
        )

    def release(self, source: Hashable) -> None:
        """Let the lanes of a source that left be taken by the next one that joins."""
        lane = self._sources.release(source)
        self.ring.cut_lanes(range(lane, lane + self.num_envs))

    def resize(self, size: int) -> None:
        """Hold `size` steps along time from now on; the newest stay."""
        if self._access is not None:
            self._relayout(self.ring.num_lanes // self.num_envs, size)
        else:
            self._builder.check_size(size)
        self.size = size

    def clear(self) -> None:
        """Forget all steps; of a sequence store, the last `overlap` ones stay as context."""
        if self._access is None:
            return
        self._access.forget()
        self._cleared_at = int(self.ring.heads[0])
        self._on_relayout(self.ring, self.ring)

    def plan(self) -> OutputPlan:
        """A separate plan to gather all stored columns."""
        return OutputPlan(self.ring)

    def state(self) -> StoreState:
        """Who feeds the store, and how far they got."""
        return self._sources.state(warned_of_cuts=self._warned_of_cuts, cleared_at=self._cleared_at)

    def empty_ring(self, schema: Schema, num_groups: int) -> LaneRing:
        """Make a ring of this store's size for steps of `schema` from `num_groups` sources, to be adopted."""
        if self._access is not None and schema != self.ring.schema:
            raise StorageError("the steps differ from this storage's in keys, shapes, dtypes or frame stacks")
        self._builder.check_stacks(schema)
        return self._builder.make_ring(schema, self.size, num_groups)

    def adopt(self, ring: LaneRing, state: StoreState, sequences: Sequence[Mapping[str, np.ndarray]]) -> None:
        """Replace the ring by another; `sequences` are states of `Starts`, the first one whole."""
        old, access = self._access, self._builder.access_to(ring)
        access.starts.load_state(ring, sequences)
        self._sources.load_state(state)
        self._warned_of_cuts = state.warned_of_cuts
        self._cleared_at = state.cleared_at
        self._hold(access, None)
        if old is not None:
            self._allocator.forget(old.ring.generation)

    @contextmanager
    def _undone_if_refused(self) -> Iterator[None]:
        """Forget the schema again if what it was planned from is refused."""
        was_built = self.is_built
        try:
            yield
        except RecollectError:
            if not was_built:
                self._discard()
            raise

    def _feeder_of_piece(self, piece: RingPiece, source: Hashable) -> Source | None:
        """The source of a piece, once it is known to fit; None of one that is new and has no steps."""
        check_source(source)
        with self._undone_if_refused():
            if self._access is None:
                self.build(sample_of(piece.schema, self.num_envs))
            self._check_piece(piece)
            if piece.num_steps.any():
                self._sources.add(source, piece.begins, self._add_lanes)
        return self._sources.known.get(source)

    def _check_piece(self, piece: RingPiece) -> None:
        if piece.schema is not self._piece_schema:
            if piece.schema != self.ring.schema:
                raise SchemaError("a piece has steps with other keys, shapes, dtypes or frame stacks than this storage")
            self._piece_schema = piece.schema
        if len(piece.begins) != self.num_envs:
            raise SchemaError(f"a piece has the steps of {len(piece.begins)} envs, this storage of {self.num_envs}")
        if len(piece.states) != len(self.ring.schema.hidden):
            raise SchemaError("a piece has no hidden states, and this storage keeps those where sequences start")

    def _add_lanes(self) -> int:
        """Divide the store again, for one more source; returns its first lane."""
        lane = self.ring.num_lanes
        self._relayout(lane // self.num_envs + 1, self.size)
        return lane

    def _relayout(self, num_groups: int, size: int) -> None:
        """Divide the store again, keeping the newest steps of each lane."""
        old = self.ring
        new = self._builder.make_ring(old.schema, size, num_groups, old)
        try:
            new.copy_from(old)
        except RecollectError:
            self._allocator.forget(new.generation)
            raise
        self._hold(self.access.moved_to(new), old)
        self._allocator.forget(old.generation)

    def _hold(self, access: RingAccess, old: LaneRing | None) -> None:
        """Hold other lanes, into which the steps of `old`, if any, have moved."""
        self._access = access
        self._piece_schema = access.ring.schema
        self.is_nested = access.ring.schema.is_nested
        try:
            self._on_relayout(old, access.ring)
        except RecollectError:
            if old is None:
                self._discard()
            raise

    def _discard(self) -> None:
        """Undo a build whose first sample was refused."""
        if self._access is not None:
            self._allocator.forget(self._access.ring.generation)
        self._access = None
        self._sources.clear()
