"""Kernels that free what a lane ring no longer hands out: evicted steps and their side-table records."""

import numba as nb
import numpy as np

from recollect.agent.storages.experience.kernels.pointers import load_i32, load_i64, store_i32, store_i64
from recollect.agent.storages.experience.kernels.ring_layout import (
    H_DEPTH,
    H_FIRST,
    H_HEAD,
    H_LOW,
    H_TAIL_FREE,
    H_WHOLE_FREE,
    HELPER,
    KERNEL,
    R_TAIL,
    R_WHOLE,
    T_WHOLE,
    row_at,
    tail_of,
)


@nb.njit(**HELPER)
def _give_back(header, free_word, record):
    store_i32(header[free_word] + 4 * header[free_word + 1], np.int32(record))
    header[free_word + 1] += 1


@nb.njit(**HELPER)
def release(header, row):
    """Give the side-table records of the step at `row` back."""
    reference = np.int64(load_i32(row + R_TAIL))
    stacked = header[H_DEPTH] > 1
    if reference > 0:
        if stacked:
            whole = np.int64(load_i32(tail_of(header, row) + T_WHOLE))
            if whole > 0:
                _give_back(header, H_WHOLE_FREE, whole - 1)
        _give_back(header, H_TAIL_FREE, reference - 1)
        store_i32(row + R_TAIL, np.int32(0))
    if stacked:
        whole = np.int64(load_i32(row + R_WHOLE))
        if whole > 0:
            _give_back(header, H_WHOLE_FREE, whole - 1)
            store_i32(row + R_WHOLE, np.int32(0))


@nb.njit(**HELPER)
def evict_until(header, lane, number):
    """Forget the steps of `lane` before `number`."""
    low_address = header[H_LOW] + 8 * lane
    for old in range(load_i64(low_address), number):
        release(header, row_at(header, lane, old))
    if number > load_i64(low_address):
        store_i64(low_address, number)


@nb.njit(nb.void(nb.int64[::1], nb.int64, nb.int64), **KERNEL)
def forget(header, lane, number):
    """Hand out no step of `lane` before `number` any more; drop the pending one with the newest."""
    head = load_i64(header[H_HEAD] + 8 * lane)
    guard = header[H_DEPTH] - 1  # what remains may stack frames of the steps before it
    if number >= head:
        guard = 0
        low = load_i64(header[H_LOW] + 8 * lane)
        if low < head and load_i32(row_at(header, lane, head - 1) + R_TAIL) == 0:
            release(header, row_at(header, lane, head))
    evict_until(header, lane, number - guard)
    first_address = header[H_FIRST] + 8 * lane
    store_i64(first_address, max(load_i64(first_address), number))
