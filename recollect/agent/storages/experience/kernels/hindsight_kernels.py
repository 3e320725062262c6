"""Kernels of hindsight: index ended episodes, choose goal steps, fold rewritten rewards."""

import math
from typing import NamedTuple

import numba as nb
import numpy as np
from numba.np.unsafe.ndarray import to_fixed_tuple

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.kernels.pointers import copy_field, load_i32, load_i64, prefetch, store_i64
from recollect.agent.storages.experience.kernels.ring_layout import (
    HELPER,
    INLINED,
    KERNEL,
    field_at,
    head_of,
    oldest_of,
    row_after,
    row_at,
    store_number,
    tail_of,
    words_of,
)

# Strategies for the goal step.
FUTURE, FINAL, EPISODE, RANDOM = range(4)

# Words of the field that holds achieved goals.
G_BYTES, G_ROW, G_BLOCK, G_TAIL, G_GOALS, G_ACHIEVED, G_DESIRED, G_NUM_WORDS = range(8)

# What is known of each window that gets a new goal.
N_ROW, N_START, N_GOAL, N_BEGIN, N_USED, N_NUM_WORDS = range(6)

# What `patch` writes into a column.
W_COPY, W_RETURN, W_DISCOUNT, W_TERMINATED, W_DONE = range(5)

# Words of a lane's entry in the index of ends: the next entry to write, the oldest one that counts,
# and the first step that was not looked at yet.
X_NEXT, X_OLDEST, X_SEEN, X_NUM_WORDS = range(4)


class _LaneEnds(NamedTuple):
    """Where one lane's ring of ends lies, and which of its entries count."""

    at: int
    mask: int
    oldest: int
    following: int


_i64 = nb.int64[::1]
_table = nb.int64[:, ::1]


@nb.njit(nb.int64(_i64, _table, _table), **KERNEL)
def index_ends(header, ends, cursors):
    """Bring the index of ended streams up to date; returns the entries a lane needs if `ends` is too small.

    Parameters
    ----------
    ends : int64 [num_lanes, entries]
        Ring of the numbers of each lane's steps that end a stream; a power of two of entries.
    cursors : int64 [num_lanes, X_NUM_WORDS]
        Where each lane's ring begins and ends.
    """
    mask = ends.shape[1] - 1
    for lane in range(header[layout.H_NUM_LANES]):
        head = head_of(header, lane)
        first = oldest_of(header, lane)
        cursor = cursors[lane]
        cursor[X_SEEN] = max(cursor[X_SEEN], first)
        while cursor[X_OLDEST] < cursor[X_NEXT] and ends[lane, cursor[X_OLDEST] & mask] < first:
            cursor[X_OLDEST] += 1
        while cursor[X_SEEN] < head:
            if load_i32(row_at(header, lane, cursor[X_SEEN]) + layout.R_TAIL) != 0:
                if cursor[X_NEXT] - cursor[X_OLDEST] == ends.shape[1]:
                    return 2 * ends.shape[1]
                ends[lane, cursor[X_NEXT] & mask] = cursor[X_SEEN]
                cursor[X_NEXT] += 1
            elif cursor[X_SEEN] == head - 1:
                break  # the newest step may still be cut by what comes next
            cursor[X_SEEN] += 1
    return 0


@nb.njit(**INLINED)
def _entry(ends, entry):
    """Number of the step at an entry of a lane's ring of ends."""
    return load_i64(ends.at + 8 * (entry & ends.mask))


@nb.njit(**INLINED)
def _first_end_from(ends, number):
    """Entry of the first end at or after step `number`; one past the last if there is none.

    Episodes are often of like lengths, so the search starts where the entry would be then.
    """
    low, high = ends.oldest, ends.following
    if low == high:
        return low
    oldest, newest = _entry(ends, low), _entry(ends, high - 1)
    if number > newest or number <= oldest:
        return high if number > newest else low
    probe = low + (number - oldest) * (high - 1 - low) // (newest - oldest)
    reach = np.int64(1)
    while low < high:
        if _entry(ends, probe) < number:
            low = probe + 1
            probe = min(low + reach, (low + high) // 2)
        else:
            high = probe
            probe = max(high - reach, (low + high) // 2)
        reach *= 2
    return low


@nb.njit(**INLINED)
def _segment(header, ends, lane, number):
    """First and last step of the stream that step `number` belongs to."""
    entry = _first_end_from(ends, number)
    begin = oldest_of(header, lane)
    if entry > ends.oldest:
        begin = max(begin, _entry(ends, entry - 1) + 1)
    if entry < ends.following:
        return begin, _entry(ends, entry)
    return begin, head_of(header, lane) - 1


@nb.njit(**INLINED)
def _ask_for(header, field, step):
    """Address of a step's row; it and the goal in the row after it are read a moment later, so ask for them now."""
    row = row_at(header, step >> layout.ID_SHIFT, step & layout.ID_MASK)
    prefetch(row)
    prefetch(row + header[layout.H_ROW_BYTES] + max(field[G_ROW], 0))
    return row


@nb.njit(**HELPER)
def _choose_rows(ids, length, uniforms, rows, starts):
    """Choose sequences of a batch at random, each at most once; list their rows and the steps there."""
    num_sequences = len(ids) // length
    order = np.arange(num_sequences)
    for item in range(len(rows) // length):
        other = item + min(np.int64(uniforms[item] * (num_sequences - item)), num_sequences - item - 1)
        sequence = order[other]
        order[other] = order[item]
        for step in range(length):
            rows[item * length + step] = sequence * length + step
            starts[item * length + step] = ids[sequence * length + step]


@nb.njit(**HELPER)
def _choose(header, ends, cursors, strategy, length, ids, uniforms, anywhere, goals, begins):
    """Choose the goal step of each row; one for each stream that a sequence of `length` rows touches."""
    for row in range(len(ids)):
        lane, number = ids[row] >> layout.ID_SHIFT, ids[row] & layout.ID_MASK
        if length > 1 and row % length != 0:
            same_stream = load_i32(row_at(header, lane, ids[row - 1] & layout.ID_MASK) + layout.R_TAIL) == 0
            if same_stream or ids[row] == ids[row - 1]:
                goals[row], begins[row] = goals[row - 1], begins[row - 1]
                continue
        lane_ends = _LaneEnds(
            ends.ctypes.data + 8 * lane * ends.shape[1],
            ends.shape[1] - 1,
            cursors[lane, X_OLDEST],
            cursors[lane, X_NEXT],
        )
        begin, end = _segment(header, lane_ends, lane, number)
        begins[row] = (lane << layout.ID_SHIFT) | begin
        if strategy == RANDOM:
            goals[row] = anywhere[row]
            continue
        oldest = number if strategy == FUTURE else begin
        goal = end
        if strategy != FINAL:
            goal = min(end, oldest + np.int64(uniforms[row] * (end - oldest + 1)))
        goals[row] = (lane << layout.ID_SHIFT) | goal


@nb.njit(**INLINED)
def _next_field(header, field, row, lane):
    """Address of a carried field in the observation that the step at `row` led to."""
    tail = tail_of(header, row)
    if tail != 0:
        return tail + field[G_TAIL]
    return field_at(header, row_after(header, row, lane), field[G_ROW], field[G_BLOCK], field[G_BYTES])


@nb.njit(**INLINED)
def _read_window(header, field, limit, step, row, goal, steps_at, total):
    """List the steps of a window and what they achieved, behind `total` others; returns how many there are."""
    lane, number = step >> layout.ID_SHIFT, step & layout.ID_MASK
    most = min(limit, head_of(header, lane) - number)
    num_bytes = field[G_BYTES]
    for count in range(most):
        store_i64(steps_at + 8 * total, step + count)
        if num_bytes > 0:
            copy_field(field[G_ACHIEVED] + total * num_bytes, _next_field(header, field, row, lane), num_bytes)
            copy_field(field[G_DESIRED] + total * num_bytes, goal, num_bytes)
        total += 1
        if load_i32(row + layout.R_TAIL) != 0:
            return count + 1
        row = row_after(header, row, lane)
    return most


@nb.njit(
    nb.int64(_i64, _table, _table, nb.int64, nb.int64, nb.int64, _i64, _i64, nb.float64[:, ::1], _i64, _table, _i64),
    **KERNEL,
)
def relabel(header, ends, cursors, strategy, length, max_steps, field, ids, uniforms, anywhere, windows, steps):
    """Choose windows of a batch and goals for them, list their steps, read the goals and what the steps achieved.

    Parameters
    ----------
    ends, cursors
        The index of ended streams.
    strategy, length, max_steps : int
        Where goals come from, rows of a sequence, most steps of a window.
    field : int64 [G_NUM_WORDS]
        Where achieved goals are stored, and where to write each window's goal `[rows, ...]`, what each
        step achieved and the goal of its window `[steps, ...]`; nothing is read if its size is 0.
    ids : int64 [batch]
        First steps of the batch's windows.
    uniforms : float64 [2, rows]
        Numbers in [0, 1).
    anywhere : int64 [rows]
        Any stored steps.
    windows : int64 [N_NUM_WORDS, rows]
        Out: rows in the batch of the windows chosen, their first steps, the steps that led to their goals,
        their streams' first steps, and how many steps they have.
    steps : int64 [rows * most steps]
        Out: ids of the windows' steps, one window after another.

    Returns
    -------
    int
        Number of steps.
    """
    ring, place, num_rows = words_of(header), to_fixed_tuple(field, G_NUM_WORDS), windows.shape[1]
    starts, goals, used = windows[N_START], windows[N_GOAL], windows[N_USED]
    _choose_rows(ids, length, uniforms[0], windows[N_ROW], starts)
    rows = np.empty((2, num_rows), np.int64)
    for row in range(num_rows):
        rows[0, row] = _ask_for(ring, place, starts[row])
    _choose(ring, ends, cursors, strategy, length, starts, uniforms[1], anywhere, goals, windows[N_BEGIN])
    for row in range(num_rows):
        rows[1, row] = _ask_for(ring, place, goals[row])
    total = np.int64(0)
    for row in range(num_rows):
        goal = place[G_GOALS] + row * place[G_BYTES]
        if place[G_BYTES] > 0:
            copy_field(goal, _next_field(ring, place, rows[1, row], goals[row] >> layout.ID_SHIFT), place[G_BYTES])
        used[row] = _read_window(ring, place, max_steps, starts[row], rows[0, row], goal, steps.ctypes.data, total)
        total += used[row]
    return total


@nb.njit(
    nb.boolean(nb.float64[::1], nb.boolean[::1], _i64, nb.float64, nb.float64[::1], _i64, nb.boolean[::1]),
    **KERNEL,
)
def fold(rewards, terminations, used, gamma, totals, lengths, terminated):
    """Fold the rewards of ragged windows, each ended by its first termination; False if one is not finite.

    Parameters
    ----------
    rewards : float64 [steps]
        Rewards of all windows' steps, one window after another.
    terminations : bool [steps] or [0]
        Whether a step terminates the episode; empty if that is not known.
    used : int64 [rows]
        Steps of each window.
    totals, lengths, terminated : [rows]
        Out: the return of each window, the steps it holds, and whether it ends in a termination.
    """
    step = 0
    for row in range(len(used)):
        total, weight = 0.0, 1.0
        lengths[row] = used[row]
        terminated[row] = False
        for index in range(used[row]):
            if not math.isfinite(rewards[step + index]):
                return False
            total += weight * rewards[step + index]
            weight *= gamma
            if len(terminations) > 0 and terminations[step + index]:
                lengths[row] = index + 1
                terminated[row] = True
                break
        totals[row] = total
        step += used[row]
    return True


@nb.njit(nb.void(_i64, nb.float64[::1], _i64, nb.boolean[::1], nb.float64, _table), **KERNEL)
def patch(rows, returns, lengths, terminated, gamma, columns):
    """Write new values into `rows` of a batch's columns.

    Parameters
    ----------
    returns, lengths, terminated : [rows]
        What `fold` found.
    columns : int64 [num_columns, 4]
        What to write (one of the `W_*`), the address of the column, its dtype code or the bytes of a
        row, and the address of the values where they are copied.
    """
    for index in range(columns.shape[0]):
        kind, target, code = columns[index, 0], columns[index, 1], columns[index, 2]
        for item in range(len(rows)):
            row = rows[item]
            if kind == W_COPY:
                copy_field(target + row * code, columns[index, 3] + item * code, code)
            elif kind == W_RETURN:
                store_number(target, row, code, returns[item])
            elif kind == W_DISCOUNT:
                store_number(target, row, code, 0.0 if terminated[item] else gamma ** lengths[item])
            elif kind == W_TERMINATED:
                store_number(target, row, code, 1.0 if terminated[item] else 0.0)
            elif terminated[item]:
                store_number(target, row, code, 1.0)
