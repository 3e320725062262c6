"""The schema of a step: the fields of a sample, and where each lies in a lane ring.

Small fields lie side by side in one packed row, large ones have columns of their own. What the next
step's row holds as well (observations, hidden states) is *carried*: it is stored once, and its `Next`
key is derived.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from recollect import keys
from recollect.agent.storages.experience.kernels import ring_layout as layout

NEXT_OF: Final = {keys.OBS: keys.NEXT_OBS, keys.RHS: keys.NEXT_RHS}
REWARDS: Final = (keys.REWARD, keys.IREWARD)
FLAGS: Final = {
    keys.DONE: layout.F_DONE,
    keys.NEXT_DONE: layout.F_ENDED,
    keys.NEXT_TERMINATED: layout.F_TERMINATED,
    keys.CUT: layout.F_CUT,
}
FLAG_BYTES: Final = {
    keys.DONE: layout.R_DONE,
    keys.NEXT_DONE: layout.R_ENDED,
    keys.NEXT_TERMINATED: layout.R_TERMINATED,
}
DTYPE_CODES: Final[dict[np.dtype, int]] = {
    np.dtype(np.float32): layout.D_F32,
    np.dtype(np.float64): layout.D_F64,
    np.dtype(np.bool_): layout.D_U8,
    np.dtype(np.uint8): layout.D_U8,
    np.dtype(np.int8): layout.D_U8,
    np.dtype(np.int32): layout.D_I32,
    np.dtype(np.int64): layout.D_I64,
}

KeyPath = tuple[str, ...]


@dataclass(frozen=True)
class Leaf:
    """One array of a sample: its path of keys, its shape for one env and its dtype."""

    path: KeyPath
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def name(self) -> str:
        """The path as one word, for messages and file names."""
        return keys.PATH_SEPARATOR.join(self.path)

    @property
    def num_bytes(self) -> int:
        """Bytes of one env's array."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Place:
    """Where a leaf is stored: at `row_offset` of the packed row, or in block column `block`."""

    leaf: Leaf
    row_offset: int
    block: int
    tail_offset: int = 0
    depth: int = 1
    axis: int = 0
    whole_offset: int = 0

    @property
    def slot_bytes(self) -> int:
        """Bytes in one slot: of a stack, one frame."""
        return self.leaf.num_bytes // self.depth

    @property
    def is_reward(self) -> bool:
        """Whether windows fold this field."""
        return self.leaf.path[0] in REWARDS

    @property
    def stacked_shape(self) -> tuple[int, ...]:
        """The leaf's shape with the axis of the frames moved to the front."""
        rest = list(self.leaf.shape)
        if self.depth > 1:
            rest.insert(0, rest.pop(self.axis))
        return tuple(rest)


@dataclass
class Schema:
    """The fields of a store's steps, placed. Built by `plan_schema`."""

    carried: list[Place] = field(default_factory=list)
    steps: list[Place] = field(default_factory=list)
    flags: dict[str, np.dtype] = field(default_factory=dict)
    hidden: list[Leaf] = field(default_factory=list)
    row_bytes: int = 0
    tail_bytes: int = 0
    whole_bytes: int = 0
    block_bytes: list[int] = field(default_factory=list)

    @cached_property
    def depth(self) -> int:
        """Depth of the deepest frame stack, 1 without stacks."""
        return max((place.depth for place in self.carried), default=1)

    @cached_property
    def fixed_bytes(self) -> int:
        """Bytes that every row begins with, before its fields."""
        return layout.R_FIXED_STACKED if self.depth > 1 else layout.R_FIXED

    @cached_property
    def reward_table(self) -> np.ndarray:
        """Offset in a row and dtype code of each reward, int64 [num_rewards, 2]."""
        rewards = [(place.row_offset, DTYPE_CODES[place.leaf.dtype]) for place in self.steps if place.is_reward]
        return np.array(rewards, np.int64).reshape(-1, 2)

    @property
    def is_nested(self) -> bool:
        """Whether a key holds a dict of arrays."""
        return any(len(leaf.path) > 1 for leaf in (*(leaf for leaf, _ in self.inputs), *self.hidden))

    @cached_property
    def stored(self) -> dict[KeyPath, Place]:
        """Where each stored field lies; of flags, the bytes that stand for them."""
        flags = {(key,): Place(Leaf((key,), (1,), np.dtype(np.bool_)), FLAG_BYTES[key], -1) for key in self.flags}
        return {place.leaf.path: place for place in (*self.carried, *self.steps)} | flags

    @cached_property
    def stack_table(self) -> np.ndarray:
        """Block, bytes, depth and place in a whole record of each stacked field, int64 [num_stacks, Z_NUM_WORDS]."""
        stacks = [place for place in self.carried if place.depth > 1]
        table = [(place.block, place.leaf.num_bytes, place.depth, place.whole_offset) for place in stacks]
        return np.array(table, np.int64).reshape(-1, layout.Z_NUM_WORDS)

    @cached_property
    def inputs(self) -> list[tuple[Leaf, int]]:
        """What a sample brings, and the axis of stacked frames that is to be moved to the front, -1 if none is."""
        carried = [(place.leaf, place.axis if place.depth > 1 and place.axis else -1) for place in self.carried]
        following = [(Leaf(next_path(leaf.path), leaf.shape, leaf.dtype), axis) for leaf, axis in carried]
        flags = {**self.flags, keys.CUT: np.dtype(np.bool_)}
        rest = [place.leaf for place in self.steps] + [Leaf((key,), (1,), dtype) for key, dtype in flags.items()]
        return carried + following + [(leaf, -1) for leaf in rest]

    @property
    def slot_bytes(self) -> int:
        """Bytes of one step in its slot, side tables apart."""
        return self.row_bytes + sum(self.block_bytes)


def next_path(path: KeyPath) -> KeyPath:
    """KeyPath of a carried leaf under its `Next` key."""
    return (NEXT_OF[path[0]], *path[1:])
