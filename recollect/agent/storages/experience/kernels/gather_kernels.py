"""Kernels that read a lane ring: find the windows of a batch and gather its columns.

A batch is worked off in blocks of rows. While one block is gathered, memory brings the rows of the
next ones, so that a draw from a large store costs the copies or the cache misses, not both.
"""

import numba as nb
import numpy as np

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.kernels.pointers import (
    copy_bytes,
    copy_field,
    finish_streams,
    load_i32,
    load_u8,
    prefetch,
    store_f32,
)
from recollect.agent.storages.experience.kernels.ring_layout import (
    HELPER,
    INLINED,
    KERNEL,
    field_at,
    head_of,
    load_number,
    row_after,
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
_MAX_BYTES_AHEAD = 640

_i64 = nb.int64[::1]


@nb.njit(**INLINED)
def _ask_for(header, ids, places, begin, end, num_bytes):
    """Find the first rows of windows, and ask memory for them."""
    for item in range(begin, end):
        row = row_at(header, ids[item] >> layout.ID_SHIFT, ids[item] & layout.ID_MASK)
        places[layout.P_FIRST, item] = row
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
    for item in range(begin, end):
        lane, number = ids[item] >> layout.ID_SHIFT, ids[item] & layout.ID_MASK
        most = min(limits[item if len(limits) > 1 else 0], head_of(header, lane) - number)
        row = places[layout.P_FIRST, item]
        used = np.int64(1)
        while used < most and load_i32(row + layout.R_TAIL) == 0:
            row = row_after(header, row, lane)
            used += 1
        places[layout.P_LAST, item] = row
        places[layout.P_TAIL, item] = tail_of(header, row)
        places[layout.P_NEXT, item] = row_after(header, row, lane)
        places[layout.P_USED, item] = used


@nb.njit(**HELPER)
def _fold(header, row, lane, used, row_offset, code, gamma):
    total = 0.0
    weight = 1.0
    for _ in range(used):
        total += weight * load_number(row + row_offset, 0, code)
        weight *= gamma
        row = row_after(header, row, lane)
    return total


@nb.njit(**INLINED)
def _gather_first(header, columns, index, target, places, begin, end):
    row_offset, block = columns[index, layout.O_ROW], columns[index, layout.O_BLOCK]
    num_bytes = columns[index, layout.O_BYTES]
    for item in range(begin, end):
        source = field_at(header, places[layout.P_FIRST, item], row_offset, block, num_bytes)
        copy_field(target + item * num_bytes, source, num_bytes)


@nb.njit(**INLINED)
def _gather_next(header, columns, index, target, places, begin, end):
    row_offset, block = columns[index, layout.O_ROW], columns[index, layout.O_BLOCK]
    num_bytes = columns[index, layout.O_BYTES]
    for item in range(begin, end):
        if places[layout.P_TAIL, item] != 0:
            source = places[layout.P_TAIL, item] + columns[index, layout.O_TAIL]
        else:
            source = field_at(header, places[layout.P_NEXT, item], row_offset, block, num_bytes)
        copy_field(target + item * num_bytes, source, num_bytes)


@nb.njit(**INLINED)
def _gather_flags(columns, index, target, places, begin, end):
    where = layout.P_FIRST if columns[index, layout.O_KIND] == layout.K_FLAG_FIRST else layout.P_LAST
    row_offset, code = columns[index, layout.O_ROW], columns[index, layout.O_CODE]
    for item in range(begin, end):
        store_number(target, item, code, np.float64(load_u8(places[where, item] + row_offset)))


@nb.njit(**INLINED)
def _gather_rewards(header, columns, index, target, ids, places, gamma, begin, end):
    row_offset, code = columns[index, layout.O_ROW], columns[index, layout.O_CODE]
    for item in range(begin, end):
        used, row = places[layout.P_USED, item], places[layout.P_FIRST, item]
        if used == 1:
            total = load_number(row + row_offset, 0, code)
        else:
            total = _fold(header, row, ids[item] >> layout.ID_SHIFT, used, row_offset, code, gamma)
        store_number(target, item, code, total)


@nb.njit(**INLINED)
def _gather_discounts(target, places, gamma, begin, end):
    # Windows of one batch have few lengths: remember the power of the last one.
    length, power = np.int64(0), 1.0
    for item in range(begin, end):
        if places[layout.P_USED, item] != length:
            length = places[layout.P_USED, item]
            power = gamma**length
        alive = load_u8(places[layout.P_LAST, item] + layout.R_TERMINATED) == 0
        store_f32(target + 4 * item, np.float32(power if alive else 0.0))


@nb.njit(**INLINED)
def _gather_block(header, columns, targets, ids, places, gamma, begin, end):
    """Fill the rows from `begin` to `end` of all columns that are read from the ring."""
    for index in range(columns.shape[0]):
        kind, target = columns[index, layout.O_KIND], targets[index]
        if kind == layout.K_FIRST:
            _gather_first(header, columns, index, target, places, begin, end)
        elif kind == layout.K_NEXT:
            _gather_next(header, columns, index, target, places, begin, end)
        elif kind <= layout.K_BOTH_STACKS:
            gather_stacks(header, columns[index], target, ids, places, begin, end)
        elif kind <= layout.K_FLAG_LAST:
            _gather_flags(columns, index, target, places, begin, end)
        elif kind == layout.K_REWARD:
            _gather_rewards(header, columns, index, target, ids, places, gamma, begin, end)
        elif kind == layout.K_DISCOUNT:
            _gather_discounts(target, places, gamma, begin, end)


@nb.njit(**HELPER)
def _copy_lengths(columns, targets, places):
    """Fill the column of the windows' lengths."""
    for index in range(columns.shape[0]):
        if columns[index, layout.O_KIND] == layout.K_NUM_STEPS:
            copy_bytes(targets[index], places[layout.P_USED].ctypes.data, 8 * places.shape[1])


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
    places = np.empty((layout.P_NUM_WORDS, batch), np.int64)
    num_bytes = min((limits[0] + 1) * ring[layout.H_ROW_BYTES], _MAX_BYTES_AHEAD)
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
    places = np.empty((layout.P_NUM_WORDS, batch), np.int64)
    _ask_for(ring, ids, places, 0, batch, 2 * ring[layout.H_ROW_BYTES])
    _locate(ring, ids, limits, places, 0, batch)
    for item in range(batch):
        if places[layout.P_USED, item] > 1:
            return False
        tail = places[layout.P_TAIL, item]
        whole = load_i32(tail + layout.T_WHOLE) if tail != 0 else load_i32(places[layout.P_NEXT, item] + layout.R_WHOLE)
        if whole != 0:
            return False
    return True
