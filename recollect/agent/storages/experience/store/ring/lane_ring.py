"""`LaneRing`: lanes of steps, every observation once.

A lane is one environment's stream of steps, kept in a ring of slots. The next observation of a step
is the observation of the slot after it, written there at once; where a stream is cut it lives in the
*tails* side table. Stacked frames are kept singly; a stack that cannot be built from its
predecessors' frames lives in the *wholes* side table. Both tables' records are freed with their slots.
"""

from collections.abc import Sequence

import numpy as np

from recollect.agent.storages.experience.kernels import append_kernels, release_kernels, transfer_kernels
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.store.allocator import Allocator
from recollect.agent.storages.experience.store.ring.ring_tables import append_tables, make_header
from recollect.agent.storages.experience.store.schema.schema import (
    KeyPath,
    Place,
    Schema,
)
from recollect.errors import SchemaError, StorageError

_NO_BLOCKS = np.empty((0, 3), np.int64)
# Steps of a file-backed store whose side-table records are reserved at a time.
_RESERVED_RECORDS = 1024
REFUSALS = {
    layout.BAD_REWARD: "a reward is NaN or infinite; rewards must be finite",
    layout.NAN_OBSERVATION: "an observation or hidden state is NaN",
    layout.BAD_FLAG: "a flag (Done, NextDone, NextTerminated, Cut) is neither 0 nor 1",
    layout.TERMINATED_WITHOUT_DONE: "NextTerminated is 1 where NextDone is 0; a step that terminates "
    "an episode also ends it, so set NextDone there",
    layout.BAD_REFERENCE: "a row of a ring piece does not refer to the record that belongs to it",
    layout.BAD_STACK: "a frame stack of a ring piece reaches back beyond its first step",
}


class LaneRing:
    """A ring of steps for each of several lanes; indices in, columns out.

    Parameters
    ----------
    schema : Schema
        The fields of a step.
    num_lanes, capacity : int
        Number of lanes, and steps of each that may be handed out.
    allocator : Allocator
        Where the bytes live.

    Attributes
    ----------
    heads, firsts, lows : int64 [num_lanes]
        Number of each lane's step to come, of its oldest step that may be handed out, and of the oldest one
        that is still in memory.
    block_addresses : list of int
        Addresses of the block columns.
    num_slots : int
        Slots of one lane. Step `number` of `lane` lies in slot `lane * num_slots + number % num_slots`.
    """

    def __init__(self, schema: Schema, num_lanes: int, capacity: int, allocator: Allocator) -> None:
        self.schema = schema
        self.num_lanes = num_lanes
        self.capacity = capacity
        self.allocator = allocator
        # One slot for the observation that the newest step led to, and guards for its oldest stack.
        self.num_slots = capacity + 1 + (schema.depth - 1)
        # Each slot may need a record of a side table.
        self._num_records = num_lanes * self.num_slots
        self.generation = allocator.begin()
        try:
            self._allocate(self._num_records)
        except StorageError:
            allocator.forget(self.generation)
            raise
        self._reserved = 0 if allocator.backing == "file" else self._num_records
        self._cursors = np.zeros((3, num_lanes), np.int64)
        self.heads, self.firsts, self.lows = self._cursors
        self.header = self._make_header()
        self.block_addresses = [block.ctypes.data for block in self._blocks]
        self._carried, self._steps, self._flags = append_tables(self.schema, self.block_address)

    @staticmethod
    def estimate_bytes(schema: Schema, num_lanes: int, capacity: int) -> int:
        """Bytes of a full ring, side tables apart."""
        return num_lanes * (capacity + schema.depth) * schema.slot_bytes

    def append(self, span: np.ndarray, sources: np.ndarray) -> None:
        """Append steps to neighbouring lanes.

        Parameters
        ----------
        span : int64 [4]
            First lane, number of lanes, first step to take, and number of steps in the arrays.
        sources : int64 [inputs]
            Addresses of the arrays `[time, num_envs, ...]`.
        """
        if self._reserved < self._num_records:  # cheaper than a call for each step
            self._reserve(int(span[1] * (span[3] + 1)))
        status = append_kernels.append(self.header, self._carried, self._steps, self._flags, sources, span)
        if status != layout.OK:
            raise SchemaError(REFUSALS[status])

    def check(self, sources: np.ndarray, num_items: int) -> None:
        """Refuse `num_items` steps at `sources` whose observations, rewards or flags `append` would refuse."""
        status = append_kernels.check(self._carried, self._steps, self._flags, sources, num_items)
        if status != layout.OK:
            raise SchemaError(REFUSALS[status])

    def cut_lanes(self, lanes: Sequence[int] | np.ndarray) -> None:
        """Break the streams of some lanes after their newest steps."""
        if len(lanes):
            self._reserve(len(lanes))
        for lane in lanes:
            append_kernels.cut(self.header, self._carried, lane)

    def forget(self, lane: int, number: int) -> None:
        """Hand out no step of `lane` before `number` any more."""
        release_kernels.forget(self.header, lane, number)

    def write_ahead(self, lane: int, columns: dict[KeyPath, np.ndarray]) -> None:
        """Write columns `[time, num_envs, ...]` of the steps to come.

        Steps that lay there are forgotten, and those whose stacks may reach back to their frames. Where
        another observation is written than the newest step led to, that step's stream is cut, so that its
        own next observation is kept.
        """
        for path, values in columns.items():
            num_steps, num_envs = values.shape[:2]
            place = self.schema.stored[path]
            target = self.column(place)
            if place.depth > 1:
                frames = np.moveaxis(values, 2 + place.axis, 2)
                values = frames[:, :, -(frames.shape[2] // place.depth) :]
            for env, env_lane in enumerate(range(lane, lane + num_envs)):
                head = int(self.heads[env_lane])
                slots = (head + np.arange(num_steps)) % self.num_slots
                oldest_kept = head + num_steps - self.num_slots
                if oldest_kept > self.lows[env_lane]:
                    self.forget(env_lane, oldest_kept + place.depth - 1)
                if place in self.schema.carried and num_steps:
                    pending = target[env_lane, slots[0]]
                    if pending.tobytes() != np.ascontiguousarray(values[0, env]).tobytes():
                        self.cut_lanes([env_lane])
                target[env_lane, slots] = values[:, env]

    @property
    def sizes(self) -> np.ndarray:
        """Steps of each lane that may be handed out, int64 [num_lanes]."""
        return self.heads - self.firsts

    @property
    def num_cuts(self) -> int:
        """Breaks that the caller did not announce, found by comparing observations."""
        return int(self.header[layout.H_NUM_CUTS])

    @property
    def num_ends(self) -> int:
        """Steps so far that ended an episode."""
        return int(self.header[layout.H_NUM_ENDS])

    @property
    def num_bytes_used(self) -> int:
        """Bytes of the steps and side-table records in use."""
        tails = self.header[layout.H_TAIL_TOP] * self.schema.tail_bytes
        wholes = self.header[layout.H_WHOLE_TOP] * self.schema.whole_bytes
        return int(self.sizes.sum() * self.schema.slot_bytes + tails + wholes)

    def slots(self, ids: np.ndarray) -> np.ndarray:
        """Slot of each step in `ids`."""
        lanes, numbers = ids >> layout.ID_SHIFT, ids & layout.ID_MASK
        return lanes * self.num_slots + numbers % self.num_slots

    def column(self, place: Place) -> np.ndarray:
        """View of a stored field, `[num_lanes, num_slots, ...]`; of a stack, its single frames."""
        leaf = place.leaf
        shape = leaf.shape
        if place.depth > 1:
            shape = (place.stacked_shape[0] // place.depth, *place.stacked_shape[1:])
        if place.row_offset >= 0:
            return self._slots_view(self._rows, self.schema.row_bytes, place.row_offset, shape, leaf.dtype)
        return self._slots_view(self._blocks[place.block], place.slot_bytes, 0, shape, leaf.dtype)

    def flag_column(self, byte: int) -> np.ndarray:
        """View of a flag of every slot, bool `[num_lanes, num_slots, 1]`."""
        return self._slots_view(self._rows, self.schema.row_bytes, byte, (1,), np.dtype(np.bool_))

    def are_cut(self, ids: np.ndarray) -> np.ndarray:
        """Whether the stream breaks or ends after each step in `ids`."""
        tails = self._slots_view(self._rows, self.schema.row_bytes, layout.R_TAIL, (), np.dtype(np.int32))
        are_cut: np.ndarray = tails.reshape(-1)[self.slots(ids)] != 0
        return are_cut

    def _slots_view(
        self, buffer: np.ndarray, slot_bytes: int, offset: int, shape: tuple[int, ...], dtype: np.dtype
    ) -> np.ndarray:
        """View of what every slot has at `offset` of its bytes in `buffer`, `[num_lanes, num_slots, *shape]`."""
        inner = np.empty((0, *shape), dtype).strides[1:]
        strides = (self.num_slots * slot_bytes, slot_bytes, *inner)
        return np.ndarray((self.num_lanes, self.num_slots, *shape), dtype, buffer, offset, strides)

    def block_address(self, place: Place) -> int:
        """Address of the block column of a place, 0 if it lies in the rows."""
        return self.block_addresses[place.block] if place.block >= 0 else 0

    def are_broken(self, lanes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Whether the stream breaks or ends before each of the steps `numbers` of `lanes`, or begins there."""
        is_kept = numbers > self.lows[lanes]
        before = np.where(is_kept, numbers - 1, numbers) | lanes << layout.ID_SHIFT
        are_broken: np.ndarray = ~is_kept | self.are_cut(before)
        return are_broken

    def append_from(self, old: np.ndarray, blocks: Sequence[int], spans: np.ndarray, num_records: int) -> None:
        """Append steps of another ring or of a piece.

        Parameters
        ----------
        old : int64 [H_NUM_WORDS]
            Its header; it has the same schema.
        blocks : sequence of int
            Addresses of its block columns.
        spans : int64 [lanes, X_NUM_WORDS]
            Which steps go where: `spans_of`.
        num_records : int
            Its side-table records.
        """
        self._reserve(num_records + len(spans))
        table = self.block_table(blocks, self.block_addresses)
        transfer_kernels.append_steps(old, self.header, self._carried, table, self.schema.stack_table, spans)

    def block_table(self, old: Sequence[int], new: Sequence[int]) -> np.ndarray:
        """For each block column its address in two rings or pieces, and the bytes of a slot, int64 [num_blocks, 3]."""
        if not old:
            return _NO_BLOCKS
        return np.array(list(zip(old, new, self.schema.block_bytes, strict=True)), np.int64)

    def jump(self, lane: int, number: int) -> None:
        """Forget all steps of a lane, and let its next one have a higher number."""
        self.forget(lane, int(self.heads[lane]))
        self._cursors[:, lane] = number

    def copy_from(self, old: "LaneRing") -> None:
        """Take over the newest steps of another ring of the same schema, lane by lane."""
        lanes = np.arange(min(self.num_lanes, old.num_lanes))
        heads = old.heads[lanes]
        firsts = np.maximum(old.firsts[lanes], heads - self.capacity)
        # The oldest stack is made of frames of the steps before it.
        lows = np.minimum(heads, np.maximum(old.lows[lanes], firsts - (self.schema.depth - 1)))
        self._cursors[:, lanes] = lows
        spans = spans_of(lanes, lows, old.lows[lanes], heads - lows, lanes)
        num_records = int(old.header[layout.H_TAIL_TOP] + old.header[layout.H_WHOLE_TOP])
        self.append_from(old.header, old.block_addresses, spans, num_records)
        self.firsts[lanes] = firsts
        self.set_counts(old.num_cuts, old.num_ends)

    def set_counts(self, num_cuts: int, num_ends: int) -> None:
        """Say how many breaks and ends there were, also among steps that are no more."""
        self.header[layout.H_NUM_CUTS], self.header[layout.H_NUM_ENDS] = num_cuts, num_ends

    def _allocate(self, num_slots: int) -> None:
        """Map the memory of rows, block columns and side tables."""
        schema, allocate = self.schema, self.allocator.allocate
        self._rows = allocate(self._name("rows"), num_slots * schema.row_bytes, huge_pages=True)
        self._blocks = [
            allocate(self._name(f"block{index}"), num_slots * num_bytes, huge_pages=True)
            for index, num_bytes in enumerate(schema.block_bytes)
        ]
        # A step may keep two whole stacks: its own and the one that it led to.
        self._side_bytes = {"tails": schema.tail_bytes, "wholes": 2 * schema.whole_bytes, "free0": 8, "free1": 8}
        self._side_tables = [
            allocate(self._name(name), num_slots * num_bytes, reserve=False)
            for name, num_bytes in self._side_bytes.items()
        ]

    def _name(self, array: str) -> str:
        return f"{self.generation}-{array}"

    def _make_header(self) -> np.ndarray:
        tails, wholes, *free = (table.ctypes.data for table in self._side_tables)
        header = make_header(self.schema, self.num_slots, self._rows.ctypes.data, tails, wholes)
        header[layout.H_CAPACITY] = self.capacity
        for word, cursor in zip((layout.H_HEAD, layout.H_FIRST, layout.H_LOW), self._cursors, strict=True):
            header[word] = cursor.ctypes.data
        header[layout.H_TAIL_FREE], header[layout.H_WHOLE_FREE] = free
        header[layout.H_NUM_LANES] = self.num_lanes
        return header

    def _reserve(self, num_records: int) -> None:
        """Take the disk space of side-table records before a kernel writes them."""
        needed = int(max(self.header[layout.H_TAIL_TOP], self.header[layout.H_WHOLE_TOP])) + 2 * num_records
        if needed <= self._reserved:
            return
        reserved = min(self._num_records, max(needed, self._reserved + max(_RESERVED_RECORDS, self._reserved // 4)))
        for name, num_bytes in self._side_bytes.items():
            if num_bytes:
                self.allocator.reserve_until(self._name(name), reserved * num_bytes)
        self._reserved = reserved


def spans_of(lanes: np.ndarray | int, begins: np.ndarray, *words: np.ndarray | int) -> np.ndarray:
    """Which steps go where, int64 [num_lanes, X_NUM_WORDS]: for each of the words, one number a lane or one for all."""
    spans = np.zeros((len(begins), transfer_kernels.X_NUM_WORDS), np.int64)
    for word, values in enumerate((lanes, begins, *words)):
        spans[:, word] = values
    return spans


def ids_of(begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Ids of the steps `begins` to `ends` [num_lanes] of all lanes, lane by lane."""
    spans = zip(begins, ends, strict=True)
    return np.concatenate(
        [np.arange(*span, dtype=np.int64) | lane << layout.ID_SHIFT for lane, span in enumerate(spans)]
    )
