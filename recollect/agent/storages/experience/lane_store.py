"""`LaneStore`: samples in, rows by id out. What every buffer is built on."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience import draw_kernels, gather_kernels
from recollect.agent.storages.experience.cut_watch import CutWatch
from recollect.agent.storages.experience.intake import Intake, runs_of, take_skips, with_time
from recollect.agent.storages.experience.lane_ring import LaneRing
from recollect.agent.storages.experience.memory import Memory
from recollect.agent.storages.experience.outputs import Drawn, Name, OutputPlan
from recollect.agent.storages.experience.schema import (
    FrameStacks,
    Schema,
    check_frame_stacks,
    check_keys,
    parse_frame_stacks,
    plan_schema,
    to_numpy,
)
from recollect.agent.storages.experience.sequences import Sequences, Starts, check_sequence
from recollect.agent.storages.experience.sources import Source, Sources, StoreState
from recollect.errors import ConfigError, RecollectError, StorageError

NO_FLOORS: Final = np.empty(0, np.int64)
ONE_STEP: Final = np.ones(1, np.int64)
_STEPS_BETWEEN_LOOKS: Final = 100


@dataclass(frozen=True)
class SequenceShape:
    """Length and overlap of a recurrent actor's sequences."""

    length: int
    overlap: int


class LaneStore:
    """Lanes of steps from one or more sources, each with `num_envs` lanes of its own.

    Parameters
    ----------
    size : int
        Steps along time that all sources' lanes hold together: with W sources each lane has `size // W`.
    num_envs : int
        Lanes of one source.
    allowed_keys : tuple of str
        Keys that a sample may have.
    memory : Memory
        Where the bytes live.
    frame_stack : int or mapping, optional
        Depth of stacked frames, for each observation key that has them.
    sequence : SequenceShape, optional
        Hand out sequences instead of steps.
    drawn_keys : tuple of str
        Columns of a batch that come from its draw.
    on_relayout : callable
        Called with the old and the new ring when steps have moved to other slots.
    bytes_beside : callable
        Tells the bytes that are kept for each step outside the store, for the estimate of its size.

    Attributes
    ----------
    is_nested : bool
        Whether a key holds a dict of arrays.
    """

    def __init__(
        self,
        size: int,
        num_envs: int,
        allowed_keys: tuple[str, ...],
        memory: Memory,
        *,
        frame_stack: FrameStacks = None,
        sequence: SequenceShape | None = None,
        drawn_keys: tuple[str, ...] = (),
        on_relayout: Callable[[LaneRing | None, LaneRing], None],
        bytes_beside: Callable[[], float],
    ) -> None:
        self.size = size
        self.num_envs = num_envs
        self.lock = RLock()
        self.sequence = sequence
        self._allowed_keys = allowed_keys
        self._memory = memory
        self._frame_stack = frame_stack
        # A draw says something of each sequence, not of each of its rows.
        self._drawn_keys = drawn_keys if sequence is None else ()
        self._on_relayout = on_relayout
        self._bytes_beside = bytes_beside
        check_frame_stacks(frame_stack)
        self._sources = Sources(num_envs)
        self._cut_watch = CutWatch()
        self._ring: LaneRing | None = None
        self._intake: Intake | None = None
        self._starts: Starts | None = None
        self._plan: OutputPlan | None = None
        self._shifted_plan: OutputPlan | None = None
        self._has_starts = False
        self.is_nested = False
        if sequence is not None:
            check_sequence(sequence.length, sequence.overlap, size)

    @property
    def ring(self) -> LaneRing:
        """The ring; there is none before the first sample."""
        if self._ring is None:
            raise StorageError("the storage is empty: insert data before sampling or reading")
        return self._ring

    @property
    def starts(self) -> Starts:
        """Which steps rows may start at."""
        if self._starts is None:
            raise StorageError("the storage is empty: insert data before sampling or reading")
        return self._starts

    @property
    def is_built(self) -> bool:
        """Whether a first sample has come."""
        return self._ring is not None

    @property
    def sources(self) -> list[Hashable]:
        """Sources that feed the store."""
        return self._sources.names

    def __len__(self) -> int:
        if self._ring is None:
            return 0
        num_steps: int = draw_kernels.count_steps(self._ring.header, self.starts.table)
        return num_steps

    def lane_of(self, source: Hashable) -> int:
        """First of the lanes that a source feeds."""
        return self._sources.lane_of(source)

    def build(self, sample: Mapping[str, Any], num_lead: int = 1) -> None:
        """Plan the schema from a first sample, whose arrays have `num_lead` axes of time and envs."""
        if self._ring is not None:
            return
        check_keys(sample, self._allowed_keys, recurrent=self.sequence is not None)
        schema = plan_schema(
            sample, num_lead=num_lead, recurrent=self.sequence is not None, frame_stack=self._frame_stack
        )
        self._intake = Intake(schema, self.num_envs)
        try:
            self._set_ring(self._make_ring(schema, 1))
        except RecollectError:
            self._discard()
            raise

    def insert(self, sample: Mapping[str, Any]) -> None:
        """Append one step of the first source, `[num_envs, ...]`; everything is checked before anything changes."""
        first = self._sources.known.get(0)
        if first is None or self._intake is None or self._ring is None or keys.SKIP in sample:
            self.insert_slice(with_time(sample), 0, 1, None)
            return
        addresses, alive = self._intake.read(sample)
        if self.sequence is None:
            self._ring.append(first.one_step, addresses)
            first.received += 1
        else:
            hidden = self._intake.read_hidden(sample, None)
            self._append(self._ring, first, first.one_step, addresses, hidden)
        del alive
        if first.received % _STEPS_BETWEEN_LOOKS == 0:
            self._cut_watch.look(self._ring)

    def insert_slice(self, sample: Mapping[str, Any], source: Hashable, num_steps: int, first_step: int | None) -> None:
        """Append `num_steps` steps of a source, `[num_steps, num_envs, ...]`, those that are not there already.

        Rows that the key `Skip` marks are left out; one that is marked `Cut` too breaks the stream before it.
        """
        was_built = self._ring is not None
        try:
            sample, skips = take_skips(sample, (num_steps, self.num_envs, 1))
            self.build(sample, 2)
            assert self._intake is not None
            addresses, alive = self._intake.read_slice(sample, num_steps)
            hidden = self._intake.read_hidden(sample, num_steps) if self.sequence is not None else []
            self.ring.check(addresses, num_steps * self.num_envs)
            known = self._sources.known.get(source) or self._sources.join(source, first_step or 0, self._add_lanes)
        except RecollectError:
            if not was_built:
                self._discard()
            raise
        begin = 0
        if first_step is not None:
            begin = min(max(0, known.received - first_step), num_steps)
            if first_step > known.received:
                self.ring.cut(known.lane, self.num_envs)
                known.received = first_step
        if begin < num_steps:
            if skips is None:
                span = np.array([known.lane, self.num_envs, begin, num_steps], np.int64)
                self._append(self.ring, known, span, addresses, [states[begin:] for states in hidden])
            else:
                breaks = skips & (to_numpy(sample[keys.CUT]) == 1) if keys.CUT in sample else np.zeros_like(skips)
                self._append_kept(known, begin, addresses, hidden, skips, breaks)
            self._cut_watch.look(self.ring)
        del alive

    def release(self, source: Hashable) -> None:
        """Let the lanes of a source that left be taken by the next one that joins."""
        self.ring.cut(self._sources.release(source), self.num_envs)

    def resize(self, size: int) -> None:
        """Hold `size` steps along time from now on; the newest stay."""
        if self._ring is not None:
            self._relayout(self.ring.num_lanes // self.num_envs, size)
        elif self.sequence is not None:
            check_sequence(self.sequence.length, self.sequence.overlap, size)
        self.size = size

    def clear(self) -> None:
        """Forget all steps; of a sequence store, the last `overlap` ones stay as context."""
        if self._ring is None:
            return
        for lane in range(self.ring.num_lanes):
            keep_from = max(self.ring.heads[lane] - self.starts.overlap, self.ring.firsts[lane])
            self.ring.forget(lane, keep_from)
        self.starts.restart(self.ring)
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
        draw_kernels.draw_uniform(self.ring.header, self.starts.table, floors, uniforms, ids)
        return ids

    def draw_steps(self, uniforms: np.ndarray) -> np.ndarray:
        """Draw any stored steps with equal chances, also where rows are sequences: ids int64 [count]."""
        ids = np.empty(len(uniforms), np.int64)
        draw_kernels.draw_uniform(self.ring.header, self._any_step.table, NO_FLOORS, uniforms, ids)
        return ids

    def _nothing_to_draw(self) -> StorageError:
        """The error for a draw from a store that has no start."""
        if self.sequence is not None:
            return StorageError(
                f"no sequence of {self.sequence.length} steps is stored yet; the storage has {len(self)} steps"
            )
        return StorageError("the storage is empty: insert data before sampling")

    def gather(
        self, drawn: Drawn, limits: np.ndarray, gamma: float, *, may_overlap: bool = True
    ) -> dict[Name, torch.Tensor]:
        """Rows of the windows from `drawn` on, of at most `limits` [batch] or [1] steps, by name, `[batch, ...]`.

        Where they `may_overlap`, the stacks of both ends share the memory of their common frames.
        """
        plan, shifted = self._plan, self._shifted_plan
        assert plan is not None
        if shifted is not None and may_overlap and gather_kernels.stacks_shift(self.ring.header, drawn.ids, limits):
            plan = shifted
        return plan.gather(drawn, limits, gamma)

    def plan(self) -> OutputPlan:
        """A plan of one's own to gather all stored columns."""
        return OutputPlan(self.ring)

    def state(self) -> StoreState:
        """Who feeds the store, and how far they got."""
        return self._sources.state(warned_of_cuts=self._cut_watch.has_warned)

    def empty_ring(self, schema: Schema, num_groups: int) -> LaneRing:
        """Make a ring of this store's size for steps of `schema` from `num_groups` sources, to be adopted."""
        if self._ring is not None and schema != self._ring.schema:
            raise StorageError("the steps differ from this storage's in keys, shapes, dtypes or frame stacks")
        observation = [place.leaf for place in schema.carried if place.leaf.path[0] == keys.OBS]
        stacks = {place.leaf.path: (place.depth, place.axis) for place in schema.carried if place.depth > 1}
        if stacks != parse_frame_stacks(self._frame_stack, observation):
            raise StorageError(f"the steps have the frame stacks {stacks}, this storage {self._frame_stack}")
        self._check_division(num_groups, self.size)
        return self._make_ring(schema, num_groups)

    def adopt(self, ring: LaneRing, state: StoreState, sequences: Mapping[str, np.ndarray]) -> None:
        """Hold the steps of `ring` instead of one's own; `sequences` is the state of a sequence store."""
        starts = self._make_starts(ring)
        starts.load_state(ring, sequences)
        old, self._ring = self._ring, None
        self._starts, self._intake = starts, Intake(ring.schema, self.num_envs)
        self._sources.load_state(state)
        self._cut_watch.has_warned = state.warned_of_cuts
        try:
            self._set_ring(ring)
        except RecollectError:
            self._discard()
            raise
        if old is not None:
            self._memory.forget(old.generation)

    def _append(
        self, ring: LaneRing, source: Source, span: np.ndarray, addresses: np.ndarray, hidden: list[np.ndarray]
    ) -> None:
        self._append_lanes(ring, span, addresses, hidden)
        source.received += int(span[3] - span[2])

    def _append_lanes(self, ring: LaneRing, span: np.ndarray, addresses: np.ndarray, hidden: list[np.ndarray]) -> None:
        heads = ring.heads[span[0] : span[0] + span[1]].copy()
        ring.append(span, addresses)
        self.starts.keep(span[0], heads, hidden)

    def _append_kept(
        self,
        source: Source,
        begin: int,
        addresses: np.ndarray,
        hidden: list[np.ndarray],
        skips: np.ndarray,
        breaks: np.ndarray,
    ) -> None:
        """Append the steps from `begin` on but for `skips` [num_steps, num_envs, 1], run by run of lanes.

        Streams are cut before those of them that are `breaks`.
        """
        assert self._intake is not None
        for step in range(begin, len(skips)):
            for env in np.flatnonzero(breaks[step]):
                self.ring.cut(source.lane + int(env), 1)
            for first, end in runs_of(~skips[step, :, 0]):
                span = np.array([source.lane + first, end - first, 0, 1], np.int64)
                rows = addresses + (step * self.num_envs + first) * self._intake.row_bytes
                states = [values[step : step + 1, first:end] for values in hidden]
                self._append_lanes(self.ring, span, rows, states)
        source.received += len(skips) - begin

    def _add_lanes(self) -> int:
        """Divide the store anew for one more source; returns its first lane."""
        lane = self.ring.num_lanes
        self._relayout(lane // self.num_envs + 1, self.size)
        return lane

    def _relayout(self, num_groups: int, size: int) -> None:
        """Divide the store anew, keeping the newest steps of each lane."""
        old = self.ring
        self._check_division(num_groups, size)
        new = self._make_ring(old.schema, num_groups, size)
        try:
            new.copy_from(old)
        except RecollectError:
            self._memory.forget(new.generation)
            raise
        self._set_ring(new)
        self._memory.forget(old.generation)

    def _check_division(self, num_groups: int, size: int) -> None:
        if size // num_groups < 1:
            raise ConfigError(
                f"{num_groups} sources cannot share a storage of size {size}; give it at least {num_groups}"
            )
        if self.sequence is not None:
            check_sequence(self.sequence.length, self.sequence.overlap, size // num_groups)

    def _make_ring(self, schema: Schema, num_groups: int, size: int | None = None) -> LaneRing:
        num_lanes, capacity = num_groups * self.num_envs, (size or self.size) // num_groups
        num_steps = num_lanes * capacity
        num_bytes = LaneRing.estimate_bytes(schema, num_lanes, capacity) + self._bytes_beside() * num_steps
        self._memory.check(int(num_bytes), num_steps)
        return LaneRing(schema, num_lanes, capacity, self._memory)

    def _set_ring(self, ring: LaneRing) -> None:
        old, self._ring = self._ring, ring
        self._has_starts = False
        assert self._intake is not None
        ring.bind_inputs(self._intake.positions)
        self._plan, self._shifted_plan = OutputPlan(ring, drawn_keys=self._drawn_keys), None
        if ring.schema.depth > 1:
            self._shifted_plan = OutputPlan(ring, shifted_stacks=True, drawn_keys=self._drawn_keys)
        self._any_step = Starts(ring.num_lanes)
        leaves = [place.leaf for place in (*ring.schema.carried, *ring.schema.steps)]
        self.is_nested = any(len(leaf.path) > 1 for leaf in (*leaves, *ring.schema.hidden))
        if self._starts is None:
            self._starts = self._make_starts(ring)
        else:
            self._starts.follow(ring)
        self._on_relayout(old, ring)

    def _make_starts(self, ring: LaneRing) -> Starts:
        if self.sequence is None:
            return Starts(ring.num_lanes)
        return Sequences(
            ring.num_lanes, ring.num_slots, self.sequence.length, self.sequence.overlap, ring.schema.hidden
        )

    def _discard(self) -> None:
        """Undo a build whose first sample was refused."""
        if self._ring is not None:
            self._memory.forget(self._ring.generation)
        self._ring = self._intake = self._starts = self._plan = self._shifted_plan = None
        self._sources.clear()
