"""Kernels of prioritised draws: follow the ring, draw ids with weights, take errors back.

Each does its whole job in one call.
"""

import math

import numba as nb
import numpy as np

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.kernels.draw_kernels import first_start, starts_of
from recollect.agent.storages.experience.kernels.pointers import load_f32, load_i64, prefetch
from recollect.agent.storages.experience.kernels.power_kernels import raise_all
from recollect.agent.storages.experience.kernels.ring_layout import HELPER, INLINED, KERNEL, head_of, oldest_of
from recollect.agent.storages.experience.kernels.tree_kernels import SHIFT, decompose, pick_child, refresh

# What a draw answers when all priorities are 0, and an update when an error is negative or not finite.
NO_MASS = -1
BAD_ERROR = -1

# Bytes of a drawn row that memory is asked for during the draw.
_BYTES_AHEAD = 256

_f32 = nb.float32[::1]
_f64 = nb.float64[::1]
_i64 = nb.int64[::1]
_table = nb.int64[:, ::1]


@nb.njit(nb.void(_f64, nb.float64, nb.float64), **KERNEL)
def prioritise(errors, epsilon, alpha):
    """Turn errors into priorities, in place."""
    for index in range(len(errors)):
        errors[index] += epsilon
    if alpha != 1.0:
        raise_all(errors, alpha)


@nb.njit(**HELPER)
def _drop_overwritten(header, starts, seen, lane, first, sums, touched, num_touched):
    """Take the priority of starts that were drawable and are no longer stored."""
    stride, slots = starts[layout.A_STRIDE, lane], header[layout.H_SLOTS]
    number = first_start(starts, lane, seen[0, lane])
    while number < min(first, seen[1, lane] - starts[layout.A_LENGTH, lane] + 1):
        slot = lane * slots + number % slots
        sums[slot] = 0.0
        touched[num_touched] = slot
        num_touched += 1
        number += stride
    return num_touched


@nb.njit(nb.void(_i64, _table, _table, _f64, _i64, _f32, nb.float32, nb.float64, nb.float64), **KERNEL)
def follow(header, starts, seen, sums, offsets, errors, default_error, epsilon, alpha):
    """Give new starts the priority of new data, and take it from overwritten ones.

    Parameters
    ----------
    seen : int64 [2, num_lanes]
        First and head steps of each lane when this was last called; brought up to date.
    sums : float64
        The tree, or empty where all priorities are equal.
    """
    num_steps = 0
    for lane in range(header[layout.H_NUM_LANES]):
        num_steps += oldest_of(header, lane) - seen[0, lane] + head_of(header, lane) - seen[1, lane] + 2
    if num_steps == 2 * header[layout.H_NUM_LANES]:
        return
    touched = np.empty(num_steps, np.int64)
    num_touched = np.int64(0)
    slots = header[layout.H_SLOTS]
    has_tree = len(sums) > 0
    default_priority = np.full(1, np.float64(default_error))
    prioritise(default_priority, epsilon, alpha)
    for lane in range(header[layout.H_NUM_LANES]):
        first, head, length = oldest_of(header, lane), head_of(header, lane), starts[layout.A_LENGTH, lane]
        if has_tree:
            num_touched = _drop_overwritten(header, starts, seen, lane, first, sums, touched, num_touched)
        number = first_start(starts, lane, max(first, seen[1, lane] - length + 1))
        while number + length <= head:
            slot = lane * slots + number % slots
            errors[slot] = default_error
            if has_tree:
                sums[slot] = default_priority[0]
                touched[num_touched] = slot
                num_touched += 1
            number += starts[layout.A_STRIDE, lane]
        seen[0, lane], seen[1, lane] = first, head
    if has_tree:
        refresh(sums, offsets, touched, num_touched)


@nb.njit(**HELPER)
def _finish(header, sums, beta, shares, ids, weights):
    """Turn drawn slots into ids, and their priorities into weights; `shares` [batch] is working space."""
    smallest = np.inf
    for item in range(len(ids)):
        smallest = min(smallest, sums[ids[item]])
    slots = header[layout.H_SLOTS]
    lane, lane_begin, newest, newest_offset = np.int64(-1), np.int64(0), np.int64(0), np.int64(0)
    for item in range(len(ids)):
        slot = ids[item]
        shares[item] = smallest / sums[slot]
        # Drawn slots ascend, so the lane seldom changes and divisions are few.
        if lane < 0 or slot < lane_begin or slot >= lane_begin + slots:
            lane = slot // slots
            lane_begin = lane * slots
            newest = head_of(header, lane) - 1
            newest_offset = newest % slots
        age = newest_offset - (slot - lane_begin)
        ids[item] = (lane << layout.ID_SHIFT) | (newest - (age if age >= 0 else age + slots))
    raise_all(shares, beta)
    for item in range(len(ids)):
        weights[item] = np.float32(shares[item])


@nb.njit(**INLINED)
def _ask_for_row(row):
    """Ask for the beginning of a row that was drawn, so that memory fetches it during the draw."""
    for line in range(row, row + _BYTES_AHEAD, 64):
        prefetch(line)


@nb.njit(**HELPER)
def _spread(sums, first, size, total, uniforms, ids):
    """Give each of the ascending strata a node of one level, which starts at `first`; returns the nodes read."""
    batch, last = len(uniforms), size - 1
    stratum = total / batch
    while sums[first + last] <= 0.0:
        last -= 1
    node, before, end = np.int64(0), 0.0, sums[first]
    for item in range(batch):
        target = (item + uniforms[item]) * stratum
        # The last node with any mass takes what rounding adds.
        while target >= end and node < last:
            node += 1
            before = end
            end += sums[first + node]
        ids[item], uniforms[item] = node, target - before
    return size


@nb.njit(**HELPER)
def _descend(header, sums, offsets, heights, ids, uniforms):
    """Walk down from nodes `ids` of the levels `heights` to leaves; `uniforms` is what is left to go in each [batch].

    The batch goes level by level, so that its cache misses overlap.
    """
    for level in range(heights.max() - 1, -1, -1):
        nodes_at = sums.ctypes.data + 8 * offsets[level]
        for item in range(len(ids)):
            if heights[item] > level:
                child, left = pick_child(nodes_at + (ids[item] << (SHIFT + 3)), uniforms[item])
                ids[item] = (ids[item] << SHIFT) + child
                uniforms[item] = left
                if level > 0:
                    prefetch(sums.ctypes.data + 8 * (offsets[level - 1] + (ids[item] << SHIFT)))
                else:
                    _ask_for_row(header[layout.H_ROWS] + ids[item] * header[layout.H_ROW_BYTES])


@nb.njit(nb.int64(_i64, _f64, _i64, _f64, nb.float64, _i64, _f32), **KERNEL)
def draw(header, sums, offsets, uniforms, beta, ids, weights):
    """Draw one start for each of `batch` equal strata of all priorities; returns the nodes visited.

    Strata ascend, so the lowest level that has no more nodes than the batch rows is read from left
    to right. From there the batch walks down.

    Parameters
    ----------
    uniforms : float64 [batch]
        Numbers in [0, 1); overwritten.
    ids, weights : [batch]
        Out: the starts drawn, and their weights relative to the largest of them.
    """
    batch, top = len(uniforms), len(offsets) - 2
    total = sums[offsets[top]]
    if total <= 0.0:
        return NO_MASS
    widest = top
    while widest > 0 and offsets[widest] - offsets[widest - 1] <= batch:
        widest -= 1
    visited = _spread(sums, offsets[widest], offsets[widest + 1] - offsets[widest], total, uniforms, ids)
    _descend(header, sums, offsets, np.full(batch, widest), ids, uniforms)
    _finish(header, sums, beta, uniforms, ids, weights)
    return visited + batch * widest


@nb.njit(**HELPER)
def _recent_ranges(header, starts, floors, ranges):
    """Ranges of slots `[2 * num_lanes, 2]` that hold the starts of each lane from its floor on."""
    slots = header[layout.H_SLOTS]
    for lane in range(header[layout.H_NUM_LANES]):
        begin, count = starts_of(header, starts, floors, lane)
        offset = lane * slots
        ranges[2 * lane : 2 * lane + 2, :] = offset
        if count > 0:
            begin_slot, end_slot = begin % slots, (head_of(header, lane) - 1) % slots + 1
            if begin_slot < end_slot:
                ranges[2 * lane, 0], ranges[2 * lane, 1] = offset + begin_slot, offset + end_slot
            else:
                ranges[2 * lane, 1] = offset + end_slot
                ranges[2 * lane + 1, 0], ranges[2 * lane + 1, 1] = offset + begin_slot, offset + slots


@nb.njit(**HELPER)
def _cover_recent(header, starts, floors, sums, offsets, cover, ends):
    """Nodes that cover the starts of each lane from its floor on: how many there are, and the sum of all of them."""
    num_ranges = 2 * header[layout.H_NUM_LANES]
    ranges = np.empty((num_ranges, 2), np.int64)
    _recent_ranges(header, starts, floors, ranges)
    count, total = np.int64(0), 0.0
    for index in range(num_ranges):
        begin, end = ranges[index, 0], ranges[index, 1]
        count, total = decompose(sums, offsets, begin, end, cover[0], cover[1], ends, count, total)
    return count, total


@nb.njit(nb.float64(_i64, _table, _i64, _f64, _i64, _table, _f64), **KERNEL)
def mass(header, starts, floors, sums, offsets, cover, ends):
    """Sum of the priorities of the starts that `draw_recent` draws from."""
    return _cover_recent(header, starts, floors, sums, offsets, cover, ends)[1]


@nb.njit(nb.int64(_i64, _table, _i64, _f64, _i64, _table, _f64, _f64, nb.float64, _i64, _f32), **KERNEL)
def draw_recent(header, starts, floors, sums, offsets, cover, ends, uniforms, beta, ids, weights):
    """As `draw`, but only from the starts of each lane that are not older than its floor.

    `cover` [2, entries] and `ends` [entries] are working space for the nodes that cover these starts.
    """
    batch = len(ids)
    levels, nodes = cover[0], cover[1]
    count, total = _cover_recent(header, starts, floors, sums, offsets, cover, ends)
    if total <= 0.0:
        return NO_MASS
    heights = np.empty(batch, np.int64)
    visited = count
    current = np.int64(0)
    stratum = total / batch
    for item in range(batch):
        target = (item + uniforms[item]) * stratum
        # Strata ascend, so the list is walked once. The last node with any mass takes what rounding adds.
        while target >= ends[current] and ends[current] < total:
            current += 1
        value = sums[offsets[levels[current]] + nodes[current]]
        uniforms[item] = target - (ends[current] - value)
        ids[item], heights[item] = nodes[current], levels[current]
        visited += levels[current]
    _descend(header, sums, offsets, heights, ids, uniforms)
    _finish(header, sums, beta, uniforms, ids, weights)
    return visited


@nb.njit(**INLINED)
def _ask_for(sums, offsets, errors, slot):
    """Ask for the cache lines that an update of `slot` will write, so that the misses overlap."""
    prefetch(errors.ctypes.data + 4 * slot)
    if len(sums) > 0:
        prefetch(sums.ctypes.data + 8 * slot)
        prefetch(sums.ctypes.data + 8 * (offsets[1] + (slot >> SHIFT)))


@nb.njit(**HELPER)
def _read_errors(errors_at, new_errors):
    """Copy errors float32 [rows]; returns whether all are finite and none is negative."""
    for item in range(len(new_errors)):
        new_errors[item] = load_f32(errors_at + 4 * item)
        if not (math.isfinite(new_errors[item]) and new_errors[item] >= 0.0):
            return False
    return True


@nb.njit(nb.int64(_i64, _table, nb.int64, nb.int64, nb.int64, _f64, _i64, _f32, _f32, nb.float64, nb.float64), **KERNEL)
def update(header, starts, ids_at, errors_at, num_rows, sums, offsets, errors, largest, epsilon, alpha):
    """Record the errors of starts, and the `largest` [1] ever recorded; of duplicates the largest wins.

    Returns the number of starts that are no longer stored, or `BAD_ERROR` and changes nothing.

    Parameters
    ----------
    ids_at, errors_at : int
        Addresses of the ids int64 [num_rows] and of their errors float32 [num_rows].
    """
    new_errors = np.empty(num_rows, np.float32)
    if not _read_errors(errors_at, new_errors):
        return BAD_ERROR
    slots = np.empty(num_rows, np.int64)
    count = np.int64(0)
    # Not a function of its own: arrays that a loop hands to one that branches cost two atomic operations each.
    for item in range(num_rows):
        start = load_i64(ids_at + 8 * item)
        lane, number = start >> layout.ID_SHIFT, start & layout.ID_MASK
        if start < 0 or lane >= header[layout.H_NUM_LANES] or number < oldest_of(header, lane):
            continue
        if number + starts[layout.A_LENGTH, lane] > head_of(header, lane):
            continue
        if (
            starts[layout.A_STRIDE, lane] == 1
            or (number - starts[layout.A_BASE, lane]) % starts[layout.A_STRIDE, lane] == 0
        ):
            slot = lane * header[layout.H_SLOTS] + number % header[layout.H_SLOTS]
            _ask_for(sums, offsets, errors, slot)
            slots[count], new_errors[count] = slot, new_errors[item]
            count += 1
    for item in range(count):
        errors[slots[item]] = -1.0
    for item in range(count):
        errors[slots[item]] = max(errors[slots[item]], new_errors[item])
        largest[0] = max(largest[0], new_errors[item])
    if len(sums) > 0:
        priorities = np.empty(count)
        for item in range(count):
            priorities[item] = errors[slots[item]]
        prioritise(priorities, epsilon, alpha)
        for item in range(count):
            sums[slots[item]] = priorities[item]
        refresh(sums, offsets, slots, count)
    return num_rows - count
