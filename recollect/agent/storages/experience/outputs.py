"""What a batch is gathered into: fresh arrays, large ones from a pool of those no longer in use."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience import gather_kernels
from recollect.agent.storages.experience import ring_layout as layout
from recollect.agent.storages.experience.lane_ring import LaneRing
from recollect.agent.storages.experience.schema import DTYPE_CODES, FLAG_BYTES, Path, Place, next_path

# Fresh arrays of this size come from new pages, whose faults cost more than the copy.
_SMALLEST_POOLED_BYTES: Final = 1 << 16
_ARRAYS_POOLED: Final = 4
# What `sys.getrefcount` says of a pooled array that nobody uses: the pool, the loop and the call.
_REFERENCES_OF_UNUSED: Final = 3


class ArrayPool:
    """Arrays that are handed out again once every tensor made from them is gone.

    A handed-out view refers to its base array for as long as any tensor, view or autograd graph
    refers to it, so an array whose reference count is back at rest is free.
    """

    def __init__(self) -> None:
        self._arrays: dict[tuple[tuple[int, ...], np.dtype], list[np.ndarray]] = {}

    def take(self, shape: tuple[int, ...], dtype: np.dtype, num_bytes: int) -> np.ndarray:
        """Return an array of undefined content."""
        if num_bytes < _SMALLEST_POOLED_BYTES:
            return np.empty(shape, dtype)
        pooled = self._arrays.setdefault((shape, dtype), [])
        for base in pooled:
            if sys.getrefcount(base) == _REFERENCES_OF_UNUSED:
                return base.view()
        base = np.empty(shape, dtype)
        if len(pooled) == _ARRAYS_POOLED:
            pooled.pop(0)
        pooled.append(base)
        return base.view()


@dataclass(frozen=True)
class Output:
    """One array of a batch: what it is called, its shape for one row, and what the kernel fills it with."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype
    words: tuple[int, ...]
    num_bytes: int
    axis: int = 0
    # A block that holds the stacks of both ends, and the frames' extent along its first axis.
    frame_extent: int = 0


def _copied(ring: LaneRing, place: Place, path: Path, kind: int, stack_kind: int) -> Output:
    leaf = place.leaf
    words = (
        kind if place.depth == 1 else stack_kind,
        leaf.num_bytes,
        place.row_offset,
        ring.block_address(place),
        place.tail_offset,
        place.depth,
        place.whole_offset,
        0,
    )
    return Output(path, place.stacked_shape, leaf.dtype, words, leaf.num_bytes, place.axis)


def _derived(path: Path, dtype: np.dtype, kind: int, row_offset: int = 0) -> Output:
    words = (kind, dtype.itemsize, row_offset, 0, 0, 1, 0, DTYPE_CODES[dtype])
    return Output(path, (1,), dtype, words, dtype.itemsize)


def _both_stacks(ring: LaneRing, place: Place) -> Output:
    single = _copied(ring, place, place.leaf.path, 0, layout.K_BOTH_STACKS)
    extent = single.shape[0] // place.depth
    shape = (single.shape[0] + extent, *single.shape[1:])
    num_bytes = single.num_bytes + place.slot_bytes
    return Output(single.path, shape, single.dtype, single.words, num_bytes, single.axis, extent)


class OutputPlan:
    """The arrays of a batch from one ring, and the kernel's table that fills them.

    Parameters
    ----------
    ring : LaneRing
        Where the steps are.
    pool : ArrayPool
        Where large arrays come from.
    shifted_stacks : bool
        Gather stacks of both ends of one-step windows into one block; right only where every next
        stack is its predecessor shifted.
    only : set of paths, optional
        Gather nothing else.
    """

    def __init__(
        self, ring: LaneRing, pool: ArrayPool, *, shifted_stacks: bool = False, only: set[Path] | None = None
    ) -> None:
        self._ring = ring
        self._pool = pool
        self._outputs = [
            output for output in self._list_outputs(shifted_stacks) if only is None or output.path in only
        ]
        self._paths = [output.path for output in self._outputs]
        self._is_plain = not any(output.axis or output.frame_extent for output in self._outputs)
        self._columns = np.array([output.words for output in self._outputs], np.int64)

    def gather(self, ids: np.ndarray, places: np.ndarray, gamma: float) -> dict[Path, torch.Tensor]:
        """Fill fresh tensors with the rows of the windows at `places`; returns them by path."""
        batch_size = len(ids)
        take = self._pool.take
        tensors = [
            torch.from_numpy(take((batch_size, *output.shape), output.dtype, batch_size * output.num_bytes))
            for output in self._outputs
        ]
        targets = np.array([tensor.data_ptr() for tensor in tensors], np.int64)
        gather_kernels.gather(self._ring.header, self._columns, targets, ids, places, gamma)
        return dict(zip(self._paths, tensors, strict=True) if self._is_plain else self._named(tensors))

    def _named(self, tensors: list[torch.Tensor]) -> Iterable[tuple[Path, torch.Tensor]]:
        for output, tensor in zip(self._outputs, tensors, strict=True):
            if output.frame_extent:
                size = tensor.shape[1] - output.frame_extent
                yield output.path, _unstack(tensor[:, :size], output.axis)
                yield next_path(output.path), _unstack(tensor[:, output.frame_extent :], output.axis)
            else:
                yield output.path, _unstack(tensor, output.axis)

    def _list_outputs(self, shifted_stacks: bool) -> Iterable[Output]:
        ring, schema = self._ring, self._ring.schema
        for place in schema.carried:
            path = place.leaf.path
            if shifted_stacks and place.depth > 1:
                yield _both_stacks(ring, place)
                continue
            yield _copied(ring, place, path, layout.K_FIRST, layout.K_FIRST_STACK)
            yield _copied(ring, place, next_path(path), layout.K_NEXT, layout.K_NEXT_STACK)
        for place in schema.steps:
            if place.is_reward:
                yield _derived(place.leaf.path, place.leaf.dtype, layout.K_REWARD, place.row_offset)
            else:
                yield _copied(ring, place, place.leaf.path, layout.K_FIRST, 0)
        for key, byte in FLAG_BYTES.items():
            if key in schema.flags:
                kind = layout.K_FLAG_FIRST if key == keys.DONE else layout.K_FLAG_LAST
                yield _derived((key,), schema.flags[key], kind, byte)
        yield _derived((keys.DISCOUNT,), np.dtype(np.float32), layout.K_DISCOUNT)
        yield _derived((keys.N_STEP,), np.dtype(np.int64), layout.K_NUM_STEPS)


def _unstack(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    """Move the axis of the frames from the front of each row back to where the caller has it."""
    return tensor.movedim(1, 1 + axis) if axis else tensor


def nest(arrays: Iterable[tuple[Path, Any]]) -> dict[str, Any]:
    """Turn arrays by path into a dict of arrays and nested dicts."""
    result: dict[str, Any] = {}
    for path, array in arrays:
        inner = result
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
        inner[path[-1]] = array
    return result
