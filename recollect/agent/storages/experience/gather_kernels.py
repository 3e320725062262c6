"""Kernels that read a lane ring: find the windows of a batch, gather its columns."""

import numba as nb
import numpy as np

from recollect.agent.storages.experience.pointers import (
    copy_bytes,
    load_f32,
    load_f64,
    load_i32,
    load_i64,
    load_u8,
    prefetch,
    store_f32,
)
from recollect.agent.storages.experience.ring_layout import (
    D_F32,
    H_HEAD,
    H_ROW_BYTES,
    H_ROWS,
    H_SLOTS,
    H_WHOLE_BYTES,
    H_WHOLES,
    ID_MASK,
    ID_SHIFT,
    K_BOTH_STACKS,
    K_DISCOUNT,
    K_FIRST,
    K_FLAG_FIRST,
    K_FLAG_LAST,
    K_NEXT,
    K_NEXT_STACK,
    K_NUM_STEPS,
    K_REWARD,
    KERNEL,
    O_BLOCK,
    O_BYTES,
    O_CODE,
    O_DEPTH,
    O_KIND,
    O_ROW,
    O_TAIL,
    O_WHOLE,
    P_FIRST,
    P_LAST,
    P_NEXT,
    P_TAIL,
    P_USED,
    R_AGE,
    R_TAIL,
    R_TERMINATED,
    R_WHOLE,
    T_WHOLE,
    field_at,
    frame_at,
    row_at,
    store_number,
    tail_of,
)


@nb.njit(nb.void(nb.int64[::1], nb.int64[::1], nb.int64[::1], nb.int64[:, ::1]), **KERNEL)
def locate(header, ids, limits, places):
    """Find the window of each step in `ids`: where it starts, ends and leads to.

    Parameters
    ----------
    limits : int64 [batch] or [1]
        Most steps that a window may hold, for each row or for all.
    places : int64 [P_NUM_WORDS, batch]
        Out: the addresses of the rows of the first, last and next step, that of the tail record
        (0 if the stream goes on), and the steps used.
    """
    row_bytes = header[H_ROW_BYTES]
    lane_bytes = header[H_SLOTS] * row_bytes
    ahead = min((limits[0] + 1) * row_bytes, 640)
    for item in range(len(ids)):
        row = row_at(header, ids[item] >> ID_SHIFT, ids[item] & ID_MASK)
        places[P_FIRST, item] = row
        # The window's rows are read a moment later: ask for them now, so that the cache misses overlap.
        for line in range(row - row % 64, row + ahead, 64):
            prefetch(line)
    for item in range(len(ids)):
        lane, number = ids[item] >> ID_SHIFT, ids[item] & ID_MASK
        lane_end = header[H_ROWS] + (lane + 1) * lane_bytes
        newest = load_i64(header[H_HEAD] + 8 * lane) - 1
        most = min(limits[item if len(limits) > 1 else 0], newest - number + 1)
        row = places[P_FIRST, item]
        used = np.int64(1)
        while used < most and load_i32(row + R_TAIL) == 0:
            row += row_bytes
            if row == lane_end:
                row -= lane_bytes
            used += 1
        places[P_LAST, item] = row
        places[P_TAIL, item] = tail_of(header, row)
        row += row_bytes
        places[P_NEXT, item] = row - lane_bytes if row == lane_end else row
        places[P_USED, item] = used


@nb.njit(**KERNEL)
def _fold(header, row, lane, used, row_offset, code, gamma):
    row_bytes = header[H_ROW_BYTES]
    lane_bytes = header[H_SLOTS] * row_bytes
    lane_end = header[H_ROWS] + (lane + 1) * lane_bytes
    total = 0.0
    weight = 1.0
    for _ in range(used):
        address = row + row_offset
        total += weight * (np.float64(load_f32(address)) if code == D_F32 else load_f64(address))
        weight *= gamma
        row += row_bytes
        if row == lane_end:
            row -= lane_bytes
    return total


@nb.njit(**KERNEL)
def _frames_in_a_row(header, lane, number, num_before, num_after, block, frame_bytes):
    """Address of the frames around step `number` if they lie in slots side by side, else 0."""
    slots = header[H_SLOTS]
    position = number % slots
    age = np.int64(load_u8(row_at(header, lane, number) + R_AGE))
    if age < num_before or position < num_before or position + num_after >= slots:
        return np.int64(0)
    return block + (lane * slots + position - num_before) * frame_bytes


@nb.njit(**KERNEL)
def _copy_stack(header, lane, number, column, target, frame_bytes, num_frames):
    """Rebuild the newest `num_frames` frames of the stack of step `number`."""
    block = column[O_BLOCK]
    source = _frames_in_a_row(header, lane, number, num_frames - 1, 0, block, frame_bytes)
    if source != 0:
        copy_bytes(target, source, num_frames * frame_bytes)
        return
    for position in range(num_frames):
        back = num_frames - 1 - position
        source = frame_at(header, lane, number, back, block, frame_bytes, column[O_DEPTH], column[O_WHOLE])
        copy_bytes(target + position * frame_bytes, source, frame_bytes)


@nb.njit(**KERNEL)
def _copy_next_stack(header, lane, last, tail, column, target):
    """Rebuild the stack that step `last` led to."""
    depth = column[O_DEPTH]
    frame_bytes = column[O_BYTES] // depth
    if tail == 0:
        _copy_stack(header, lane, last + 1, column, target, frame_bytes, depth)
        return
    whole = np.int64(load_i32(tail + T_WHOLE))
    if whole > 0:
        record = header[H_WHOLES] + (whole - 1) * header[H_WHOLE_BYTES] + column[O_WHOLE]
        copy_bytes(target, record, column[O_BYTES])
        return
    _copy_stack(header, lane, last, column, target, frame_bytes, depth - 1)
    copy_bytes(target + (depth - 1) * frame_bytes, tail + column[O_TAIL], frame_bytes)


@nb.njit(**KERNEL)
def _gather_first(header, column, target, places):
    num_bytes, row_offset = column[O_BYTES], column[O_ROW]
    for item in range(places.shape[1]):
        source = field_at(header, places[P_FIRST, item], row_offset, column[O_BLOCK], num_bytes)
        copy_bytes(target + item * num_bytes, source, num_bytes)


@nb.njit(**KERNEL)
def _gather_next(header, column, target, places):
    num_bytes, row_offset = column[O_BYTES], column[O_ROW]
    for item in range(places.shape[1]):
        if places[P_TAIL, item] != 0:
            source = places[P_TAIL, item] + column[O_TAIL]
        else:
            source = field_at(header, places[P_NEXT, item], row_offset, column[O_BLOCK], num_bytes)
        copy_bytes(target + item * num_bytes, source, num_bytes)


@nb.njit(**KERNEL)
def _gather_stacks(header, column, target, ids, places):
    """Fill one output column of frame stacks, for both ends at once `depth + 1` frames a row."""
    kind, num_bytes, depth = column[O_KIND], column[O_BYTES], column[O_DEPTH]
    frame_bytes = num_bytes // depth
    for item in range(len(ids)):
        lane, number = ids[item] >> ID_SHIFT, ids[item] & ID_MASK
        tail = places[P_TAIL, item]
        if kind == K_NEXT_STACK:
            last = number + places[P_USED, item] - 1
            _copy_next_stack(header, lane, last, tail, column, target + item * num_bytes)
            continue
        to = target + item * (num_bytes + (frame_bytes if kind == K_BOTH_STACKS else 0))
        if kind == K_BOTH_STACKS and tail == 0:
            source = _frames_in_a_row(header, lane, number, depth - 1, 1, column[O_BLOCK], frame_bytes)
            if source != 0:
                copy_bytes(to, source, num_bytes + frame_bytes)
                continue
        _copy_stack(header, lane, number, column, to, frame_bytes, depth)
        if kind == K_BOTH_STACKS:
            pending = field_at(header, places[P_NEXT, item], -1, column[O_BLOCK], frame_bytes)
            copy_bytes(to + num_bytes, pending if tail == 0 else tail + column[O_TAIL], frame_bytes)


@nb.njit(**KERNEL)
def _gather_flags(column, target, places):
    where = P_FIRST if column[O_KIND] == K_FLAG_FIRST else P_LAST
    for item in range(places.shape[1]):
        store_number(target, item, column[O_CODE], np.float64(load_u8(places[where, item] + column[O_ROW])))


@nb.njit(**KERNEL)
def _gather_rewards(header, column, target, ids, places, gamma):
    code = column[O_CODE]
    for item in range(len(ids)):
        lane = ids[item] >> ID_SHIFT
        used = places[P_USED, item]
        total = _fold(header, places[P_FIRST, item], lane, used, column[O_ROW], code, gamma)
        store_number(target, item, code, total)


@nb.njit(**KERNEL)
def _gather_discounts(target, places, gamma):
    # Windows of one batch have few lengths: remember the power of the last one.
    length, power = np.int64(0), 1.0
    for item in range(places.shape[1]):
        if places[P_USED, item] != length:
            length = places[P_USED, item]
            power = gamma**length
        alive = load_u8(places[P_LAST, item] + R_TERMINATED) == 0
        store_f32(target + 4 * item, np.float32(power if alive else 0.0))


@nb.njit(
    nb.void(nb.int64[::1], nb.int64[:, ::1], nb.int64[::1], nb.int64[::1], nb.int64[:, ::1], nb.float64),
    **KERNEL,
)
def gather(header, columns, targets, ids, places, gamma):
    """Fill the output columns of a batch whose windows start at `ids`.

    Parameters
    ----------
    columns : int64 [outputs, O_NUM_WORDS]
        What to gather.
    targets : int64 [outputs]
        Addresses of the contiguous outputs `[batch, ...]`.
    places : int64 [P_NUM_WORDS, batch]
        The windows, as `locate` found them.
    """
    for index in range(columns.shape[0]):
        column, target = columns[index], targets[index]
        kind = column[O_KIND]
        if kind == K_FIRST:
            _gather_first(header, column, target, places)
        elif kind == K_NEXT:
            _gather_next(header, column, target, places)
        elif kind <= K_BOTH_STACKS:
            _gather_stacks(header, column, target, ids, places)
        elif kind <= K_FLAG_LAST:
            _gather_flags(column, target, places)
        elif kind == K_REWARD:
            _gather_rewards(header, column, target, ids, places, gamma)
        elif kind == K_DISCOUNT:
            _gather_discounts(target, places, gamma)
        elif kind == K_NUM_STEPS:
            copy_bytes(target, places[P_USED].ctypes.data, 8 * len(ids))
        else:
            copy_bytes(target, ids.ctypes.data, 8 * len(ids))


@nb.njit(nb.boolean(nb.int64[::1], nb.int64[:, ::1]), **KERNEL)
def stacks_shift(header, places):
    """Whether every window is one step whose next stack is its own shifted, so that both fit in one block."""
    for item in range(places.shape[1]):
        if places[P_USED, item] > 1:
            return False
        tail = places[P_TAIL, item]
        whole = load_i32(tail + T_WHOLE) if tail != 0 else load_i32(places[P_NEXT, item] + R_WHOLE)
        if whole != 0:
            return False
    return True
