"""`ExperienceStore`: samples in, rows by id out. What every buffer is built on."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience.kernels import draw_kernels, gather_kernels
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.sampling.outputs import Name, OutputPlan
from recollect.agent.storages.experience.sampling.sequences import Sequences, Starts, check_sequence
from recollect.agent.storages.experience.store.allocator import Allocator, Need
from recollect.agent.storages.experience.store.continuity_check import warn_of_cuts
from recollect.agent.storages.experience.store.intake import Intake, take_marks, with_time
from recollect.agent.storages.experience.store.lane_ring import LaneRing
from recollect.agent.storages.experience.store.ring_access import RingAccess
from recollect.agent.storages.experience.store.ring_piece import RingPiece
from recollect.agent.storages.experience.store.schema import (
    FrameStacks,
    Schema,
    check_frame_stacks,
    check_keys,
    check_num_envs,
    no_sample,
    parse_frame_stacks,
    plan_schema,
)
from recollect.agent.storages.experience.store.schema_text import sample_of
from recollect.agent.storages.experience.store.sources import (
    Source,
    Sources,
    StoreState,
    check_origin,
    check_source,
    join,
)
from recollect.errors import ConfigError, RecollectError, SchemaError, StorageError

NO_FLOORS: Final = np.empty(0, np.int64)
ONE_STEP: Final = np.ones(1, np.int64)
_STEPS_BETWEEN_CHECKS: Final = 100


class SequenceShape(NamedTuple):
    """Length and overlap of a recurrent actor's sequences."""

    length: int
    overlap: int


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
    bytes_beside : callable
        Tells the bytes that are kept for each step outside the store, for the estimate of its size.

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
        bytes_beside: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.size = size
        self.num_envs = num_envs
        self.lock = RLock()
        self.sequence = sequence
        self._allowed_keys = allowed_keys
        self._allocator = allocator
        self._frame_stack = frame_stack
        self._on_relayout = on_relayout
        self._bytes_beside = bytes_beside
        check_frame_stacks(frame_stack)
        self._sources = Sources()
        self._warned_of_cuts = False
        self._access: RingAccess | None = None
        # A schema that is known to be the store's: comparing takes longer than appending a few steps.
        self._piece_schema: Schema | None = None
        self._has_starts = False
        self._cleared_at = 0
        self.num_repeated = 0
        self.is_nested = False
        if sequence is not None:
            check_sequence(*sequence, size)

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
        if self._access is None:
            return 0
        num_steps: int = draw_kernels.count_steps(self._access.ring.header, self._access.starts.table)
        return num_steps

    @property
    def num_since_clear(self) -> int:
        """Steps that the first lane has received since the store was last emptied."""
        return 0 if self._access is None else int(self._access.ring.heads[0]) - self._cleared_at

    def lane_of(self, source: Hashable) -> int:
        """First of the lanes that a source feeds."""
        return self._sources.lane_of(source)

    def build(self, sample: Mapping[str, Any], num_lead: int = 1) -> None:
        """Plan the schema from a first sample, whose arrays have `num_lead` axes of time and envs."""
        if self._access is not None:
            return
        check_keys(sample, self._allowed_keys, recurrent=self.sequence is not None)
        schema = plan_schema(
            sample, num_lead=num_lead, recurrent=self.sequence is not None, frame_stack=self._frame_stack
        )
        check_num_envs(sample, num_lead, self.num_envs)
        self._hold(self._make_access(self._make_ring(schema, 1)), None)

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
        if self.sequence is None:
            access.ring.append(first.one_step, addresses)
        else:
            access.append(first.one_step, addresses, access.intake.read_hidden(sample, None))
        first.num_rows += 1
        del alive
        if first.num_rows % _STEPS_BETWEEN_CHECKS == 0:
            self._warned_of_cuts = self._warned_of_cuts or warn_of_cuts(access.ring)

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
            self.ring.check(new.addresses, num_steps * self.num_envs)
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
        received, lanes = known.received, slice(known.lane, known.lane + self.num_envs)
        joint = join(received, piece.begins, piece.num_steps)
        heads = self.ring.heads[lanes].copy()
        piece.append_to(self.ring, known.lane, joint)
        known.received = np.maximum(received, piece.begins + piece.num_steps)
        num_new = self.ring.heads[lanes] - heads
        self._keep_states(piece, known.lane, heads, num_new)
        num_repeated = int(joint.num_known.max())
        self.num_repeated += num_repeated
        if num_repeated == 0:
            self.ring.header[layout.H_NUM_CUTS] += piece.num_cuts
        self._warned_of_cuts = self._warned_of_cuts or warn_of_cuts(self.ring)
        return int(num_new.sum())

    def num_new(self, source: Hashable, first_step: int | np.ndarray | None, num_steps: int | np.ndarray) -> int:
        """Most steps of a lane that are not there yet, of `num_steps` steps from `first_step` on."""
        check_source(source)
        known = self._sources.known.get(source)
        if known is None or first_step is None:
            return int(np.max(num_steps))
        return int((num_steps - join(known.received, np.asarray(first_step), num_steps).num_known).max())

    def make_outbox_store(self, size: int) -> "ExperienceStore":
        """A small store for steps of the same kind, which keeps the hidden state of each."""
        return ExperienceStore(
            size,
            self.num_envs,
            self._allowed_keys,
            Allocator(),
            frame_stack=self._frame_stack,
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
        elif self.sequence is not None:
            check_sequence(*self.sequence, size)
        self.size = size

    def clear(self) -> None:
        """Forget all steps; of a sequence store, the last `overlap` ones stay as context."""
        if self._access is None:
            return
        self._access.forget()
        self._cleared_at = int(self.ring.heads[0])
        self._has_starts = False
        self._on_relayout(self.ring, self.ring)

    def check_drawable(self) -> None:
        """Refuse to draw where there is nothing to draw."""
        if not self._has_starts:
            if draw_kernels.count_starts(self.ring.header, self.starts.table, NO_FLOORS) == 0:
                raise self._nothing_to_draw()
            # A stored step stays drawable until a reset; the only complete sequence may be overwritten.
            self._has_starts = self.sequence is None

    def draw(self, uniforms: np.ndarray, floors: np.ndarray = NO_FLOORS) -> np.ndarray:
        """Draw starts with equal chances: ids int64 [batch]."""
        ids = np.empty(len(uniforms), np.int64)
        access = self.access
        draw_kernels.draw_uniform(access.ring.header, access.starts.table, floors, uniforms, ids)
        return ids

    def draw_steps(self, uniforms: np.ndarray) -> np.ndarray:
        """Draw any stored steps with equal chances, also where rows are sequences: ids int64 [count]."""
        ids = np.empty(len(uniforms), np.int64)
        access = self.access
        draw_kernels.draw_uniform(access.ring.header, access.any_step.table, NO_FLOORS, uniforms, ids)
        return ids

    def _nothing_to_draw(self) -> StorageError:
        """The error for a draw from a store that has no start."""
        if self.sequence is not None:
            return StorageError(
                f"no sequence of {self.sequence.length} steps is stored yet; the storage has {len(self)} steps"
            )
        return StorageError("the storage is empty: insert data before sampling")

    def gather(
        self, ids: np.ndarray, limits: np.ndarray, gamma: float, *, may_overlap: bool = True
    ) -> dict[Name, torch.Tensor]:
        """Rows of the windows from `ids` on, of at most `limits` [batch] or [1] steps, by name, `[batch, ...]`.

        Where they `may_overlap`, the stacks of both ends share the memory of their common frames.
        """
        access = self._access
        assert access is not None
        shifted = access.shifted_plan
        if shifted is not None and may_overlap and gather_kernels.stacks_shift(access.ring.header, ids, limits):
            return shifted.gather(ids, limits, gamma)
        return access.plan.gather(ids, limits, gamma)

    def plan(self) -> OutputPlan:
        """A plan of one's own to gather all stored columns."""
        return OutputPlan(self.ring)

    def state(self) -> StoreState:
        """Who feeds the store, and how far they got."""
        return self._sources.state(warned_of_cuts=self._warned_of_cuts, cleared_at=self._cleared_at)

    def empty_ring(self, schema: Schema, num_groups: int) -> LaneRing:
        """Make a ring of this store's size for steps of `schema` from `num_groups` sources, to be adopted."""
        if self._access is not None and schema != self.ring.schema:
            raise StorageError("the steps differ from this storage's in keys, shapes, dtypes or frame stacks")
        observation = [place.leaf for place in schema.carried if place.leaf.path[0] == keys.OBS]
        stacks = {place.leaf.path: (place.depth, place.axis) for place in schema.carried if place.depth > 1}
        if stacks != parse_frame_stacks(self._frame_stack, observation):
            raise StorageError(f"the steps have the frame stacks {stacks}, this storage {self._frame_stack}")
        self._check_division(num_groups, self.size)
        return self._make_ring(schema, num_groups)

    def adopt(self, ring: LaneRing, state: StoreState, sequences: Sequence[Mapping[str, np.ndarray]]) -> None:
        """Hold the steps of `ring` instead of one's own; `sequences` are states of `Starts`, the first one whole."""
        old, access = self._access, self._make_access(ring)
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

    def _keep_states(self, piece: RingPiece, lane: int, heads: np.ndarray, num_new: np.ndarray) -> None:
        """Keep the hidden states of a piece's newest steps, `num_new` of each lane, where sequences start."""
        states = piece.states
        if not states:
            return
        ends = np.cumsum(piece.num_steps)
        for env, (end, count) in enumerate(zip(ends, num_new, strict=True)):
            if count:
                newest = [values[end - count : end, None] for values in states]
                self.starts.keep(lane + env, heads[env : env + 1], newest)

    def _add_lanes(self) -> int:
        """Divide the store again, for one more source; returns its first lane."""
        lane = self.ring.num_lanes
        self._relayout(lane // self.num_envs + 1, self.size)
        return lane

    def _relayout(self, num_groups: int, size: int) -> None:
        """Divide the store again, keeping the newest steps of each lane."""
        old = self.ring
        self._check_division(num_groups, size)
        new = self._make_ring(old.schema, num_groups, size, old)
        try:
            new.copy_from(old)
        except RecollectError:
            self._allocator.forget(new.generation)
            raise
        self._hold(self.access.moved_to(new), old)
        self._allocator.forget(old.generation)

    def _check_division(self, num_groups: int, size: int) -> None:
        if size // num_groups < 1:
            raise ConfigError(
                f"{num_groups} sources cannot share a storage of size {size}; give it at least {num_groups}"
            )
        if self.sequence is not None:
            check_sequence(*self.sequence, size // num_groups)

    def _make_ring(
        self, schema: Schema, num_groups: int, size: int | None = None, old: LaneRing | None = None
    ) -> LaneRing:
        """Make a ring, to which the steps of `old`, if any, will move."""
        num_lanes, capacity = num_groups * self.num_envs, (size or self.size) // num_groups
        num_steps = num_lanes * capacity
        num_held = 0 if old is None else old.num_bytes_used + int(self._bytes_beside() * old.sizes.sum())
        need = Need(
            LaneRing.estimate_bytes(schema, num_lanes, capacity),
            schema.tail_bytes,
            int(self._bytes_beside() * num_steps),
            num_held,
            self.num_envs,
        )
        self._allocator.check(num_steps, need)
        return LaneRing(schema, num_lanes, capacity, self._allocator)

    def _make_access(self, ring: LaneRing) -> RingAccess:
        starts, shape = Starts(ring.num_lanes), self.sequence
        if shape is not None:
            starts = Sequences(ring.num_lanes, ring.num_slots, *shape, ring.schema.hidden)
        return RingAccess(ring, Intake(ring.schema, self.num_envs), starts)

    def _hold(self, access: RingAccess, old: LaneRing | None) -> None:
        """Hold other lanes, into which the steps of `old`, if any, have moved."""
        self._access = access
        self._piece_schema = access.ring.schema
        self._has_starts = False
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
