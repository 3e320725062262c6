"""Kernels that write a lane ring: check and append steps, and cut streams.

Tables are read word by word: a view of a row of them would cost two atomic operations.
"""

import math

import numba as nb
import numpy as np

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.kernels.pointers import (
    copy_bytes,
    load_i32,
    load_i64,
    prefetch,
    same_bytes,
    store_i32,
    store_i64,
    store_u8,
)
from recollect.agent.storages.experience.kernels.release_kernels import advance, release
from recollect.agent.storages.experience.kernels.ring_layout import (
    HELPER,
    INLINED,
    KERNEL,
    age_of,
    field_at,
    frame_at,
    head_of,
    load_number,
    low_of,
    row_at,
    take_record,
)

_i64 = nb.int64[::1]
_table = nb.int64[:, ::1]


@nb.njit(**INLINED)
def _flag_of(flags, sources, which, item):
    """Value of a flag as 0 or 1, -1 if it is neither, 0 if absent."""
    code = flags[which, 1]
    if code == layout.D_NONE:
        return 0
    value = load_number(sources[flags[which, 0]], item, code)
    if value == 0.0:
        return 0
    return 1 if value == 1.0 else -1


@nb.njit(**INLINED)
def _has_nan(address, num_bytes, code):
    """Whether floats are NaN: their bits, without the sign, are beyond those of infinity.

    All are read, without a branch, so that the compiler makes vectors of them.
    """
    if code == layout.D_F32:
        signs = np.int32(0)
        for item in range(num_bytes >> 2):
            signs |= np.int32(0x7F800000) - (load_i32(address + 4 * item) & np.int32(0x7FFFFFFF))
        return signs < 0
    long_signs = np.int64(0)
    for item in range(num_bytes >> 3):
        bits = load_i64(address + 8 * item) & np.int64(0x7FFFFFFFFFFFFFFF)
        long_signs |= np.int64(0x7FF0000000000000) - bits
    return long_signs < 0


@nb.njit(nb.int64(_table, _table, _table, _i64, nb.int64), **KERNEL)
def check(carried, steps, flags, sources, num_items):
    """What is wrong with the observations, rewards and flags at `sources`, or `OK`."""
    for index in range(carried.shape[0]):
        code = carried[index, layout.C_CHECK]
        if code != layout.D_NONE:
            num_bytes = num_items * carried[index, layout.C_BYTES]
            for word in (layout.C_SOURCE, layout.C_NEXT_SOURCE):
                if _has_nan(sources[carried[index, word]], num_bytes, code):
                    return layout.NAN_OBSERVATION
    for index in range(steps.shape[0]):
        code = steps[index, layout.S_CHECK]
        if code != layout.D_NONE:
            address = sources[steps[index, layout.S_SOURCE]]
            for item in range(num_items):
                if not math.isfinite(load_number(address, item, code)):
                    return layout.BAD_REWARD
    for item in range(num_items):
        done, ended = _flag_of(flags, sources, layout.F_DONE, item), _flag_of(flags, sources, layout.F_ENDED, item)
        terminated = _flag_of(flags, sources, layout.F_TERMINATED, item)
        if min(done, ended, terminated, _flag_of(flags, sources, layout.F_CUT, item)) < 0:
            return layout.BAD_FLAG
        if terminated > ended:
            return layout.TERMINATED_WITHOUT_DONE
    return layout.OK


@nb.njit(**HELPER)
def _stack_equals(header, lane, number, carried, index, source, num_frames):
    """Whether the newest `num_frames` frames of a stored stack are those at `source`."""
    block, depth, whole = carried[index, layout.C_BLOCK], carried[index, layout.C_DEPTH], carried[index, layout.C_WHOLE]
    frame_bytes = carried[index, layout.C_BYTES] // depth
    for position in range(num_frames):
        stored = frame_at(header, lane, number, num_frames - 1 - position, block, frame_bytes, depth, whole)
        if not same_bytes(stored, source + position * frame_bytes, frame_bytes):
            return False
    return True


@nb.njit(**INLINED)
def _continues(header, carried, sources, lane, number, row, item):
    """Whether the observation to insert is bit for bit what the step before led to."""
    for index in range(carried.shape[0]):
        num_bytes = carried[index, layout.C_BYTES]
        source = sources[carried[index, layout.C_SOURCE]] + item * num_bytes
        if carried[index, layout.C_DEPTH] > 1:
            if not _stack_equals(header, lane, number, carried, index, source, carried[index, layout.C_DEPTH]):
                return False
        else:
            stored = field_at(header, row, carried[index, layout.C_ROW], carried[index, layout.C_BLOCK], num_bytes)
            if not same_bytes(stored, source, num_bytes):
                return False
    return True


@nb.njit(**HELPER)
def cut_before_pending(header, carried, lane, number):
    """End the stream after step `number - 1`: its next observation moves from slot to tail."""
    record = take_record(header, layout.H_TAIL_FREE)
    tail = header[layout.H_TAILS] + record * header[layout.H_TAIL_BYTES]
    pending = row_at(header, lane, number)
    if header[layout.H_DEPTH] > 1:
        store_i32(tail + layout.T_WHOLE, load_i32(pending + layout.R_WHOLE))
        store_i32(pending + layout.R_WHOLE, np.int32(0))
    for index in range(carried.shape[0]):
        num_bytes = carried[index, layout.C_BYTES] // carried[index, layout.C_DEPTH]
        stored = field_at(header, pending, carried[index, layout.C_ROW], carried[index, layout.C_BLOCK], num_bytes)
        copy_bytes(tail + carried[index, layout.C_TAIL], stored, num_bytes)
    store_i32(row_at(header, lane, number - 1) + layout.R_TAIL, np.int32(record + 1))


@nb.njit(**HELPER)
def _keep_whole(header, carried, sources, source_word, item):
    """Keep the stacks at the sources as they are; return the reference to them."""
    record = take_record(header, layout.H_WHOLE_FREE)
    address = header[layout.H_WHOLES] + record * header[layout.H_WHOLE_BYTES]
    for index in range(carried.shape[0]):
        if carried[index, layout.C_DEPTH] > 1:
            source = sources[carried[index, source_word]] + item * carried[index, layout.C_BYTES]
            copy_bytes(address + carried[index, layout.C_WHOLE], source, carried[index, layout.C_BYTES])
    return np.int32(record + 1)


@nb.njit(**HELPER)
def _is_padding(carried, sources, item):
    """Whether every stack to insert is one frame repeated."""
    for index in range(carried.shape[0]):
        depth = carried[index, layout.C_DEPTH]
        frame_bytes = carried[index, layout.C_BYTES] // depth
        source = sources[carried[index, layout.C_SOURCE]] + item * carried[index, layout.C_BYTES]
        for position in range(depth - 1):
            if not same_bytes(source + position * frame_bytes, source + (depth - 1) * frame_bytes, frame_bytes):
                return False
    return True


@nb.njit(**HELPER)
def _is_shifted(carried, sources, item):
    """Whether every next stack to insert is its stack shifted by one frame."""
    for index in range(carried.shape[0]):
        depth = carried[index, layout.C_DEPTH]
        if depth > 1:
            frame_bytes = carried[index, layout.C_BYTES] // depth
            stack = sources[carried[index, layout.C_SOURCE]] + item * carried[index, layout.C_BYTES]
            shifted = sources[carried[index, layout.C_NEXT_SOURCE]] + item * carried[index, layout.C_BYTES]
            if not same_bytes(shifted, stack + frame_bytes, (depth - 1) * frame_bytes):
                return False
    return True


@nb.njit(**HELPER)
def _follows_stacks(header, carried, sources, lane, number, item):
    """Whether every stack to insert as step `number` is that of the step before, shifted."""
    if number - 1 < low_of(header, lane):
        return False
    for index in range(carried.shape[0]):
        if carried[index, layout.C_DEPTH] > 1:
            source = sources[carried[index, layout.C_SOURCE]] + item * carried[index, layout.C_BYTES]
            if not _stack_equals(header, lane, number - 1, carried, index, source, carried[index, layout.C_DEPTH] - 1):
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
            age = min(age_of(row_at(header, lane, number - 1)) + 1, header[layout.H_DEPTH] - 1)
        else:
            whole = _keep_whole(header, carried, sources, layout.C_SOURCE, item)
    store_u8(row + layout.R_AGE, np.uint8(age))
    store_i32(row + layout.R_WHOLE, whole)


@nb.njit(**INLINED)
def _write_carried(header, carried, sources, source_word, row, item):
    """Write observations and hidden states into a slot, of stacks the newest frame."""
    for index in range(carried.shape[0]):
        num_bytes = carried[index, layout.C_BYTES] // carried[index, layout.C_DEPTH]
        source = sources[carried[index, source_word]] + (item + 1) * carried[index, layout.C_BYTES] - num_bytes
        target = field_at(header, row, carried[index, layout.C_ROW], carried[index, layout.C_BLOCK], num_bytes)
        copy_bytes(target, source, num_bytes)


@nb.njit(**INLINED)
def _write_pending(header, carried, sources, previous_row, row, item):
    """Put what the step at `previous_row` led to where the step after it will be."""
    store_i32(row + layout.R_TAIL, np.int32(0))
    if header[layout.H_DEPTH] > 1:
        age = np.int64(0)
        whole = np.int32(0)
        if _is_shifted(carried, sources, item):
            age = min(age_of(previous_row) + 1, header[layout.H_DEPTH] - 1)
        else:
            whole = _keep_whole(header, carried, sources, layout.C_NEXT_SOURCE, item)
        store_u8(row + layout.R_AGE, np.uint8(age))
        store_i32(row + layout.R_WHOLE, whole)
    _write_carried(header, carried, sources, layout.C_NEXT_SOURCE, row, item)


@nb.njit(**INLINED)
def _make_room(header, lane, number, next_row):
    """Forget the step that the one after step `number` takes the slot of; returns the oldest one left."""
    low = low_of(header, lane)
    oldest = number + 2 - header[layout.H_SLOTS]
    if low < oldest:
        release(header, next_row)
        store_i64(header[layout.H_LOW] + 8 * lane, oldest)
    return max(low, oldest)


@nb.njit(**INLINED)
def _write_step(header, steps, flags, sources, row, item):
    """Write what happened at a step, and its flags; returns whether its stream ends here."""
    for index in range(steps.shape[0]):
        num_bytes = steps[index, layout.S_BYTES]
        target = field_at(header, row, steps[index, layout.S_ROW], steps[index, layout.S_BLOCK], num_bytes)
        copy_bytes(target, sources[steps[index, layout.S_SOURCE]] + item * num_bytes, num_bytes)
    ended = _flag_of(flags, sources, layout.F_ENDED, item)
    terminated = ended
    if flags[layout.F_TERMINATED, 1] != layout.D_NONE:
        terminated = _flag_of(flags, sources, layout.F_TERMINATED, item)
    store_u8(row + layout.R_DONE, np.uint8(_flag_of(flags, sources, layout.F_DONE, item)))
    store_u8(row + layout.R_ENDED, np.uint8(ended))
    store_u8(row + layout.R_TERMINATED, np.uint8(terminated))
    header[layout.H_NUM_ENDS] += ended
    return ended == 1 or _flag_of(flags, sources, layout.F_CUT, item) == 1


@nb.njit(**INLINED)
def _append_one(header, carried, steps, flags, sources, lane, item):
    """Append row `item` of the sources to a lane."""
    slots, row_bytes = header[layout.H_SLOTS], header[layout.H_ROW_BYTES]
    number = head_of(header, lane)
    position = number % slots
    lane_rows = header[layout.H_ROWS] + lane * slots * row_bytes
    row = lane_rows + position * row_bytes
    previous_row = lane_rows + ((position if position > 0 else slots) - 1) * row_bytes
    next_row = lane_rows + (position + 1 if position + 1 < slots else 0) * row_bytes
    low = _make_room(header, lane, number, next_row)
    continues = number > low and load_i32(previous_row + layout.R_TAIL) == 0
    if continues and not _continues(header, carried, sources, lane, number, row, item):
        cut_before_pending(header, carried, lane, number)
        header[layout.H_NUM_CUTS] += 1
        continues = False
    if not continues:
        store_i32(row + layout.R_TAIL, np.int32(0))
        if header[layout.H_DEPTH] > 1:
            _begin_stacks(header, carried, sources, lane, number, item)
        _write_carried(header, carried, sources, layout.C_SOURCE, row, item)
    ends = _write_step(header, steps, flags, sources, row, item)
    _write_pending(header, carried, sources, row, next_row, item)
    if ends:
        cut_before_pending(header, carried, lane, number + 1)
    # The next append writes the row after the next: ask for it now, it will be there by then.
    for line in range(next_row + row_bytes, next_row + 2 * row_bytes, 64):
        prefetch(line)
    advance(header, lane, number + 1)


@nb.njit(nb.int64(_i64, _table, _table, _table, _i64, _i64), **KERNEL)
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
    status = check(carried, steps, flags, sources, num_envs * num_steps)
    if status == layout.OK:
        for step in range(begin, num_steps):
            for env in range(num_envs):
                _append_one(header, carried, steps, flags, sources, lane + env, step * num_envs + env)
    return status


@nb.njit(nb.boolean(nb.float64[::1], nb.boolean[::1], nb.boolean[::1], nb.float32[:, :, ::1]), **KERNEL)
def read_outcomes(rewards, terminated, truncated, columns):
    """Write rewards, ends and terminations [num_envs] into float32 `columns` [3, num_envs, 1]; returns if one ended.

    NumPy takes 10 µs for the same: it reads the processor's floating-point flags around each cast.
    """
    has_ended = False
    for env in range(len(rewards)):
        ended = terminated[env] or truncated[env]
        columns[0, env, 0], columns[1, env, 0], columns[2, env, 0] = rewards[env], ended, terminated[env]
        has_ended |= ended
    return has_ended


@nb.njit(nb.void(_i64, _table, nb.int64), **KERNEL)
def cut(header, carried, lane):
    """Break the stream of `lane` after its newest step, if it has one that continues."""
    head = head_of(header, lane)
    if head > low_of(header, lane) and load_i32(row_at(header, lane, head - 1) + layout.R_TAIL) == 0:
        cut_before_pending(header, carried, lane, head)
