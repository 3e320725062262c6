"""Kernels that read a lane ring: find the windows of a batch and gather its columns.

A batch is worked off in blocks of rows. While one block is gathered, memory brings the rows of the
next ones, so that a draw from a large store costs the copies or the cache misses, not both.
"""

import numba as nb
import numpy as np

from recollect.agent.storages.experience.kernels.pointers import (
    copy_bytes,
    copy_field,
    finish_streams,
    load_i32,
    load_i64,
    load_u8,
    prefetch,
    store_f32,
)
from recollect.agent.storages.experience.kernels.ring_layout import (
    H_HEAD,
    H_ROW_BYTES,
    H_ROWS,
    H_SLOTS,
    HELPER,
    ID_MASK,
    ID_SHIFT,
    INLINED,
    K_BOTH_STACKS,
    K_DISCOUNT,
    K_FIRST,
    K_FLAG_FIRST,
    K_FLAG_LAST,
    K_NEXT,
    K_NUM_STEPS,
    K_REWARD,
    KERNEL,
    O_BLOCK,
    O_BYTES,
    O_CODE,
    O_KIND,
    O_ROW,
    O_TAIL,
    P_FIRST,
    P_LAST,
    P_NEXT,
    P_NUM_WORDS,
    P_TAIL,
    P_USED,
    R_TAIL,
    R_TERMINATED,
    R_WHOLE,
    T_WHOLE,
    field_at,
    load_number,
    row_at,
    store_number,
    tail_of,
    words_of,
)
from recollect.agent.storages.experience.kernels.stack_kernels import gather_stacks

# Rows of a block, and of those that memory is asked for before they are read. A core has some two dozen reads under
# way at most: more rows at once only wait for each other (256 rows of 1M steps take 13 µs, 16 in blocks of 32).
_BLOCK = 4
_AHEAD = 12
# Bytes of a window that are asked for; the processor follows longer ones by itself.
_MOST_BYTES_AHEAD = 640

_i64 = nb.int64[::1]


@nb.njit(**INLINED)
def _ask_for(header, ids, places, begin, end, num_bytes):
    """Find the first rows of windows, and ask memory for them."""
    for item in range(begin, end):
        row = row_at(header, ids[item] >> ID_SHIFT, ids[item] & ID_MASK)
        places[P_FIRST, item] = row
        for line in range(row - row % 64, row + num_bytes, 64):
            prefetch(line)


@nb.njit(**INLINED)
def _locate(header, ids, limits, places, begin, end):
    """Find where windows end and lead to, given their first rows.

    Parameters
    ----------
    limits : int64 [batch] or [1]
        Most steps that a window may hold, for each row or for all.
    places : int64 [P_NUM_WORDS, batch]
        Out: the addresses of the rows of the last and next step, that of the tail record (0 if the
        stream continues), and the steps used.
    """
    row_bytes = header[H_ROW_BYTES]
    lane_bytes = header[H_SLOTS] * row_bytes
    for item in range(begin, end):
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


@nb.njit(**HELPER)
def _fold(header, row, lane, used, row_offset, code, gamma):
    row_bytes = header[H_ROW_BYTES]
    lane_bytes = header[H_SLOTS] * row_bytes
    lane_end = header[H_ROWS] + (lane + 1) * lane_bytes
    total = 0.0
    weight = 1.0
    for _ in range(used):
        total += weight * load_number(row + row_offset, 0, code)
        weight *= gamma
        row += row_bytes
        if row == lane_end:
            row -= lane_bytes
    return total


@nb.njit(**INLINED)
def _gather_first(header, columns, index, target, places, begin, end):
    num_bytes, row_offset, block = columns[index, O_BYTES], columns[index, O_ROW], columns[index, O_BLOCK]
    for item in range(begin, end):
        source = field_at(header, places[P_FIRST, item], row_offset, block, num_bytes)
        copy_field(target + item * num_bytes, source, num_bytes)


@nb.njit(**INLINED)
def _gather_next(header, columns, index, target, places, begin, end):
    num_bytes, row_offset, block = columns[index, O_BYTES], columns[index, O_ROW], columns[index, O_BLOCK]
    for item in range(begin, end):
        if places[P_TAIL, item] != 0:
            source = places[P_TAIL, item] + columns[index, O_TAIL]
        else:
            source = field_at(header, places[P_NEXT, item], row_offset, block, num_bytes)
        copy_field(target + item * num_bytes, source, num_bytes)


@nb.njit(**INLINED)
def _gather_flags(columns, index, target, places, begin, end):
    where = P_FIRST if columns[index, O_KIND] == K_FLAG_FIRST else P_LAST
    row_offset, code = columns[index, O_ROW], columns[index, O_CODE]
    for item in range(begin, end):
        store_number(target, item, code, np.float64(load_u8(places[where, item] + row_offset)))


@nb.njit(**INLINED)
def _gather_rewards(header, columns, index, target, ids, places, gamma, begin, end):
    row_offset, code = columns[index, O_ROW], columns[index, O_CODE]
    for item in range(begin, end):
        used, row = places[P_USED, item], places[P_FIRST, item]
        if used == 1:
            total = load_number(row + row_offset, 0, code)
        else:
            total = _fold(header, row, ids[item] >> ID_SHIFT, used, row_offset, code, gamma)
        store_number(target, item, code, total)


@nb.njit(**INLINED)
def _gather_discounts(target, places, gamma, begin, end):
    # Windows of one batch have few lengths: remember the power of the last one.
    length, power = np.int64(0), 1.0
    for item in range(begin, end):
        if places[P_USED, item] != length:
            length = places[P_USED, item]
            power = gamma**length
        alive = load_u8(places[P_LAST, item] + R_TERMINATED) == 0
        store_f32(target + 4 * item, np.float32(power if alive else 0.0))


@nb.njit(**INLINED)
def _gather_block(header, columns, targets, ids, places, gamma, begin, end):
    """Fill the rows from `begin` to `end` of all columns that are read from the ring."""
    for index in range(columns.shape[0]):
        kind, target = columns[index, O_KIND], targets[index]
        if kind == K_FIRST:
            _gather_first(header, columns, index, target, places, begin, end)
        elif kind == K_NEXT:
            _gather_next(header, columns, index, target, places, begin, end)
        elif kind <= K_BOTH_STACKS:
            gather_stacks(header, columns[index], target, ids, places, begin, end)
        elif kind <= K_FLAG_LAST:
            _gather_flags(columns, index, target, places, begin, end)
        elif kind == K_REWARD:
            _gather_rewards(header, columns, index, target, ids, places, gamma, begin, end)
        elif kind == K_DISCOUNT:
            _gather_discounts(target, places, gamma, begin, end)


@nb.njit(**HELPER)
def _copy_lengths(columns, targets, places):
    """Fill the column of the windows' lengths."""
    for index in range(columns.shape[0]):
        if columns[index, O_KIND] == K_NUM_STEPS:
            copy_bytes(targets[index], places[P_USED].ctypes.data, 8 * places.shape[1])


@nb.njit(nb.void(_i64, nb.int64[:, ::1], _i64, _i64, _i64, nb.float64), **KERNEL)
def gather(header, columns, targets, ids, limits, gamma):
    """Fill the output columns of a batch whose windows start at `ids`.

    Parameters
    ----------
    columns : int64 [outputs, O_NUM_WORDS]
        What to gather.
    targets : int64 [outputs]
        Addresses of the contiguous outputs `[batch, ...]`.
    limits : int64 [batch] or [1]
        Most steps that a window may hold, for each row or for all.
    """
    ring, batch = words_of(header), len(ids)
    places = np.empty((P_NUM_WORDS, batch), np.int64)
    num_bytes = min((limits[0] + 1) * ring[H_ROW_BYTES], _MOST_BYTES_AHEAD)
    _ask_for(ring, ids, places, 0, min(_AHEAD, batch), num_bytes)
    for begin in range(0, batch, _BLOCK):
        end = min(begin + _BLOCK, batch)
        _ask_for(ring, ids, places, min(begin + _AHEAD, batch), min(end + _AHEAD, batch), num_bytes)
        _locate(ring, ids, limits, places, begin, end)
        _gather_block(ring, columns, targets, ids, places, gamma, begin, end)
    finish_streams()
    _copy_lengths(columns, targets, places)


@nb.njit(nb.boolean(_i64, _i64, _i64), **KERNEL)
def stacks_shift(header, ids, limits):
    """Whether every window is one step whose next stack is its own shifted, so that both fit in one block."""
    ring, batch = words_of(header), len(ids)
    places = np.empty((P_NUM_WORDS, batch), np.int64)
    _ask_for(ring, ids, places, 0, batch, 2 * ring[H_ROW_BYTES])
    _locate(ring, ids, limits, places, 0, batch)
    for item in range(batch):
        if places[P_USED, item] > 1:
            return False
        tail = places[P_TAIL, item]
        whole = load_i32(tail + T_WHOLE) if tail != 0 else load_i32(places[P_NEXT, item] + R_WHOLE)
        if whole != 0:
            return False
    return True
