"""Kernels of hindsight: index ended episodes, choose goal steps, fold rewritten rewards."""

import numba as nb
import numpy as np

from recollect.agent.storages.experience.pointers import load_i32, load_i64
from recollect.agent.storages.experience.ring_layout import (
    H_FIRST,
    H_HEAD,
    H_NUM_LANES,
    ID_MASK,
    ID_SHIFT,
    KERNEL,
    R_TAIL,
    row_at,
)

# Strategies for the goal step.
FUTURE = 0
FINAL = 1
EPISODE = 2

# Words of a lane's entry in the index of ends: the next entry to write, the oldest one that counts,
# and the first step that was not looked at yet.
X_NEXT = 0
X_OLDEST = 1
X_SEEN = 2
X_NUM_WORDS = 3

_i64 = nb.int64[::1]
_table = nb.int64[:, ::1]


@nb.njit(nb.int64(_i64, _table, _table), **KERNEL)
def index_ends(header, ends, cursors):
    """Bring the index of ended streams up to date; returns the entries a lane needs if `ends` is too small.

    Parameters
    ----------
    ends : int64 [num_lanes, entries]
        Ring of the numbers of each lane's steps that end a stream.
    cursors : int64 [num_lanes, X_NUM_WORDS]
        Where each lane's ring begins and ends.
    """
    num_entries = ends.shape[1]
    for lane in range(header[H_NUM_LANES]):
        head = load_i64(header[H_HEAD] + 8 * lane)
        first = load_i64(header[H_FIRST] + 8 * lane)
        cursor = cursors[lane]
        cursor[X_SEEN] = max(cursor[X_SEEN], first)
        while cursor[X_OLDEST] < cursor[X_NEXT] and ends[lane, cursor[X_OLDEST] % num_entries] < first:
            cursor[X_OLDEST] += 1
        while cursor[X_SEEN] < head:
            if load_i32(row_at(header, lane, cursor[X_SEEN]) + R_TAIL) != 0:
                if cursor[X_NEXT] - cursor[X_OLDEST] == num_entries:
                    return 2 * num_entries
                ends[lane, cursor[X_NEXT] % num_entries] = cursor[X_SEEN]
                cursor[X_NEXT] += 1
            elif cursor[X_SEEN] == head - 1:
                break  # the newest step may still be cut by what comes next
            cursor[X_SEEN] += 1
    return 0


@nb.njit(**KERNEL)
def _first_end_from(ends, cursors, lane, number):
    """Entry of the first end of `lane` at or after step `number`; one past the last if there is none.

    Episodes are often of like lengths, so the search starts where the entry would be then.
    """
    num_entries = ends.shape[1]
    low, high = cursors[lane, X_OLDEST], cursors[lane, X_NEXT]
    if low == high:
        return low
    oldest, newest = ends[lane, low % num_entries], ends[lane, (high - 1) % num_entries]
    if number > newest or number <= oldest:
        return high if number > newest else low
    guess = low + (number - oldest) * (high - 1 - low) // (newest - oldest)
    reach = np.int64(1)
    if ends[lane, guess % num_entries] < number:
        low = guess + 1
        while low + reach < high and ends[lane, (low + reach) % num_entries] < number:
            low += reach + 1
            reach *= 2
        high = min(high, low + reach)
    else:
        high = guess
        while high - reach > low and ends[lane, (high - reach) % num_entries] >= number:
            high -= reach
            reach *= 2
        low = max(low, high - reach)
    while low < high:
        middle = (low + high) // 2
        if ends[lane, middle % num_entries] < number:
            low = middle + 1
        else:
            high = middle
    return low


@nb.njit(**KERNEL)
def _segment(header, ends, cursors, lane, number):
    """First and last step of the stream that step `number` belongs to."""
    num_entries = ends.shape[1]
    entry = _first_end_from(ends, cursors, lane, number)
    begin = load_i64(header[H_FIRST] + 8 * lane)
    if entry > cursors[lane, X_OLDEST]:
        begin = max(begin, ends[lane, (entry - 1) % num_entries] + 1)
    if entry < cursors[lane, X_NEXT]:
        return begin, ends[lane, entry % num_entries]
    return begin, load_i64(header[H_HEAD] + 8 * lane) - 1


@nb.njit(nb.void(_i64, _table, _table, nb.int64, _i64, nb.int64, nb.float64[::1], _i64, _i64), **KERNEL)
def choose_goals(header, ends, cursors, strategy, ids, length, uniforms, goals, begins):
    """Choose the goal step of each row; one for each stream that a sequence of `length` rows touches.

    Parameters
    ----------
    ids : int64 [rows]
        The steps, `length` consecutive ones to a sequence.
    uniforms : float64 [rows]
        Numbers in [0, 1).
    goals, begins : int64 [rows]
        Out: ids of the steps whose next observation is the goal, and of the streams' first steps.
    """
    for row in range(len(ids)):
        lane, number = ids[row] >> ID_SHIFT, ids[row] & ID_MASK
        if row % length != 0:
            same_stream = load_i32(row_at(header, lane, ids[row - 1] & ID_MASK) + R_TAIL) == 0
            if same_stream or ids[row] == ids[row - 1]:
                goals[row], begins[row] = goals[row - 1], begins[row - 1]
                continue
        begin, end = _segment(header, ends, cursors, lane, number)
        oldest = number if strategy == FUTURE else begin
        goal = end
        if strategy != FINAL:
            goal = min(end, oldest + np.int64(uniforms[row] * (end - oldest + 1)))
        goals[row] = (lane << ID_SHIFT) | goal
        begins[row] = (lane << ID_SHIFT) | begin


@nb.njit(
    nb.void(nb.float64[::1], nb.boolean[::1], _i64, nb.float64, nb.float64[::1], _i64, nb.boolean[::1]),
    **KERNEL,
)
def fold(rewards, terminations, used, gamma, totals, lengths, terminated):
    """Fold the rewards of ragged windows, each ended by its first termination.

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
            total += weight * rewards[step + index]
            weight *= gamma
            if len(terminations) > 0 and terminations[step + index]:
                lengths[row] = index + 1
                terminated[row] = True
                break
        totals[row] = total
        step += used[row]
