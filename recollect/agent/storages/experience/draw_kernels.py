"""Kernels that choose steps: uniform draws, the newest steps of each lane, slots to ids and back."""

import math

import numba as nb
import numpy as np

from recollect.agent.storages.experience.pointers import load_i64
from recollect.agent.storages.experience.ring_layout import (
    A_BASE,
    A_CONTEXT,
    A_LENGTH,
    A_STRIDE,
    H_FIRST,
    H_HEAD,
    H_NUM_LANES,
    H_SLOTS,
    ID_MASK,
    ID_SHIFT,
    KERNEL,
)

_i64 = nb.int64[::1]
_table = nb.int64[:, ::1]


@nb.njit(**KERNEL)
def _head(header, lane):
    return load_i64(header[H_HEAD] + 8 * lane)


@nb.njit(**KERNEL)
def _first(header, lane):
    return load_i64(header[H_FIRST] + 8 * lane)


@nb.njit(**KERNEL)
def _starts(header, starts, floors, lane):
    """First start of `lane` that may be drawn, and how many there are."""
    base, stride, length = starts[A_BASE, lane], starts[A_STRIDE, lane], starts[A_LENGTH, lane]
    low = _first(header, lane)
    last = _head(header, lane) - length
    if len(floors) > 0:
        # A window of the newest steps holds at least the newest start.
        newest = base + (last - base) // stride * stride
        low = max(low, min(floors[lane], newest))
    begin = base + -((base - low) // stride) * stride
    return begin, max(np.int64(0), (last - begin) // stride + 1)


@nb.njit(nb.int64(_i64, _table, _i64), **KERNEL)
def count_starts(header, starts, floors):
    """Starts that may be drawn in all lanes together."""
    total = np.int64(0)
    for lane in range(header[H_NUM_LANES]):
        total += _starts(header, starts, floors, lane)[1]
    return total


@nb.njit(nb.int64(_i64, _table, _i64, nb.float64[::1], _i64), **KERNEL)
def draw_uniform(header, starts, floors, uniforms, ids):
    """Draw ids [batch] of starts with equal chances, given numbers in [0, 1); returns how many there were.

    Parameters
    ----------
    starts : int64 [A_NUM_WORDS, num_lanes]
        Which steps of each lane may be drawn.
    floors : int64 [num_lanes] or [0]
        Oldest step of each lane that may be drawn, where that is narrower than what is stored.
    """
    num_lanes = header[H_NUM_LANES]
    begins = np.empty(num_lanes, np.int64)
    ends = np.empty(num_lanes, np.int64)
    total = np.int64(0)
    for lane in range(num_lanes):
        begins[lane], count = _starts(header, starts, floors, lane)
        total += count
        ends[lane] = total
    if total == 0:
        return total
    for item in range(len(ids)):
        index = min(np.int64(uniforms[item] * total), total - 1)
        lane = np.searchsorted(ends, index, side="right") if num_lanes > 1 else 0
        before = ends[lane - 1] if lane > 0 else 0
        number = begins[lane] + (index - before) * starts[A_STRIDE, lane]
        ids[item] = (np.int64(lane) << ID_SHIFT) | number
    return total


@nb.njit(nb.int64(_i64, _table, nb.float64, _i64), **KERNEL)
def recent_floors(header, starts, num_recent, floors):
    """Share the newest `num_recent` steps out among the lanes, in proportion to their sizes.

    Writes the oldest step of each lane's share into `floors` and returns the steps in all shares.
    """
    num_lanes = header[H_NUM_LANES]
    total = np.int64(0)
    for lane in range(num_lanes):
        total += _head(header, lane) - max(_first(header, lane), starts[A_CONTEXT, lane])
    taken = np.int64(0)
    for lane in range(num_lanes):
        size = _head(header, lane) - max(_first(header, lane), starts[A_CONTEXT, lane])
        share = min(size, np.int64(math.ceil(num_recent * size / total))) if total > 0 else np.int64(0)
        floors[lane] = _head(header, lane) - share
        taken += share
    return taken


@nb.njit(nb.void(_i64, _table, _i64, _table), **KERNEL)
def recent_slots(header, starts, floors, ranges):
    """Ranges of slots `[2 * num_lanes, 2]` that hold the starts of each lane from its floor on."""
    slots = header[H_SLOTS]
    for lane in range(header[H_NUM_LANES]):
        head = _head(header, lane)
        begin, count = _starts(header, starts, floors, lane)
        offset = lane * slots
        ranges[2 * lane : 2 * lane + 2, :] = offset
        if count > 0:
            begin_slot, end_slot = begin % slots, (head - 1) % slots + 1
            if begin_slot < end_slot:
                ranges[2 * lane, 0], ranges[2 * lane, 1] = offset + begin_slot, offset + end_slot
            else:
                ranges[2 * lane, 0], ranges[2 * lane, 1] = offset, offset + end_slot
                ranges[2 * lane + 1, 0], ranges[2 * lane + 1, 1] = offset + begin_slot, offset + slots


@nb.njit(nb.void(_i64, _i64), **KERNEL)
def slots_to_ids(header, slots):
    """Turn slots that hold steps into the ids of those steps, in place."""
    num_slots = header[H_SLOTS]
    for item in range(len(slots)):
        lane = slots[item] // num_slots
        newest = _head(header, lane) - 1
        number = newest - (newest - (slots[item] - lane * num_slots)) % num_slots
        slots[item] = (lane << ID_SHIFT) | number


@nb.njit(nb.int64(_i64, _table, _i64, _i64, _i64), **KERNEL)
def ids_to_slots(header, starts, ids, slots, kept):
    """Find the slots of the `ids` that are still starts; returns how many, with their positions in `kept`."""
    count = 0
    num_slots = header[H_SLOTS]
    for item in range(len(ids)):
        lane, number = ids[item] >> ID_SHIFT, ids[item] & ID_MASK
        if ids[item] < 0 or lane >= header[H_NUM_LANES] or number < _first(header, lane):
            continue
        if number + starts[A_LENGTH, lane] > _head(header, lane):
            continue
        if (number - starts[A_BASE, lane]) % starts[A_STRIDE, lane] != 0:
            continue
        slots[count] = lane * num_slots + number % num_slots
        kept[count] = item
        count += 1
    return count


@nb.njit(nb.int64(_i64, _table, nb.int64[::1], _i64, _i64), **KERNEL)
def follow_append(header, starts, span, admitted, removed):
    """List the slots of the starts that an append has made drawable, and of those it has overwritten.

    Parameters
    ----------
    span : int64 [4]
        First lane, number of lanes, and the first and head steps of these lanes before the append.
    admitted, removed : int64
        Out: the slots; `removed` ends at the first -1.

    Returns
    -------
    int
        Number of slots admitted.
    """
    num_slots = header[H_SLOTS]
    num_admitted, num_removed = 0, 0
    for lane in range(span[0], span[0] + span[1]):
        stride, length = starts[A_STRIDE, lane], starts[A_LENGTH, lane]
        base, first, head = starts[A_BASE, lane], _first(header, lane), _head(header, lane)
        number = base + -((base - span[2]) // stride) * stride
        while number < min(first, span[3] - length + 1):
            removed[num_removed] = lane * num_slots + number % num_slots
            num_removed += 1
            number += stride
        number = max(first, span[3] - length + 1)
        number = base + -((base - number) // stride) * stride
        while number + length <= head:
            admitted[num_admitted] = lane * num_slots + number % num_slots
            num_admitted += 1
            number += stride
    removed[num_removed] = -1
    return num_admitted
