"""Kernels that move steps as they lie: from one ring into another, out of a ring into a piece, and back.

A piece is a small ring of its own: one lane of rows, those of several lanes of a store behind each other, each lane
followed by the row that its newest step led to. So the same code copies in both directions.
"""

import math

import numba as nb
import numpy as np

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.kernels.append_kernels import cut_before_pending
from recollect.agent.storages.experience.kernels.pointers import copy_bytes, load_i32, load_u8, store_i32, store_u8
from recollect.agent.storages.experience.kernels.release_kernels import advance, evict_until
from recollect.agent.storages.experience.kernels.ring_layout import (
    HELPER,
    KERNEL,
    age_of,
    frame_at,
    head_of,
    load_number,
    low_of,
    row_at,
    tail_of,
    take_record,
)

# Words of a span: which steps go where.
X_FROM_LANE = 0
X_FROM = 1  # number of the first step
X_LOW = 2  # oldest step that stacks may reach back to
X_NUM_STEPS = 3
X_TO_LANE = 4
X_NUM_KNOWN = 5  # steps at the beginning that are there already
X_FOLLOWS = 6  # whether the lane's newest step is the one before the first new one
X_BREAKS = 7  # whether the stream breaks before the first step
X_NUM_WORDS = 8

# Marks of a packed row: its flags, and whether it refers to records, which are numbered in the order of rows.
M_DONE = 1
M_ENDED = 2
M_TERMINATED = 4
M_TAIL = 8
M_WHOLE = 16
M_TOP = 32

_i64 = nb.int64[::1]
_table = nb.int64[:, ::1]


@nb.njit(**HELPER)
def _copy_record(old, new, reference, records_word, free_word):
    """Copy a side-table record from one ring to another; return the reference to the copy."""
    if reference == 0:
        return np.int32(0)
    num_bytes = old[records_word + 1]
    record = take_record(new, free_word)
    source = old[records_word] + (np.int64(reference) - 1) * num_bytes
    copy_bytes(new[records_word] + record * num_bytes, source, num_bytes)
    return np.int32(record + 1)


@nb.njit(**HELPER)
def is_cut(header, lane, number):
    """Whether the stream breaks or ends after a step."""
    return load_i32(row_at(header, lane, number) + layout.R_TAIL) != 0


@nb.njit(**HELPER)
def _build_whole(old, lane, number, new, blocks, stacks):
    """Keep the stacks of a step as they are; return the reference to them."""
    record = take_record(new, layout.H_WHOLE_FREE)
    address = new[layout.H_WHOLES] + record * new[layout.H_WHOLE_BYTES]
    for index in range(stacks.shape[0]):
        block, depth = blocks[stacks[index, layout.Z_BLOCK], 0], stacks[index, layout.Z_DEPTH]
        offset = stacks[index, layout.Z_WHOLE]
        frame_bytes = stacks[index, layout.Z_BYTES] // depth
        for back in range(depth):
            frame = frame_at(old, lane, number, back, block, frame_bytes, depth, offset)
            copy_bytes(address + offset + (depth - 1 - back) * frame_bytes, frame, frame_bytes)
    return np.int32(record + 1)


@nb.njit(**HELPER)
def _copy_slots(old, lane, number, new, new_lane, new_number, num_rows, blocks):
    """Copy the bytes of consecutive slots, as many at once as lie side by side in both rings."""
    old_slots, new_slots, row_bytes = old[layout.H_SLOTS], new[layout.H_SLOTS], old[layout.H_ROW_BYTES]
    done = np.int64(0)
    while done < num_rows:
        position, new_position = (number + done) % old_slots, (new_number + done) % new_slots
        count = min(num_rows - done, old_slots - position, new_slots - new_position)
        origin, target = lane * old_slots + position, new_lane * new_slots + new_position
        copy_bytes(new[layout.H_ROWS] + target * row_bytes, old[layout.H_ROWS] + origin * row_bytes, count * row_bytes)
        for block in range(blocks.shape[0]):
            num_bytes = blocks[block, 2]
            copy_bytes(blocks[block, 1] + target * num_bytes, blocks[block, 0] + origin * num_bytes, count * num_bytes)
        done += count


@nb.njit(**HELPER)
def _copy_whole(old, new, record):
    """Let a row or tail that was copied refer to a copy of its whole stack; both have the reference at `record`."""
    store_i32(record, _copy_record(old, new, load_i32(record), layout.H_WHOLES, layout.H_WHOLE_FREE))


@nb.njit(**HELPER)
def _copy_tail(old, new, row):
    """Let a row that was copied refer to a copy of its tail."""
    reference = _copy_record(old, new, load_i32(row + layout.R_TAIL), layout.H_TAILS, layout.H_TAIL_FREE)
    store_i32(row + layout.R_TAIL, reference)
    if reference != 0 and new[layout.H_DEPTH] > 1:
        _copy_whole(old, new, tail_of(new, row) + layout.T_WHOLE)


@nb.njit(**HELPER)
def _close(row):
    """Make a row that was copied what a step led to, and no more."""
    store_i32(row + layout.R_TAIL, np.int32(0))
    for flag in (layout.R_DONE, layout.R_ENDED, layout.R_TERMINATED):
        store_u8(row + flag, np.uint8(0))


@nb.njit(**HELPER)
def _limit_ages(new, lane, number, num_rows, age):
    """Let the stacks of rows that reach back to the first one, or beyond, follow on its age."""
    for index in range(1, min(num_rows, new[layout.H_DEPTH])):
        row = row_at(new, lane, number + index)
        if age_of(row) >= index:
            store_u8(row + layout.R_AGE, np.uint8(min(age + index, new[layout.H_DEPTH] - 1)))


@nb.njit(**HELPER)
def _copy_steps(old, lane, number, low, new, new_lane, new_number, num_steps, blocks, stacks, continues):
    """Copy steps, and what the last one led to, so that no stack reaches back further than the target holds.

    Where the stream `continues`, the first row takes the place of what the newest step led to, whose stack is there.
    Elsewhere a first stack that reaches back is kept whole; if its frames are gone, nobody asks for it any more.
    """
    first = row_at(new, new_lane, new_number)
    is_stacked = new[layout.H_DEPTH] > 1
    age, whole = np.int64(0), np.int32(0)
    if is_stacked and continues:
        age, whole = age_of(first), load_i32(first + layout.R_WHOLE)
    num_rows = num_steps if is_cut(old, lane, number + num_steps - 1) else num_steps + 1
    _copy_slots(old, lane, number, new, new_lane, new_number, num_rows, blocks)
    if is_stacked and not continues:
        reach = age_of(first)
        if reach == 0:
            whole = _copy_record(old, new, load_i32(first + layout.R_WHOLE), layout.H_WHOLES, layout.H_WHOLE_FREE)
        elif number - reach >= low:
            whole = _build_whole(old, lane, number, new, blocks, stacks)
    for index in range(num_rows):
        row = row_at(new, new_lane, new_number + index)
        if is_stacked and index > 0:
            _copy_whole(old, new, row + layout.R_WHOLE)
        if index < num_steps:
            _copy_tail(old, new, row)
        else:
            _close(row)
    if is_stacked:
        store_u8(first + layout.R_AGE, np.uint8(age))
        store_i32(first + layout.R_WHOLE, whole)
        _limit_ages(new, new_lane, new_number, num_rows, age)


@nb.njit(**HELPER)
def _append_span(old, new, carried, blocks, stacks, span):
    lane, number, new_lane = span[X_FROM_LANE], span[X_FROM], span[X_TO_LANE]
    num_known, num_new = span[X_NUM_KNOWN], span[X_NUM_STEPS] - span[X_NUM_KNOWN]
    head, low = head_of(new, new_lane), low_of(new, new_lane)
    continues = head > low and not is_cut(new, new_lane, head - 1)
    breaks = is_cut(old, lane, number + num_known - 1) if num_known > 0 else span[X_BREAKS] != 0
    if continues and (breaks or span[X_FOLLOWS] == 0):
        cut_before_pending(new, carried, new_lane, head)
        continues = False
    if num_new == 0:
        return
    begin, new_head = number + num_known, head + num_new
    for step in range(begin, begin + num_new):
        new[layout.H_NUM_ENDS] += load_u8(row_at(old, lane, step) + layout.R_ENDED)
    evict_until(new, new_lane, new_head + 1 - new[layout.H_SLOTS])
    # Of more steps than fit, only the newest are copied.
    surplus = max(np.int64(0), num_new + 1 - new[layout.H_SLOTS])
    continues = continues and surplus == 0
    begin, head, num_new, low = begin + surplus, head + surplus, num_new - surplus, span[X_LOW]
    _copy_steps(old, lane, begin, low, new, new_lane, head, num_new, blocks, stacks, continues)
    advance(new, new_lane, new_head)


@nb.njit(nb.void(_i64, _i64, _table, _table, _table, _table), **KERNEL)
def append_steps(old, new, carried, blocks, stacks, spans):
    """Append steps of one ring or piece to lanes of another ring.

    Parameters
    ----------
    old, new : int64 [H_NUM_WORDS]
        Headers of both.
    carried : int64 [fields, C_NUM_WORDS]
        The target's table of carried fields.
    blocks : int64 [num_blocks, 3]
        Address in the source, address in the target and bytes of a slot, for each block column.
    stacks : int64 [num_stacks, Z_NUM_WORDS]
        The stacked fields.
    spans : int64 [lanes, X_NUM_WORDS]
        Which steps go where.
    """
    for index in range(spans.shape[0]):
        _append_span(old, new, carried, blocks, stacks, spans[index])


@nb.njit(nb.void(_i64, _i64, _table, _table, _table), **KERNEL)
def cut_steps(ring, piece, blocks, stacks, spans):
    """Copy steps of a ring, and what the last of each lane led to, into an empty piece; see `append_steps`."""
    to = np.int64(0)
    for index in range(spans.shape[0]):
        lane, number, num_steps = spans[index, X_FROM_LANE], spans[index, X_FROM], spans[index, X_NUM_STEPS]
        if num_steps > 0:
            low = spans[index, X_LOW]
            _copy_steps(ring, lane, number, low, piece, np.int64(0), to, num_steps, blocks, stacks, False)
        to += num_steps + 1


@nb.njit(nb.void(_i64, _table, _i64), **KERNEL)
def count_records(ring, spans, counts):
    """Add up the tails and the whole stacks of the pieces that `cut_steps` makes of these steps."""
    for index in range(spans.shape[0]):
        lane, number, num_steps = spans[index, X_FROM_LANE], spans[index, X_FROM], spans[index, X_NUM_STEPS]
        for step in range(number, number + num_steps):
            row = row_at(ring, lane, step)
            if load_i32(row + layout.R_TAIL) != 0:
                counts[0] += 1
                if ring[layout.H_DEPTH] > 1:
                    counts[1] += load_i32(tail_of(ring, row) + layout.T_WHOLE) != 0
            if ring[layout.H_DEPTH] > 1:
                counts[1] += load_i32(row + layout.R_WHOLE) != 0
        if ring[layout.H_DEPTH] > 1 and num_steps > 0:
            reach = age_of(row_at(ring, lane, number))
            counts[1] += reach > 0 and number - reach >= spans[index, X_LOW]
            if not is_cut(ring, lane, number + num_steps - 1):
                counts[1] += load_i32(row_at(ring, lane, number + num_steps) + layout.R_WHOLE) != 0


@nb.njit(nb.void(_i64, nb.int64, nb.int64, nb.int64, nb.int64), **KERNEL)
def pack_rows(piece, marks, ages, bodies, fixed_bytes):
    """Write the rows of a piece without what every row of a ring begins with, which takes a byte or two.

    Parameters
    ----------
    marks, ages, bodies : int
        Addresses of the marks and, with stacks, the ages of all rows, and of the rest of each.
    fixed_bytes : int
        Bytes that every row begins with.
    """
    body_bytes = piece[layout.H_ROW_BYTES] - fixed_bytes
    for index in range(piece[layout.H_SLOTS]):
        row = piece[layout.H_ROWS] + index * piece[layout.H_ROW_BYTES]
        mark = load_u8(row + layout.R_DONE) * M_DONE + load_u8(row + layout.R_ENDED) * M_ENDED
        mark += load_u8(row + layout.R_TERMINATED) * M_TERMINATED
        if load_i32(row + layout.R_TAIL) != 0:
            mark += M_TAIL
        if piece[layout.H_DEPTH] > 1:
            store_u8(ages + index, load_u8(row + layout.R_AGE))
            if load_i32(row + layout.R_WHOLE) != 0:
                mark += M_WHOLE
        store_u8(marks + index, np.uint8(mark))
        copy_bytes(bodies + index * body_bytes, row + fixed_bytes, body_bytes)


@nb.njit(**HELPER)
def _write_fixed(piece, row, mark, age, found):
    """Write what a row begins with, its records being the next ones; `found` counts them."""
    store_i32(row + layout.R_TAIL, np.int32(0))
    store_u8(row + layout.R_DONE, np.uint8((mark & M_DONE) != 0))
    store_u8(row + layout.R_ENDED, np.uint8((mark & M_ENDED) != 0))
    store_u8(row + layout.R_TERMINATED, np.uint8((mark & M_TERMINATED) != 0))
    store_u8(row + layout.R_AGE, np.uint8(age))
    if piece[layout.H_DEPTH] > 1:
        found[1] += (mark & M_WHOLE) != 0
        store_i32(row + layout.R_WHOLE, np.int32(found[1] if mark & M_WHOLE else 0))
    if mark & M_TAIL:
        found[0] += 1
        store_i32(row + layout.R_TAIL, np.int32(found[0]))


@nb.njit(**HELPER)
def _check_marks(mark, age, depth, num_before, is_last):
    """What is wrong with the marks and the age of a row, or `OK`."""
    if is_last and mark & ~M_WHOLE:
        return layout.BAD_REFERENCE
    if mark >= M_TOP or (mark & M_ENDED and not mark & M_TAIL):
        return layout.BAD_FLAG
    if mark & M_TERMINATED and not mark & M_ENDED:
        return layout.TERMINATED_WITHOUT_DONE
    if age > min(num_before, depth - 1) or (mark & M_WHOLE and (depth == 1 or age > 0)):
        return layout.BAD_STACK
    return layout.OK


@nb.njit(**HELPER)
def _check_records(piece, row, rewards, found, counts, is_last):
    """What is wrong with the records and the rewards of a row, or `OK`."""
    if found[0] > counts[0]:
        return layout.BAD_REFERENCE
    if piece[layout.H_DEPTH] > 1 and load_i32(row + layout.R_TAIL) != 0:
        whole = np.int64(load_i32(tail_of(piece, row) + layout.T_WHOLE))
        found[1] += whole != 0
        if whole != 0 and whole != found[1]:
            return layout.BAD_REFERENCE
    if found[1] > counts[1]:
        return layout.BAD_REFERENCE
    if not is_last:
        for index in range(rewards.shape[0]):
            if not math.isfinite(load_number(row + rewards[index, 0], 0, rewards[index, 1])):
                return layout.BAD_REWARD
    return layout.OK


@nb.njit(nb.int64(_i64, nb.int64, nb.int64, nb.int64, nb.int64, _table, _i64, _i64), **KERNEL)
def unpack_rows(piece, marks, ages, bodies, fixed_bytes, rewards, num_steps, counts):
    """Undo `pack_rows`; returns what is wrong with the rows, or `OK`.

    Parameters
    ----------
    rewards : int64 [num_rewards, 2]
        Offset in a row and dtype code of each reward.
    num_steps : int64 [lanes]
        Steps of each lane.
    counts : int64 [2]
        Tails and whole stacks.
    """
    found = np.zeros(2, np.int64)
    row, depth, body_bytes = piece[layout.H_ROWS], piece[layout.H_DEPTH], piece[layout.H_ROW_BYTES] - fixed_bytes
    for lane in range(num_steps.shape[0]):
        for index in range(num_steps[lane] + 1):
            is_last = index == num_steps[lane]
            mark, age = np.int64(load_u8(marks)), np.int64(load_u8(ages)) if depth > 1 else np.int64(0)
            status = _check_marks(mark, age, depth, index, is_last)
            if status != layout.OK:
                return status
            _write_fixed(piece, row, mark, age, found)
            copy_bytes(row + fixed_bytes, bodies, body_bytes)
            status = _check_records(piece, row, rewards, found, counts, is_last)
            if status != layout.OK:
                return status
            row, marks, ages, bodies = row + piece[layout.H_ROW_BYTES], marks + 1, ages + 1, bodies + body_bytes
    return layout.OK if found[0] == counts[0] and found[1] == counts[1] else layout.BAD_REFERENCE
