"""Kernels that free evicted steps of a lane ring and their side-table records."""

import numba as nb
import numpy as np

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.kernels.pointers import load_i32, store_i32, store_i64
from recollect.agent.storages.experience.kernels.ring_layout import (
    HELPER,
    INLINED,
    KERNEL,
    head_of,
    low_of,
    oldest_of,
    row_at,
    tail_of,
)


@nb.njit(**HELPER)
def _give_back(header, free_word, reference_at):
    """Free the side-table record that the number at an address refers to, if any, and the reference with it."""
    reference = load_i32(reference_at)
    if reference > 0:
        store_i32(header[free_word] + 4 * header[free_word + 1], reference - np.int32(1))
        header[free_word + 1] += 1
        store_i32(reference_at, np.int32(0))


@nb.njit(**HELPER)
def release(header, row):
    """Give the side-table records of the step at `row` back."""
    if header[layout.H_DEPTH] > 1:
        if load_i32(row + layout.R_TAIL) > 0:
            _give_back(header, layout.H_WHOLE_FREE, tail_of(header, row) + layout.T_WHOLE)
        _give_back(header, layout.H_WHOLE_FREE, row + layout.R_WHOLE)
    _give_back(header, layout.H_TAIL_FREE, row + layout.R_TAIL)


@nb.njit(**HELPER)
def evict_until(header, lane, number):
    """Forget the steps of `lane` before `number`."""
    for old in range(low_of(header, lane), number):
        release(header, row_at(header, lane, old))
    store_i64(header[layout.H_LOW] + 8 * lane, max(low_of(header, lane), number))


@nb.njit(**INLINED)
def hide_before(header, lane, number):
    """Hand out no step of `lane` before `number` any more."""
    store_i64(header[layout.H_FIRST] + 8 * lane, max(oldest_of(header, lane), number))


@nb.njit(**INLINED)
def advance(header, lane, head):
    """Let `head` be the number of the step of `lane` to come; at most as many as the capacity stay before it."""
    store_i64(header[layout.H_HEAD] + 8 * lane, head)
    hide_before(header, lane, head - header[layout.H_CAPACITY])


@nb.njit(nb.void(nb.int64[::1], nb.int64, nb.int64), **KERNEL)
def forget(header, lane, number):
    """Hand out no step of `lane` before `number` any more; drop the pending one with the newest."""
    head = head_of(header, lane)
    guard = header[layout.H_DEPTH] - 1  # what remains may stack frames of the steps before it
    if number >= head:
        guard = 0
        if low_of(header, lane) < head and load_i32(row_at(header, lane, head - 1) + layout.R_TAIL) == 0:
            release(header, row_at(header, lane, head))
    evict_until(header, lane, number - guard)
    hide_before(header, lane, number)
