"""`RingPiece`: consecutive steps of a store as one block of bytes that stands alone.

It is what workers send, and what snapshots and journals are made of. Its bytes are a head of whole numbers and
then, one section behind the other: the marks and ages of its rows, the rest of the rows, the block columns, the
tails and the whole stacks, as a ring has them, and the hidden states of its steps where these travel. Each lane's
rows end with what its newest step led to. Records lie in the order of the rows that have them, and no stack reaches
back beyond the first row, so that a piece fits into any ring of its schema.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.kernels import transfer_kernels as kernels
from recollect.agent.storages.experience.store.ring.lane_ring import REFUSALS, LaneRing, spans_of
from recollect.agent.storages.experience.store.ring.ring_tables import make_header
from recollect.agent.storages.experience.store.schema.schema import Schema
from recollect.agent.storages.experience.store.sources import Continuation
from recollect.errors import SchemaError

_WORD: Final = 8
# The first word tells these bytes from others: a name, and the version of the layout.
_MAGIC: Final = int.from_bytes(b"ringpie\x01", "little")
_W_MAGIC, _W_LANES, _W_TAILS, _W_WHOLES, _W_CUTS, _W_STATES, _NUM_WORDS = range(7)
# Behind them, for each lane: number of its first step, number of steps, whether the stream breaks before them.
_L_BEGIN, _L_STEPS, _L_BREAKS, _NUM_LANE_WORDS = range(4)
_MAX_STEPS: Final = layout.ID_MASK >> 1
# Sections of which every piece has one; the others follow.
_MARKS, _AGES, _BODIES, _TAILS, _WHOLES, _NUM_SECTIONS = range(6)


class RingPiece:
    """Steps of neighbouring lanes of one source.

    Parameters
    ----------
    schema : Schema
        The fields of its steps.
    data : uint8 array [num_bytes]
        The piece, which is checked: all that a kernel relies on later is true of it then. It is not written to.

    Attributes
    ----------
    begins, num_steps : int64 [num_lanes]
        Number of each lane's first step in its stream, and number of steps.
    num_cuts : int
        Breaks among the steps that nobody announced.
    """

    def __init__(self, schema: Schema, data: np.ndarray) -> None:
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 1 or not data.flags.c_contiguous:
            raise SchemaError("a ring piece must be a contiguous array of bytes")
        data = data if data.ctypes.data % _WORD == 0 else data.copy()
        self._hold(schema, data, _read_words(data))
        status = kernels.unpack_rows(
            self._header,
            *self._packed_rows(),
            schema.reward_table,
            self.num_steps,
            self._words[_W_TAILS : _W_WHOLES + 1],
        )
        if status != layout.OK:
            raise SchemaError(REFUSALS[status])

    @classmethod
    def cut_from(
        cls,
        ring: LaneRing,
        lane: int,
        begins: np.ndarray,
        ends: np.ndarray,
        *,
        origins: np.ndarray | int = 0,
        num_cuts: int = 0,
        states: Sequence[np.ndarray] = (),
    ) -> "RingPiece":
        """Copy the steps `begins` to `ends` [num_lanes] of the lanes from `lane` on out of a ring.

        Parameters
        ----------
        origins : int64 [num_lanes] or int
            Number that the ring's step 0 has in its stream.
        num_cuts : int
            Breaks among them that nobody announced.
        states : sequence of array [sum(ends - begins), ...]
            Hidden states of all steps, lane by lane, if they are to travel.
        """
        lanes = np.arange(lane, lane + len(begins))
        spans = spans_of(lanes, begins, ring.lows[lanes], ends - begins)
        counts = np.zeros(2, np.int64)
        kernels.count_records(ring.header, spans, counts)
        numbers = [_MAGIC, len(lanes), *counts, num_cuts, len(states) > 0]
        are_broken = ring.are_broken(lanes, begins)
        words = np.concatenate([numbers, begins + origins, ends - begins, are_broken]).astype(np.int64)
        piece = cls.__new__(cls)
        piece._hold(ring.schema, None, words)
        blocks = ring.block_table(ring.block_addresses, piece._block_addresses)
        kernels.cut_steps(ring.header, piece._header, blocks, ring.schema.stack_table, spans)
        kernels.pack_rows(piece._header, *piece._packed_rows())
        for target, values in zip(piece.states, states, strict=True):
            target[...] = values
        return piece

    def append_to(self, ring: LaneRing, lane: int, joint: Continuation) -> None:
        """Append the steps that are not known yet to the lanes of a ring from `lane` on."""
        num_steps, breaks = self.num_steps, self._lanes[_L_BREAKS]
        rows = np.cumsum(num_steps + 1) - num_steps - 1  # each lane's rows follow the row behind another's
        lanes = np.arange(lane, lane + len(rows))
        spans = spans_of(0, rows, rows, num_steps, lanes, joint.num_known, joint.follows, breaks)
        num_records = int(self._words[_W_TAILS] + self._words[_W_WHOLES])
        ring.append_from(self._header, self._block_addresses, spans, num_records)

    @property
    def states(self) -> list[np.ndarray]:
        """Hidden states of all steps, lane by lane, `[sum(num_steps), ...]`; none if they do not travel."""
        if not self._words[_W_STATES]:
            return []
        num_steps = int(self.num_steps.sum())
        first = _NUM_SECTIONS + len(self.schema.block_bytes)
        return [
            np.ndarray((num_steps, *leaf.shape), leaf.dtype, self.data, start)
            for leaf, start in zip(self.schema.hidden, self._starts[first:-1], strict=True)
        ]

    def _hold(self, schema: Schema, data: np.ndarray | None, words: np.ndarray) -> None:
        """Find the sections of given bytes, or make empty ones for a piece that `words` describe."""
        self.schema = schema
        self._words = words
        self._lanes = words[_NUM_WORDS:].reshape(_NUM_LANE_WORDS, -1)
        self.begins, self.num_steps = self._lanes[_L_BEGIN], self._lanes[_L_STEPS]
        self.num_cuts = int(words[_W_CUTS])
        num_rows, sizes = _section_sizes(schema, words)
        self._starts = list(accumulate(sizes, initial=words.nbytes))
        if data is None:
            data = self._make_data()
        if self._starts[-1] != len(data):
            raise SchemaError(f"a ring piece of these steps has {self._starts[-1]} bytes, got {len(data)}")
        self.data = data
        self._address = data.ctypes.data
        self._rows = np.zeros(num_rows * schema.row_bytes, np.uint8)
        tails, wholes = (self._address + self._starts[section] for section in (_TAILS, _WHOLES))
        self._header = make_header(schema, num_rows, self._rows.ctypes.data, tails, wholes)

    def _make_data(self) -> np.ndarray:
        """Bytes of a new piece: its head, and zeros where the copy of steps may write nothing.

        To clear the blocks of all steps would take half as long again as to copy them.
        """
        data = np.empty(self._starts[-1], np.uint8)
        blocks, end = _NUM_SECTIONS, _NUM_SECTIONS + len(self.schema.block_bytes)
        data[: self._starts[blocks]] = 0
        data[: self._words.nbytes] = self._words.view(np.uint8)
        last_rows = np.cumsum(self.num_steps + 1) - 1
        for index, num_bytes in zip(range(blocks, end), self.schema.block_bytes, strict=True):
            block = data[self._starts[index] : self._starts[index + 1]]
            for row in last_rows.tolist():
                block[row * num_bytes : (row + 1) * num_bytes] = 0
            block[(last_rows[-1] + 1) * num_bytes :] = 0
        data[self._starts[end] :] = 0
        return data

    @property
    def _block_addresses(self) -> list[int]:
        starts = self._starts[_NUM_SECTIONS : _NUM_SECTIONS + len(self.schema.block_bytes)]
        return [self._address + start for start in starts]

    def _packed_rows(self) -> tuple[int, int, int, int]:
        """Addresses of marks, ages and bodies, and the bytes of a row that are not in its body."""
        marks, ages, bodies = (self._address + self._starts[index] for index in (_MARKS, _AGES, _BODIES))
        return marks, ages, bodies, self.schema.fixed_bytes


def _read_words(data: np.ndarray) -> np.ndarray:
    """The whole numbers that a piece begins with, int64; refused if they cannot be."""
    num_words = len(data) // _WORD
    words = data[: num_words * _WORD].view(np.int64)
    if num_words < _NUM_WORDS or words[_W_MAGIC] != _MAGIC:
        raise SchemaError("these bytes are no ring piece, or one of another version")
    num_lanes = int(words[_W_LANES])
    if not 0 < num_lanes <= (num_words - _NUM_WORDS) // _NUM_LANE_WORDS:
        raise SchemaError(f"a ring piece of {len(data)} bytes cannot have {num_lanes} lanes")
    words = words[: _NUM_WORDS + _NUM_LANE_WORDS * num_lanes].copy()
    # Counts that are too large are no size that the bytes have.
    if words[1:].min() < 0 or words[_NUM_WORDS:].max() > _MAX_STEPS or words[_W_CUTS] > _MAX_STEPS:
        raise SchemaError("a ring piece has numbers of steps that cannot be")
    return words


def _section_sizes(schema: Schema, words: np.ndarray) -> tuple[int, list[int]]:
    """Number of rows, and the bytes of each section."""
    _, num_lanes, num_tails, num_wholes, _, has_states, *lanes = words.tolist()
    num_steps = sum(lanes[num_lanes : 2 * num_lanes])
    num_rows = num_steps + num_lanes
    sizes = [
        num_rows,
        num_rows if schema.depth > 1 else 0,
        num_rows * (schema.row_bytes - schema.fixed_bytes),
        num_tails * schema.tail_bytes,
        num_wholes * schema.whole_bytes,
        *(num_rows * num_bytes for num_bytes in schema.block_bytes),
    ]
    if has_states:
        sizes += [num_steps * leaf.num_bytes for leaf in schema.hidden]
    return num_rows, [-(-size // _WORD) * _WORD for size in sizes]
