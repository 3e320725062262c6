"""Kernels that write a lane ring: append steps and cut streams.

Tables are read word by word: a view of a row of them would cost two atomic operations.
"""

import numba as nb
import numpy as np

from recollect.agent.storages.experience.kernels.check_kernels import check, flag_of
from recollect.agent.storages.experience.kernels.pointers import (
    copy_bytes,
    load_i32,
    load_i64,
    load_u8,
    prefetch,
    same_bytes,
    store_i32,
    store_i64,
    store_u8,
)
from recollect.agent.storages.experience.kernels.release_kernels import release
from recollect.agent.storages.experience.kernels.ring_layout import (
    C_BLOCK,
    C_BYTES,
    C_DEPTH,
    C_NEXT_SOURCE,
    C_ROW,
    C_SOURCE,
    C_TAIL,
    C_WHOLE,
    D_NONE,
    F_CUT,
    F_DONE,
    F_ENDED,
    F_TERMINATED,
    H_CAPACITY,
    H_DEPTH,
    H_FIRST,
    H_HEAD,
    H_LOW,
    H_NUM_CUTS,
    H_NUM_ENDS,
    H_ROW_BYTES,
    H_ROWS,
    H_SLOTS,
    H_TAIL_BYTES,
    H_TAIL_FREE,
    H_TAILS,
    H_WHOLE_BYTES,
    H_WHOLE_FREE,
    H_WHOLES,
    HELPER,
    INLINED,
    KERNEL,
    OK,
    R_AGE,
    R_DONE,
    R_ENDED,
    R_TAIL,
    R_TERMINATED,
    R_WHOLE,
    S_BLOCK,
    S_BYTES,
    S_ROW,
    S_SOURCE,
    T_WHOLE,
    field_at,
    frame_at,
    row_at,
    take_record,
)


@nb.njit(**HELPER)
def _stack_equals(header, lane, number, carried, index, source, num_frames):
    """Whether the newest `num_frames` frames of a stored stack are those at `source`."""
    depth = carried[index, C_DEPTH]
    frame_bytes = carried[index, C_BYTES] // depth
    for position in range(num_frames):
        back = num_frames - 1 - position
        stored = frame_at(
            header, lane, number, back, carried[index, C_BLOCK], frame_bytes, depth, carried[index, C_WHOLE]
        )
        if not same_bytes(stored, source + position * frame_bytes, frame_bytes):
            return False
    return True


@nb.njit(**INLINED)
def _continues(header, carried, sources, lane, number, row, item):
    """Whether the observation to insert is bit for bit what the step before led to."""
    for index in range(carried.shape[0]):
        source = sources[carried[index, C_SOURCE]] + item * carried[index, C_BYTES]
        if carried[index, C_DEPTH] > 1:
            if not _stack_equals(header, lane, number, carried, index, source, carried[index, C_DEPTH]):
                return False
        else:
            stored = field_at(header, row, carried[index, C_ROW], carried[index, C_BLOCK], carried[index, C_BYTES])
            if not same_bytes(stored, source, carried[index, C_BYTES]):
                return False
    return True


@nb.njit(**HELPER)
def cut_before_pending(header, carried, lane, number):
    """End the stream after step `number - 1`: its next observation moves from slot to tail."""
    record = take_record(header, H_TAIL_FREE)
    tail = header[H_TAILS] + record * header[H_TAIL_BYTES]
    pending = row_at(header, lane, number)
    if header[H_DEPTH] > 1:
        store_i32(tail + T_WHOLE, load_i32(pending + R_WHOLE))
        store_i32(pending + R_WHOLE, np.int32(0))
    for index in range(carried.shape[0]):
        num_bytes = carried[index, C_BYTES] // carried[index, C_DEPTH]
        stored = field_at(header, pending, carried[index, C_ROW], carried[index, C_BLOCK], num_bytes)
        copy_bytes(tail + carried[index, C_TAIL], stored, num_bytes)
    store_i32(row_at(header, lane, number - 1) + R_TAIL, np.int32(record + 1))


@nb.njit(**HELPER)
def _keep_whole(header, carried, sources, source_word, item):
    """Keep the stacks at the sources as they are; return the reference to them."""
    record = take_record(header, H_WHOLE_FREE)
    address = header[H_WHOLES] + record * header[H_WHOLE_BYTES]
    for index in range(carried.shape[0]):
        if carried[index, C_DEPTH] > 1:
            source = sources[carried[index, source_word]] + item * carried[index, C_BYTES]
            copy_bytes(address + carried[index, C_WHOLE], source, carried[index, C_BYTES])
    return np.int32(record + 1)


@nb.njit(**HELPER)
def _is_padding(carried, sources, item):
    """Whether every stack to insert is one frame repeated."""
    for index in range(carried.shape[0]):
        depth = carried[index, C_DEPTH]
        frame_bytes = carried[index, C_BYTES] // depth
        source = sources[carried[index, C_SOURCE]] + item * carried[index, C_BYTES]
        for position in range(depth - 1):
            if not same_bytes(source + position * frame_bytes, source + (depth - 1) * frame_bytes, frame_bytes):
                return False
    return True


@nb.njit(**HELPER)
def _is_shifted(carried, sources, item):
    """Whether every next stack to insert is its stack shifted by one frame."""
    for index in range(carried.shape[0]):
        depth = carried[index, C_DEPTH]
        if depth > 1:
            frame_bytes = carried[index, C_BYTES] // depth
            stack = sources[carried[index, C_SOURCE]] + item * carried[index, C_BYTES]
            shifted = sources[carried[index, C_NEXT_SOURCE]] + item * carried[index, C_BYTES]
            if not same_bytes(shifted, stack + frame_bytes, (depth - 1) * frame_bytes):
                return False
    return True


@nb.njit(**HELPER)
def _follows_stacks(header, carried, sources, lane, number, item):
    """Whether every stack to insert as step `number` is that of the step before, shifted."""
    if number - 1 < load_i64(header[H_LOW] + 8 * lane):
        return False
    for index in range(carried.shape[0]):
        if carried[index, C_DEPTH] > 1:
            source = sources[carried[index, C_SOURCE]] + item * carried[index, C_BYTES]
            if not _stack_equals(header, lane, number - 1, carried, index, source, carried[index, C_DEPTH] - 1):
                return False
    return True


@nb.njit(**HELPER)
def _begin_stacks(header, carried, sources, lane, number, item):
    """Say how the stacks of a step that starts a stream are built again."""
    row = row_at(header, lane, number)
    age = np.int64(0)
    whole = np.int32(0)
    if not _is_padding(carried, sources, item):
        if _follows_stacks(header, carried, sources, lane, number, item):
            age = min(np.int64(load_u8(row_at(header, lane, number - 1) + R_AGE)) + 1, header[H_DEPTH] - 1)
        else:
            whole = _keep_whole(header, carried, sources, C_SOURCE, item)
    store_u8(row + R_AGE, np.uint8(age))
    store_i32(row + R_WHOLE, whole)


@nb.njit(**INLINED)
def _write_carried(header, carried, sources, source_word, row, item):
    """Write observations and hidden states into a slot, of stacks the newest frame."""
    for index in range(carried.shape[0]):
        num_bytes = carried[index, C_BYTES] // carried[index, C_DEPTH]
        source = sources[carried[index, source_word]] + (item + 1) * carried[index, C_BYTES] - num_bytes
        copy_bytes(
            field_at(header, row, carried[index, C_ROW], carried[index, C_BLOCK], num_bytes),
            source,
            num_bytes,
        )


@nb.njit(**HELPER)
def _write_tail(header, carried, sources, row, item):
    """Keep the next observation of a step that ends its stream."""
    record = take_record(header, H_TAIL_FREE)
    tail = header[H_TAILS] + record * header[H_TAIL_BYTES]
    if header[H_DEPTH] > 1:
        whole = np.int32(0)
        if not _is_shifted(carried, sources, item):
            whole = _keep_whole(header, carried, sources, C_NEXT_SOURCE, item)
        store_i32(tail + T_WHOLE, whole)
    for index in range(carried.shape[0]):
        num_bytes = carried[index, C_BYTES] // carried[index, C_DEPTH]
        source = sources[carried[index, C_NEXT_SOURCE]] + (item + 1) * carried[index, C_BYTES] - num_bytes
        copy_bytes(tail + carried[index, C_TAIL], source, num_bytes)
    store_i32(row + R_TAIL, np.int32(record + 1))


@nb.njit(**INLINED)
def _write_pending(header, carried, sources, previous_row, row, item):
    """Put what the step at `previous_row` led to where the step after it will be."""
    store_i32(row + R_TAIL, np.int32(0))
    if header[H_DEPTH] > 1:
        age = np.int64(0)
        whole = np.int32(0)
        if _is_shifted(carried, sources, item):
            age = min(np.int64(load_u8(previous_row + R_AGE)) + 1, header[H_DEPTH] - 1)
        else:
            whole = _keep_whole(header, carried, sources, C_NEXT_SOURCE, item)
        store_u8(row + R_AGE, np.uint8(age))
        store_i32(row + R_WHOLE, whole)
    _write_carried(header, carried, sources, C_NEXT_SOURCE, row, item)


@nb.njit(**INLINED)
def _make_room(header, lane, number, next_row):
    """Forget the step that the one after step `number` takes the slot of; returns the oldest one left."""
    low = load_i64(header[H_LOW] + 8 * lane)
    oldest = number + 2 - header[H_SLOTS]
    if low < oldest:
        release(header, next_row)
        store_i64(header[H_LOW] + 8 * lane, oldest)
    return max(low, oldest)


@nb.njit(**INLINED)
def _write_step(header, steps, flags, sources, row, item):
    """Write what happened at a step, and its flags; returns whether its stream ends here."""
    for index in range(steps.shape[0]):
        num_bytes = steps[index, S_BYTES]
        target = field_at(header, row, steps[index, S_ROW], steps[index, S_BLOCK], num_bytes)
        copy_bytes(target, sources[steps[index, S_SOURCE]] + item * num_bytes, num_bytes)
    ended = flag_of(flags, sources, F_ENDED, item)
    terminated = ended if flags[F_TERMINATED, 1] == D_NONE else flag_of(flags, sources, F_TERMINATED, item)
    store_u8(row + R_DONE, np.uint8(flag_of(flags, sources, F_DONE, item)))
    store_u8(row + R_ENDED, np.uint8(ended))
    store_u8(row + R_TERMINATED, np.uint8(terminated))
    header[H_NUM_ENDS] += ended
    return ended == 1 or flag_of(flags, sources, F_CUT, item) == 1


@nb.njit(**INLINED)
def _append_one(header, carried, steps, flags, sources, lane, item):
    """Append row `item` of the sources to a lane."""
    slots, row_bytes = header[H_SLOTS], header[H_ROW_BYTES]
    number = load_i64(header[H_HEAD] + 8 * lane)
    position = number % slots
    lane_rows = header[H_ROWS] + lane * slots * row_bytes
    row = lane_rows + position * row_bytes
    previous_row = lane_rows + ((position if position > 0 else slots) - 1) * row_bytes
    next_row = lane_rows + (position + 1 if position + 1 < slots else 0) * row_bytes
    low = _make_room(header, lane, number, next_row)
    goes_on = number > low and load_i32(previous_row + R_TAIL) == 0
    if goes_on and not _continues(header, carried, sources, lane, number, row, item):
        cut_before_pending(header, carried, lane, number)
        header[H_NUM_CUTS] += 1
        goes_on = False
    if not goes_on:
        store_i32(row + R_TAIL, np.int32(0))
        if header[H_DEPTH] > 1:
            _begin_stacks(header, carried, sources, lane, number, item)
        _write_carried(header, carried, sources, C_SOURCE, row, item)
    if _write_step(header, steps, flags, sources, row, item):
        _write_tail(header, carried, sources, row, item)
    else:
        _write_pending(header, carried, sources, row, next_row, item)
    # The next append writes the row after the next: ask for it now, it will be there by then.
    for line in range(next_row + row_bytes, next_row + 2 * row_bytes, 64):
        prefetch(line)
    store_i64(header[H_HEAD] + 8 * lane, number + 1)
    first_address = header[H_FIRST] + 8 * lane
    store_i64(first_address, max(load_i64(first_address), number + 1 - header[H_CAPACITY]))


@nb.njit(
    nb.int64(nb.int64[::1], nb.int64[:, ::1], nb.int64[:, ::1], nb.int64[:, ::1], nb.int64[::1], nb.int64[::1]),
    **KERNEL,
)
def append(header, carried, steps, flags, sources, span):
    """Append `[num_steps, num_envs]` steps to neighbouring lanes, or change nothing and say why not.

    Parameters
    ----------
    sources : int64 [inputs]
        Addresses of the contiguous inputs `[num_steps, num_envs, ...]`.
    span : int64 [4]
        First lane, number of envs, first step of the inputs to take, number of steps in the inputs.
    """
    lane, num_envs, begin, num_steps = span[0], span[1], span[2], span[3]
    status = check(steps, flags, sources, num_envs * num_steps)
    if status == OK:
        for step in range(begin, num_steps):
            for env in range(num_envs):
                _append_one(header, carried, steps, flags, sources, lane + env, step * num_envs + env)
    return status


@nb.njit(nb.void(nb.int64[::1], nb.int64[:, ::1], nb.int64), **KERNEL)
def cut(header, carried, lane):
    """Break the stream of `lane` after its newest step, if it has one that continues."""
    head = load_i64(header[H_HEAD] + 8 * lane)
    if head > load_i64(header[H_LOW] + 8 * lane) and load_i32(row_at(header, lane, head - 1) + R_TAIL) == 0:
        cut_before_pending(header, carried, lane, head)
