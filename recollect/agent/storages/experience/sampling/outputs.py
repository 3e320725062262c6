"""The columns of a batch: their names, and how the gather kernel fills them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience.kernels import gather_kernels
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.sampling.tensor_pool import MakeTensor, TensorPool, host_tensor
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.schema.schema import DTYPE_CODES, FLAG_BYTES, KeyPath, Place, next_path
from recollect.roles import Observation

# A column of a batch is named by its key, a nested one by its path of keys.
Name = str | KeyPath

Nested = dict[str, Any]
"""Arrays by key, or dicts of them where an observation is one."""


def name_of(path: KeyPath) -> Name:
    """Name of the column at `path`."""
    return path[0] if len(path) == 1 else path


@dataclass(frozen=True)
class Output:
    """One array of a batch: what it is called, its shape for one row, and what the kernel fills it with."""

    path: KeyPath
    shape: tuple[int, ...]
    dtype: np.dtype
    words: tuple[int, ...]
    axis: int = 0
    # A block that holds the stacks of both ends, and the frames' extent along its first axis.
    frame_extent: int = 0


def _copied(ring: LaneRing, place: Place, path: KeyPath, kind: int, stack_kind: int) -> Output:
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
    return Output(path, place.stacked_shape, leaf.dtype, words, place.axis)


def _derived(path: KeyPath, dtype: np.dtype, kind: int, row_offset: int = 0) -> Output:
    words = (kind, dtype.itemsize, row_offset, 0, 0, 1, 0, DTYPE_CODES[dtype])
    return Output(path, (1,), dtype, words)


def _both_stacks(ring: LaneRing, place: Place) -> Output:
    single = _copied(ring, place, place.leaf.path, 0, layout.K_BOTH_STACKS)
    extent = single.shape[0] // place.depth
    shape = (single.shape[0] + extent, *single.shape[1:])
    return replace(single, shape=shape, frame_extent=extent)


class OutputPlan:
    """The arrays of a batch from one ring, and the kernel's table that fills them.

    Parameters
    ----------
    ring : LaneRing
        Where the steps are.
    make_tensor : callable
        Makes the tensors that are gathered into.
    shifted_stacks : bool
        Gather stacks of both ends of one-step windows into one block; right only where every next
        stack is its predecessor shifted.
    """

    def __init__(self, ring: LaneRing, *, make_tensor: MakeTensor = host_tensor, shifted_stacks: bool = False) -> None:
        self._ring = ring
        self._outputs = list(self._list_outputs(shifted_stacks))
        self._is_plain = not any(output.axis or output.frame_extent for output in self._outputs)
        shapes = [(name_of(output.path), output.shape, output.dtype) for output in self._outputs]
        self._pool = TensorPool(shapes, make_tensor)
        self._columns = np.array([output.words for output in self._outputs], np.int64).reshape(-1, layout.O_NUM_WORDS)

    def gather(self, ids: np.ndarray, limits: np.ndarray, gamma: float) -> dict[Name, torch.Tensor]:
        """Rows of the windows from `ids` on, of at most `limits` [rows] or [1] steps, by name, `[rows, ...]`."""
        taken = self._pool.take(len(ids))
        gather_kernels.gather(self._ring.header, self._columns, taken.targets, ids, limits, gamma)
        return taken.tensors.copy() if self._is_plain else dict(self._unstacked(taken.tensors))

    def _unstacked(self, tensors: dict[Name, torch.Tensor]) -> Iterable[tuple[Name, torch.Tensor]]:
        for output in self._outputs:
            name = name_of(output.path)
            tensor = tensors[name]
            if output.frame_extent:
                size = tensor.shape[1] - output.frame_extent
                yield name, _unstack(tensor[:, :size], output.axis)
                yield name_of(next_path(output.path)), _unstack(tensor[:, output.frame_extent :], output.axis)
            else:
                yield name, _unstack(tensor, output.axis)

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


def map_arrays(function: Callable[[Any], Any], value: Observation) -> Observation:
    """Apply a function to an array, or to each array of a (nested) dict; None stays None."""
    if isinstance(value, Mapping):
        return {name: map_arrays(function, inner) for name, inner in value.items()}
    return None if value is None else function(value)


def nest(arrays: Iterable[tuple[Name, Any]]) -> Nested:
    """Turn arrays by name into a dict of arrays and nested dicts."""
    result: Nested = {}
    for path, array in arrays:
        if isinstance(path, str):
            result[path] = array
            continue
        inner = result
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
        inner[path[-1]] = array
    return result
