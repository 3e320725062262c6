"""Kernels of the sum tree: set leaves, sum and minimum of ranges, draws in proportion.

The tree has a fan-out of 8, so that the children of a node share a cache line. Level 0 are the
leaves; the nodes of level `l` start at `offsets[l]`, those of the minima at `offsets[l] - offsets[1]`
(a leaf is its own minimum). A minimum counts positive leaves only and is 0 where there is none.
Every inner node is the sum of its children, computed anew, so nothing drifts.
"""

import math

import numba as nb
import numpy as np

SHIFT = 3
FANOUT = 8

OK = 0
BAD_ERROR = 1

_KERNEL = {"nogil": True, "cache": True}
_f64 = nb.float64[::1]
_i64 = nb.int64[::1]


@nb.njit(**_KERNEL)
def _priority(error, epsilon, alpha):
    base = np.float64(error) + epsilon
    if alpha == 1.0:
        return base
    if alpha == 0.0:
        return 1.0
    return base**alpha if base > 0.0 else 0.0


@nb.njit(**_KERNEL)
def _minimum(sums, mins, offsets, level, node):
    if level == 0:
        return sums[node]
    return mins[offsets[level] - offsets[1] + node]


@nb.njit(**_KERNEL)
def _refresh_node(sums, mins, offsets, level, node):
    """Recompute a node of `level` >= 1 from its children."""
    first_child = offsets[level - 1] + (node << SHIFT)
    total = 0.0
    smallest = 0.0
    for child in range(FANOUT):
        total += sums[first_child + child]
        value = _minimum(sums, mins, offsets, level - 1, (node << SHIFT) + child)
        if value > 0.0 and (smallest == 0.0 or value < smallest):
            smallest = value
    sums[offsets[level] + node] = total
    mins[offsets[level] - offsets[1] + node] = smallest


@nb.njit(**_KERNEL)
def _refresh(sums, mins, offsets, leaves, num_leaves):
    """Recompute what stands above the first `num_leaves` of `leaves`."""
    for level in range(1, len(offsets) - 1):
        num_nodes = offsets[level + 1] - offsets[level]
        if num_nodes <= num_leaves:
            for node in range(num_nodes):
                _refresh_node(sums, mins, offsets, level, node)
            continue
        previous = -1
        for index in range(num_leaves):
            node = leaves[index] >> (SHIFT * level)
            if node != previous:
                _refresh_node(sums, mins, offsets, level, node)
            previous = node


@nb.njit(nb.void(_f64, _f64, _i64), **_KERNEL)
def rebuild(sums, mins, offsets):
    """Recompute every inner node."""
    for level in range(1, len(offsets) - 1):
        for node in range(offsets[level + 1] - offsets[level]):
            _refresh_node(sums, mins, offsets, level, node)


@nb.njit(nb.void(_f64, _f64, _i64, _i64, nb.float64), **_KERNEL)
def set_leaves(sums, mins, offsets, leaves, value):
    """Give `leaves` one priority."""
    for index in range(len(leaves)):
        sums[leaves[index]] = value
    _refresh(sums, mins, offsets, leaves, len(leaves))


@nb.njit(nb.int64(nb.float32[::1]), **_KERNEL)
def check_errors(errors):
    """Whether errors are finite and not negative."""
    for index in range(len(errors)):
        if not (math.isfinite(errors[index]) and errors[index] >= 0.0):
            return BAD_ERROR
    return OK


@nb.njit(nb.void(nb.float32[::1], _i64, nb.float32[::1]), **_KERNEL)
def keep_errors(errors, leaves, new_errors):
    """Record new errors; of a leaf's duplicates the largest wins."""
    for index in range(len(leaves)):
        errors[leaves[index]] = -1.0
    for index in range(len(leaves)):
        leaf = leaves[index]
        errors[leaf] = max(errors[leaf], new_errors[index])


@nb.njit(nb.void(_f64, _f64, _i64, nb.float32[::1], _i64, nb.float64, nb.float64), **_KERNEL)
def apply_errors(sums, mins, offsets, errors, leaves, epsilon, alpha):
    """Set the priorities of `leaves` from their errors."""
    for index in range(len(leaves)):
        leaf = leaves[index]
        sums[leaf] = _priority(errors[leaf], epsilon, alpha)
    _refresh(sums, mins, offsets, leaves, len(leaves))


@nb.njit(**_KERNEL)
def _pick_child(sums, first_child, residual):
    """Child that holds `residual`, the last positive one if rounding overshoots; and what is left."""
    picked = 0
    left = residual
    last_positive = -1
    for child in range(FANOUT):
        value = sums[first_child + child]
        if value <= 0.0:
            continue
        last_positive = child
        picked = child
        if left < value:
            return picked, left
        left -= value
    if last_positive >= 0:
        left = np.nextafter(sums[first_child + last_positive], 0.0)
    return picked, left


@nb.njit(nb.int64(_f64, _i64, _f64, _i64, _f64), **_KERNEL)
def draw(sums, offsets, uniforms, leaves, priorities):
    """Draw one leaf for each stratum of the whole tree, in proportion to the priorities.

    The batch walks the tree level by level, so that its cache misses overlap.

    Parameters
    ----------
    uniforms : float64 [batch]
        Numbers in [0, 1), one for each of `batch` equal strata; overwritten.
    leaves, priorities : [batch]
        Out: the drawn leaves and their priorities.

    Returns
    -------
    int
        Nodes visited.
    """
    batch = len(uniforms)
    top = len(offsets) - 2
    total = sums[offsets[top]]
    for index in range(batch):
        uniforms[index] = (index + uniforms[index]) / batch * total
        leaves[index] = 0
    for level in range(top - 1, -1, -1):
        for index in range(batch):
            first_child = offsets[level] + (leaves[index] << SHIFT)
            child, left = _pick_child(sums, first_child, uniforms[index])
            leaves[index] = (leaves[index] << SHIFT) + child
            uniforms[index] = left
    for index in range(batch):
        priorities[index] = sums[leaves[index]]
    return batch * top


@nb.njit(**_KERNEL)
def _range_total(sums, mins, offsets, begin, end):
    """Sum and smallest positive leaf in [begin, end), and the nodes visited."""
    total = 0.0
    smallest = 0.0
    visited = 0
    level = 0
    while begin < end:
        while begin < end and begin & (FANOUT - 1):
            total += sums[offsets[level] + begin]
            value = _minimum(sums, mins, offsets, level, begin)
            if value > 0.0 and (smallest == 0.0 or value < smallest):
                smallest = value
            begin += 1
            visited += 1
        while begin < end and end & (FANOUT - 1):
            end -= 1
            total += sums[offsets[level] + end]
            value = _minimum(sums, mins, offsets, level, end)
            if value > 0.0 and (smallest == 0.0 or value < smallest):
                smallest = value
            visited += 1
        begin >>= SHIFT
        end >>= SHIFT
        level += 1
    return total, smallest, visited


@nb.njit(nb.int64(_f64, _f64, _i64, nb.int64[:, ::1], _f64, _f64), **_KERNEL)
def range_totals(sums, mins, offsets, ranges, cumulative, smallest):
    """Running sum over `ranges` [num_ranges, 2] of leaves, and the smallest positive leaf in `smallest` [1]."""
    running = 0.0
    low = 0.0
    visited = 0
    for index in range(ranges.shape[0]):
        total, least, nodes = _range_total(sums, mins, offsets, ranges[index, 0], ranges[index, 1])
        running += total
        cumulative[index] = running
        visited += nodes
        if least > 0.0 and (low == 0.0 or least < low):
            low = least
    smallest[0] = low
    return visited


@nb.njit(**_KERNEL)
def _draw_in_range(sums, offsets, begin, end, residual):
    """Walk [begin, end) from the left until `residual` falls into a node, then down to its leaf."""
    level = 0
    node = begin
    visited = 0
    best_level, best_node, best_left = -1, 0, 0.0
    while True:
        low = node << (SHIFT * level)
        if low >= end:
            break
        # Take the largest subtree that starts here and lies inside the range.
        while node & (FANOUT - 1) == 0 and low + (1 << (SHIFT * (level + 1))) <= end:
            node >>= SHIFT
            level += 1
        while low + (1 << (SHIFT * level)) > end:
            node <<= SHIFT
            level -= 1
        value = sums[offsets[level] + node]
        visited += 1
        if value > 0.0:
            best_level, best_node, best_left = level, node, np.nextafter(value, 0.0)
            if residual < value:
                best_left = residual
                break
            residual -= value
        node += 1
    while best_level > 0:
        best_level -= 1
        first_child = offsets[best_level] + (best_node << SHIFT)
        child, best_left = _pick_child(sums, first_child, best_left)
        best_node = (best_node << SHIFT) + child
        visited += 1
    return best_node, visited


@nb.njit(nb.int64(_f64, _i64, nb.int64[:, ::1], _f64, _f64, _i64, _f64), **_KERNEL)
def draw_in_ranges(sums, offsets, ranges, cumulative, uniforms, leaves, priorities):
    """Draw one leaf for each stratum of the union of `ranges`; as `draw` otherwise."""
    batch = len(uniforms)
    total = cumulative[-1]
    visited = 0
    current = 0
    for index in range(batch):
        target = (index + uniforms[index]) / batch * total
        while current < len(cumulative) - 1 and target >= cumulative[current]:
            current += 1
        chosen = current
        before = cumulative[chosen - 1] if chosen > 0 else 0.0
        while chosen > 0 and cumulative[chosen] == before:  # rounding led past the last range that has any
            chosen -= 1
            before = cumulative[chosen - 1] if chosen > 0 else 0.0
        leaf, nodes = _draw_in_range(
            sums, offsets, ranges[chosen, 0], ranges[chosen, 1], max(0.0, target - before)
        )
        leaves[index] = leaf
        priorities[index] = sums[leaf]
        visited += nodes
    return visited
