"""Kernel that moves a lane to a ring of another size."""

import numba as nb
import numpy as np

from recollect.agent.storages.experience.kernels.pointers import copy_bytes, load_i32, load_i64, store_i32, store_i64
from recollect.agent.storages.experience.kernels.ring_layout import (
    H_CAPACITY,
    H_DEPTH,
    H_FIRST,
    H_HEAD,
    H_LOW,
    H_ROW_BYTES,
    H_TAIL_FREE,
    H_TAILS,
    H_WHOLE_FREE,
    H_WHOLES,
    HELPER,
    KERNEL,
    R_TAIL,
    R_WHOLE,
    T_WHOLE,
    field_at,
    row_at,
    tail_of,
    take_record,
)


@nb.njit(**HELPER)
def _copy_record(old_header, new_header, reference, records_word, free_word):
    """Copy a side-table record from one ring to another; return the reference to the copy."""
    if reference == 0:
        return np.int64(0)
    num_bytes = old_header[records_word + 1]
    record = take_record(new_header, free_word)
    source = old_header[records_word] + (reference - 1) * num_bytes
    copy_bytes(new_header[records_word] + record * num_bytes, source, num_bytes)
    return record + 1


@nb.njit(**HELPER)
def _copy_step(old_header, new_header, blocks, lane, number):
    row_bytes = old_header[H_ROW_BYTES]
    old_row, new_row = row_at(old_header, lane, number), row_at(new_header, lane, number)
    copy_bytes(new_row, old_row, row_bytes)
    for block in range(blocks.shape[0]):
        num_bytes = blocks[block, 2]
        old_block = field_at(old_header, old_row, -1, blocks[block, 0], num_bytes)
        copy_bytes(field_at(new_header, new_row, -1, blocks[block, 1], num_bytes), old_block, num_bytes)
    reference = _copy_record(old_header, new_header, np.int64(load_i32(old_row + R_TAIL)), H_TAILS, H_TAIL_FREE)
    store_i32(new_row + R_TAIL, np.int32(reference))
    if old_header[H_DEPTH] > 1:
        whole = _copy_record(old_header, new_header, np.int64(load_i32(old_row + R_WHOLE)), H_WHOLES, H_WHOLE_FREE)
        store_i32(new_row + R_WHOLE, np.int32(whole))
        if reference != 0:
            tail = tail_of(new_header, new_row)
            whole = _copy_record(old_header, new_header, np.int64(load_i32(tail + T_WHOLE)), H_WHOLES, H_WHOLE_FREE)
            store_i32(tail + T_WHOLE, np.int32(whole))


@nb.njit(nb.void(nb.int64[::1], nb.int64[::1], nb.int64[:, ::1], nb.int64), **KERNEL)
def transfer(old_header, new_header, blocks, lane):
    """Copy the newest steps of a lane, as many as fit, into a ring of another size.

    Parameters
    ----------
    blocks : int64 [num_blocks, 3]
        Address in the old ring, address in the new one and bytes of a slot, for each block column.
    """
    head = load_i64(old_header[H_HEAD] + 8 * lane)
    first = max(load_i64(old_header[H_FIRST] + 8 * lane), head - new_header[H_CAPACITY])
    low = min(head, max(load_i64(old_header[H_LOW] + 8 * lane), first - (new_header[H_DEPTH] - 1)))
    for number in range(low, head):
        _copy_step(old_header, new_header, blocks, lane, number)
    if low < head and load_i32(row_at(old_header, lane, head - 1) + R_TAIL) == 0:
        row = row_at(old_header, lane, head)
        store_i32(row + R_TAIL, np.int32(0))
        _copy_step(old_header, new_header, blocks, lane, head)
    store_i64(new_header[H_HEAD] + 8 * lane, head)
    store_i64(new_header[H_FIRST] + 8 * lane, first)
    store_i64(new_header[H_LOW] + 8 * lane, low)
