"""Kernels that choose steps: uniform draws, and the newest steps of each lane."""

import math

import numba as nb
import numpy as np

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.kernels.ring_layout import HELPER, INLINED, KERNEL, head_of, oldest_of

_i64 = nb.int64[::1]
_table = nb.int64[:, ::1]


@nb.njit(**INLINED)
def first_start(starts, lane, number):
    """First step of `lane` at or after `number` that lies on its grid of starts."""
    base, stride = starts[layout.A_BASE, lane], starts[layout.A_STRIDE, lane]
    return base + -((base - number) // stride) * stride


@nb.njit(**HELPER)
def starts_of(header, starts, floors, lane):
    """First start of `lane` that may be drawn, and how many there are: none where the floor is the step to come."""
    base, stride, length = starts[layout.A_BASE, lane], starts[layout.A_STRIDE, lane], starts[layout.A_LENGTH, lane]
    low = oldest_of(header, lane)
    last = head_of(header, lane) - length
    if len(floors) > 0:
        if floors[lane] >= head_of(header, lane):
            return low, np.int64(0)
        # A window of the newest steps holds at least the newest start.
        newest = base + (last - base) // stride * stride
        low = max(low, min(floors[lane], newest))
    begin = first_start(starts, lane, low)
    return begin, max(np.int64(0), (last - begin) // stride + 1)


@nb.njit(**INLINED)
def _size_of(header, starts, lane):
    """Steps of `lane` that are stored and not context."""
    return head_of(header, lane) - max(oldest_of(header, lane), starts[layout.A_CONTEXT, lane])


@nb.njit(nb.int64(_i64, _table), **KERNEL)
def count_steps(header, starts):
    """Steps stored in all lanes together, context apart."""
    total = np.int64(0)
    for lane in range(header[layout.H_NUM_LANES]):
        total += _size_of(header, starts, lane)
    return total


@nb.njit(nb.int64(_i64, _table, _i64), **KERNEL)
def count_starts(header, starts, floors):
    """Starts that may be drawn in all lanes together."""
    total = np.int64(0)
    for lane in range(header[layout.H_NUM_LANES]):
        total += starts_of(header, starts, floors, lane)[1]
    return total


@nb.njit(nb.void(_i64, _table, _i64, nb.float64[::1], _i64), **KERNEL)
def draw_uniform(header, starts, floors, uniforms, ids):
    """Draw ids [batch] of starts with equal chances, given numbers in [0, 1); there must be one.

    Parameters
    ----------
    starts : int64 [A_NUM_WORDS, num_lanes]
        Which steps of each lane may be drawn.
    floors : int64 [num_lanes] or [0]
        Oldest step of each lane that may be drawn, where that is narrower than what is stored.
    """
    num_lanes = header[layout.H_NUM_LANES]
    begins = np.empty(num_lanes, np.int64)
    ends = np.empty(num_lanes, np.int64)
    total = np.int64(0)
    for lane in range(num_lanes):
        begins[lane], count = starts_of(header, starts, floors, lane)
        total += count
        ends[lane] = total
    for item in range(len(ids)):
        index = min(np.int64(uniforms[item] * total), total - 1)
        lane = np.searchsorted(ends, index, side="right") if num_lanes > 1 else 0
        before = ends[lane - 1] if lane > 0 else 0
        number = begins[lane] + (index - before) * starts[layout.A_STRIDE, lane]
        ids[item] = (np.int64(lane) << layout.ID_SHIFT) | number


@nb.njit(nb.int64(_i64, _table, nb.float64, _i64), **KERNEL)
def recent_floors(header, starts, num_recent, floors):
    """Share the newest `num_recent` steps out among the lanes, in proportion to their sizes.

    Writes the oldest step of each lane's share into `floors` and returns the steps in all shares.
    """
    num_lanes = header[layout.H_NUM_LANES]
    total = count_steps(header, starts)
    taken = np.int64(0)
    for lane in range(num_lanes):
        size = _size_of(header, starts, lane)
        share = min(size, np.int64(math.ceil(num_recent * size / total))) if total > 0 else np.int64(0)
        floors[lane] = head_of(header, lane) - share
        taken += share
    return taken
