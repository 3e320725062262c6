"""Kernels that rebuild frame stacks from single frames."""

import numba as nb
import numpy as np

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.kernels.pointers import copy_bytes, load_i32, stream_bytes
from recollect.agent.storages.experience.kernels.ring_layout import HELPER, INLINED, age_of, field_at, frame_at, row_at

# Stacks of a batch that take more bytes than this leave the caches before anyone reads them.
_MAX_BYTES_CACHED = 1 << 22


@nb.njit(**INLINED)
def _copy(target, source, num_bytes, is_large):
    if is_large:
        stream_bytes(target, source, num_bytes)
    else:
        copy_bytes(target, source, num_bytes)


@nb.njit(**HELPER)
def _frames_in_a_row(header, lane, number, num_before, num_after, block, frame_bytes):
    """Address of the frames around step `number` if they lie in slots side by side, else 0."""
    slots = header[layout.H_SLOTS]
    position = number % slots
    age = age_of(row_at(header, lane, number))
    if age < num_before or position < num_before or position + num_after >= slots:
        return np.int64(0)
    return block + (lane * slots + position - num_before) * frame_bytes


@nb.njit(**HELPER)
def _copy_stack(header, lane, number, column, target, frame_bytes, num_frames, is_large):
    """Rebuild the newest `num_frames` frames of the stack of step `number`."""
    block = column[layout.O_BLOCK]
    source = _frames_in_a_row(header, lane, number, num_frames - 1, 0, block, frame_bytes)
    if source != 0:
        _copy(target, source, num_frames * frame_bytes, is_large)
        return
    for position in range(num_frames):
        back = num_frames - 1 - position
        source = frame_at(
            header, lane, number, back, block, frame_bytes, column[layout.O_DEPTH], column[layout.O_WHOLE]
        )
        _copy(target + position * frame_bytes, source, frame_bytes, is_large)


@nb.njit(**HELPER)
def _copy_next_stack(header, lane, last, tail, column, target, is_large):
    """Rebuild the stack that step `last` led to."""
    depth = column[layout.O_DEPTH]
    frame_bytes = column[layout.O_BYTES] // depth
    if tail == 0:
        _copy_stack(header, lane, last + 1, column, target, frame_bytes, depth, is_large)
        return
    whole = np.int64(load_i32(tail + layout.T_WHOLE))
    if whole > 0:
        record = header[layout.H_WHOLES] + (whole - 1) * header[layout.H_WHOLE_BYTES] + column[layout.O_WHOLE]
        _copy(target, record, column[layout.O_BYTES], is_large)
        return
    _copy_stack(header, lane, last, column, target, frame_bytes, depth - 1, is_large)
    _copy(target + (depth - 1) * frame_bytes, tail + column[layout.O_TAIL], frame_bytes, is_large)


@nb.njit(**HELPER)
def gather_stacks(header, column, target, ids, places, begin, end):
    """Fill one output column of frame stacks, for both ends at once `depth + 1` frames a row.

    Large batches are streamed: the caller finishes that.
    """
    kind, num_bytes, depth = column[layout.O_KIND], column[layout.O_BYTES], column[layout.O_DEPTH]
    frame_bytes = num_bytes // depth
    is_large = len(ids) * num_bytes > _MAX_BYTES_CACHED
    for item in range(begin, end):
        lane, number = ids[item] >> layout.ID_SHIFT, ids[item] & layout.ID_MASK
        tail = places[layout.P_TAIL, item]
        if kind == layout.K_NEXT_STACK:
            last = number + places[layout.P_USED, item] - 1
            _copy_next_stack(header, lane, last, tail, column, target + item * num_bytes, is_large)
            continue
        to = target + item * (num_bytes + (frame_bytes if kind == layout.K_BOTH_STACKS else 0))
        if kind == layout.K_BOTH_STACKS and tail == 0:
            source = _frames_in_a_row(header, lane, number, depth - 1, 1, column[layout.O_BLOCK], frame_bytes)
            if source != 0:
                _copy(to, source, num_bytes + frame_bytes, is_large)
                continue
        _copy_stack(header, lane, number, column, to, frame_bytes, depth, is_large)
        if kind == layout.K_BOTH_STACKS:
            pending = field_at(header, places[layout.P_NEXT, item], -1, column[layout.O_BLOCK], frame_bytes)
            _copy(to + num_bytes, pending if tail == 0 else tail + column[layout.O_TAIL], frame_bytes, is_large)
