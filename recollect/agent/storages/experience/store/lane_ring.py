"""`LaneRing`: lanes of steps, every observation once.

A lane is one environment's stream of steps, kept in a ring of slots. The next observation of a step
is the observation of the slot after it, written there at once; where a stream is cut it lives in the
*tails* side table. Stacked frames are kept singly; a stack that cannot be built from its
predecessors' frames lives in the *wholes* side table. Both tables' records are freed with their slots.
"""

from collections.abc import Sequence

import numpy as np

from recollect import keys
from recollect.agent.storages.experience.kernels import append_kernels, check_kernels, release_kernels, transfer_kernels
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.store.allocator import Allocator
from recollect.agent.storages.experience.store.schema import (
    DTYPE_CODES,
    FLAG_BYTES,
    FLAGS,
    KeyPath,
    Place,
    Schema,
    next_path,
)
from recollect.agent.storages.experience.store.sources import Joint
from recollect.errors import SchemaError, StorageError

_NO_BLOCKS = np.empty((0, 3), np.int64)
# Steps of a file-backed store whose side-table records are reserved at a time.
_RESERVED_RECORDS = 1024
REFUSALS = {
    layout.BAD_REWARD: "a reward is NaN or infinite; rewards must be finite",
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
    stacks : int64 [num_stacks, Z_NUM_WORDS]
        The table of stacked fields.
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
        self._carried = self._carried_table()
        self.stacks = stack_table(schema)
        self._steps: np.ndarray = np.zeros((0, layout.S_NUM_WORDS), np.int64)
        self._flags: np.ndarray = np.zeros((len(FLAGS), 2), np.int64)

    @staticmethod
    def estimate_bytes(schema: Schema, num_lanes: int, capacity: int) -> int:
        """Bytes of a full ring, side tables apart."""
        return num_lanes * (capacity + schema.depth) * schema.slot_bytes

    def bind_inputs(self, positions: dict[KeyPath, int]) -> None:
        """Say where in the sources of `append` each field's address stands."""
        for index, place in enumerate(self.schema.carried):
            self._carried[index, layout.C_SOURCE] = positions[place.leaf.path]
            self._carried[index, layout.C_NEXT_SOURCE] = positions[next_path(place.leaf.path)]
        steps = [
            [
                positions[place.leaf.path],
                place.leaf.num_bytes,
                place.row_offset,
                self.block_address(place),
                DTYPE_CODES[place.leaf.dtype] if place.is_reward else layout.D_NONE,
            ]
            for place in self.schema.steps
        ]
        self._steps = np.array(steps, np.int64).reshape(-1, layout.S_NUM_WORDS)
        for key, dtype in {**self.schema.flags, keys.CUT: np.dtype(np.bool_)}.items():
            self._flags[FLAGS[key]] = positions[(key,)], DTYPE_CODES[dtype]

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
        """Refuse `num_items` steps at `sources` whose rewards or flags `append` would refuse."""
        status = check_kernels.check(self._steps, self._flags, sources, num_items)
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

    def write_ahead(self, lane: int, columns: dict[KeyPath, tuple[Place | None, np.ndarray]]) -> None:
        """Write columns `[time, num_envs, ...]` of the steps to come; a flag's place is None.

        Steps that lay there are forgotten, and those whose stacks may reach back to their frames. Where
        another observation is written than the newest step led to, that step's stream is cut, so that its
        own next observation is kept.
        """
        for path, (place, values) in columns.items():
            num_steps, num_envs = values.shape[:2]
            if place is None:
                target = self.flag_column(FLAG_BYTES[path[0]])
            else:
                target = self.column(place)
                if place.depth > 1:
                    frames = np.moveaxis(values, 2 + place.axis, 2)
                    values = frames[:, :, -(frames.shape[2] // place.depth) :]
            for env, env_lane in enumerate(range(lane, lane + num_envs)):
                head = int(self.heads[env_lane])
                slots = (head + np.arange(num_steps)) % self.num_slots
                oldest_kept = head + num_steps - self.num_slots
                if oldest_kept > self.lows[env_lane]:
                    reach = place.depth - 1 if place is not None else 0
                    self.forget(env_lane, oldest_kept + reach)
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
        inner = np.empty((0, *shape), leaf.dtype).strides[1:]
        slot_bytes, buffer, offset = place.slot_bytes, self._rows, 0
        if place.row_offset >= 0:
            slot_bytes, offset = self.schema.row_bytes, place.row_offset
        else:
            buffer = self._blocks[place.block]
        return np.ndarray(
            (self.num_lanes, self.num_slots, *shape),
            leaf.dtype,
            buffer,
            offset,
            (self.num_slots * slot_bytes, slot_bytes, *inner),
        )

    def flag_column(self, byte: int) -> np.ndarray:
        """View of a flag of every slot, bool `[num_lanes, num_slots, 1]`."""
        row_bytes = self.schema.row_bytes
        shape = (self.num_lanes, self.num_slots, 1)
        return np.ndarray(shape, np.bool_, self._rows, byte, (self.num_slots * row_bytes, row_bytes, 1))

    def are_cut(self, ids: np.ndarray) -> np.ndarray:
        """Whether the stream breaks or ends after each step in `ids`."""
        shape, row_bytes = (self.num_lanes * self.num_slots,), (self.schema.row_bytes,)
        tails = np.ndarray(shape, np.int32, self._rows, layout.R_TAIL, row_bytes)
        are_cut: np.ndarray = tails[self.slots(ids)] != 0
        return are_cut

    def block_address(self, place: Place) -> int:
        """Address of the block column of a place, 0 if it lies in the rows."""
        return self.block_addresses[place.block] if place.block >= 0 else 0

    def are_broken(self, lanes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Whether the stream breaks or ends before each of the steps `numbers` of `lanes`, or begins there."""
        is_kept = numbers > self.lows[lanes]
        before = np.where(is_kept, numbers - 1, numbers) | lanes << layout.ID_SHIFT
        are_broken: np.ndarray = ~is_kept | self.are_cut(before)
        return are_broken

    def append_piece(
        self, piece: np.ndarray, blocks: Sequence[int], lane: int, lanes: np.ndarray, joint: Joint, num_records: int
    ) -> None:
        """Append the steps of a piece to the lanes from `lane` on.

        Parameters
        ----------
        piece : int64 [H_NUM_WORDS]
            Header of the piece, which has the same schema.
        blocks : sequence of int
            Addresses of its block columns.
        lane : int
            First lane.
        lanes : int64 [3, num_lanes]
            Number of the first step, number of steps, and whether the stream breaks before them.
        joint : Joint
            How it continues what is there.
        num_records : int
            Its side-table records.
        """
        self._reserve(num_records + len(joint.follows))
        table = self.block_table(blocks, self.block_addresses)
        transfer_kernels.append_piece(
            piece, self.header, self._carried, table, self.stacks, lane, lanes, joint.num_known, joint.follows
        )

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
        spans = np.zeros((len(lanes), transfer_kernels.X_NUM_WORDS), np.int64)
        spans[:, transfer_kernels.X_FROM_LANE] = spans[:, transfer_kernels.X_TO_LANE] = lanes
        spans[:, transfer_kernels.X_FROM] = lows
        spans[:, transfer_kernels.X_LOW] = old.lows[lanes]
        spans[:, transfer_kernels.X_NUM_STEPS] = heads - lows
        num_records = int(old.header[layout.H_TAIL_TOP] + old.header[layout.H_WHOLE_TOP])
        self._reserve(num_records + len(lanes))
        table = self.block_table(old.block_addresses, self.block_addresses)
        transfer_kernels.append_steps(old.header, self.header, self._carried, table, self.stacks, spans)
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
        self._tails = allocate(self._name("tails"), num_slots * schema.tail_bytes, reserve=False)
        # A step may keep two whole stacks: its own and the one that it led to.
        self._wholes = allocate(self._name("wholes"), 2 * num_slots * schema.whole_bytes, reserve=False)
        self._free = [allocate(self._name(f"free{table}"), 8 * num_slots, reserve=False) for table in (0, 1)]

    def _name(self, array: str) -> str:
        return f"{self.generation}-{array}"

    def _carried_table(self) -> np.ndarray:
        """The table of carried fields, but for where samples have them."""
        table = [
            [
                0,
                0,
                place.leaf.num_bytes,
                place.row_offset,
                self.block_address(place),
                place.tail_offset,
                place.depth,
                place.whole_offset,
            ]
            for place in self.schema.carried
        ]
        return np.array(table, np.int64).reshape(-1, layout.C_NUM_WORDS)

    def _make_header(self) -> np.ndarray:
        header = np.zeros(layout.H_NUM_WORDS, np.int64)
        header[layout.H_ROWS] = self._rows.ctypes.data
        header[layout.H_ROW_BYTES] = self.schema.row_bytes
        header[layout.H_SLOTS] = self.num_slots
        header[layout.H_CAPACITY] = self.capacity
        for word, cursor in zip((layout.H_HEAD, layout.H_FIRST, layout.H_LOW), self._cursors, strict=True):
            header[word] = cursor.ctypes.data
        header[layout.H_TAILS] = self._tails.ctypes.data
        header[layout.H_TAIL_BYTES] = self.schema.tail_bytes
        header[layout.H_TAIL_FREE] = self._free[0].ctypes.data
        header[layout.H_WHOLES] = self._wholes.ctypes.data
        header[layout.H_WHOLE_BYTES] = self.schema.whole_bytes
        header[layout.H_WHOLE_FREE] = self._free[1].ctypes.data
        header[layout.H_DEPTH] = self.schema.depth
        header[layout.H_NUM_LANES] = self.num_lanes
        return header

    def _reserve(self, num_records: int) -> None:
        """Take the disk space of side-table records before a kernel writes them."""
        needed = int(max(self.header[layout.H_TAIL_TOP], self.header[layout.H_WHOLE_TOP])) + 2 * num_records
        if needed <= self._reserved:
            return
        reserved = min(self._num_records, max(needed, self._reserved + max(_RESERVED_RECORDS, self._reserved // 4)))
        self.allocator.reserve_until(self._name("tails"), reserved * self.schema.tail_bytes)
        if self.schema.whole_bytes:
            self.allocator.reserve_until(self._name("wholes"), 2 * reserved * self.schema.whole_bytes)
        for table in (0, 1):
            self.allocator.reserve_until(self._name(f"free{table}"), 8 * reserved)
        self._reserved = reserved


def stack_table(schema: Schema) -> np.ndarray:
    """Block, bytes, depth and place in a whole record of each stacked field, int64 [num_stacks, Z_NUM_WORDS]."""
    table = [
        (place.block, place.leaf.num_bytes, place.depth, place.whole_offset)
        for place in schema.carried
        if place.depth > 1
    ]
    return np.array(table, np.int64).reshape(-1, transfer_kernels.Z_NUM_WORDS)
