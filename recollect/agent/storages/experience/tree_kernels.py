"""The sum tree's arithmetic: refresh nodes, sum and minimum of ranges, descend to a leaf.

The tree has a fan-out of 8, so that the children of a node share a cache line. Level 0 are the
leaves; the nodes of level `l` start at `offsets[l]`, those of the minima at `offsets[l] - offsets[1]`
(a leaf is its own minimum). A minimum counts positive leaves only and is 0 where there is none.
Every inner node is the sum of its children, computed anew, so nothing drifts.
"""

import numba as nb
import numpy as np

SHIFT = 3
FANOUT = 8

_KERNEL = {"nogil": True, "cache": True}
_INLINED = {"nogil": True, "cache": True, "forceinline": True}


@nb.njit(**_INLINED)
def priority_of(error, epsilon, alpha):
    """Priority of a raw error."""
    base = np.float64(error) + epsilon
    if alpha == 1.0:
        return base
    return base**alpha if base > 0.0 else 0.0


@nb.njit(**_INLINED)
def _positive(value):
    return value if value > 0.0 else np.inf


@nb.njit(**_INLINED)
def _refresh_node(sums, mins, offsets, level, node):
    """Recompute a node of `level` >= 1 from its children."""
    child = offsets[level - 1] + (node << SHIFT)
    left = (sums[child] + sums[child + 1]) + (sums[child + 2] + sums[child + 3])
    right = (sums[child + 4] + sums[child + 5]) + (sums[child + 6] + sums[child + 7])
    sums[offsets[level] + node] = left + right
    smallest = np.inf
    if level == 1:
        for index in range(FANOUT):
            smallest = min(smallest, _positive(sums[child + index]))
    else:
        child -= offsets[1]
        for index in range(FANOUT):
            smallest = min(smallest, _positive(mins[child + index]))
    mins[offsets[level] - offsets[1] + node] = smallest if smallest < np.inf else 0.0


@nb.njit(**_INLINED)
def num_nodes(offsets, level):
    """Nodes of `level` >= 1 that have children; the rest pads the level to whole cache lines."""
    return (offsets[level] - offsets[level - 1]) >> SHIFT


@nb.njit(**_KERNEL)
def refresh(sums, mins, offsets, leaves, num_leaves):
    """Recompute what stands above the first `num_leaves` of `leaves`."""
    for level in range(1, len(offsets) - 1):
        if num_nodes(offsets, level) <= num_leaves:
            for node in range(num_nodes(offsets, level)):
                _refresh_node(sums, mins, offsets, level, node)
            continue
        previous = np.int64(-1)
        for index in range(num_leaves):
            node = leaves[index] >> (SHIFT * level)
            if node != previous:
                _refresh_node(sums, mins, offsets, level, node)
            previous = node


@nb.njit(nb.void(nb.float64[::1], nb.float64[::1], nb.int64[::1]), **_KERNEL)
def rebuild(sums, mins, offsets):
    """Recompute every inner node."""
    for level in range(1, len(offsets) - 1):
        for node in range(num_nodes(offsets, level)):
            _refresh_node(sums, mins, offsets, level, node)


@nb.njit(**_KERNEL)
def _last_positive(sums, first_child):
    """The last positive child, and the largest residual that it holds: where rounding overshot."""
    for child in range(FANOUT - 1, 0, -1):
        if sums[first_child + child] > 0.0:
            return child, np.nextafter(sums[first_child + child], 0.0)
    return 0, np.nextafter(sums[first_child], 0.0)


@nb.njit(**_INLINED)
def pick_child(sums, first_child, residual):
    """Child in whose share `residual` falls, and what is left of it; never one of priority 0."""
    running, before, child = 0.0, 0.0, 0
    # No branch depends on the data, so the walks of a batch overlap.
    for index in range(FANOUT):
        running += sums[first_child + index]
        passed = running <= residual
        before = running if passed else before
        child += passed
    if child == FANOUT:
        return _last_positive(sums, first_child)
    return child, residual - before


@nb.njit(**_INLINED)
def _minimum(sums, mins, offsets, level, node):
    return sums[node] if level == 0 else mins[offsets[level] - offsets[1] + node]


@nb.njit(**_KERNEL)
def range_total(sums, mins, offsets, begin, end):
    """Sum and smallest positive leaf (infinite if none) in [begin, end), and the nodes visited."""
    total = 0.0
    smallest = np.inf
    visited = 0
    level = 0
    while begin < end:
        while begin < end and begin & (FANOUT - 1):
            total += sums[offsets[level] + begin]
            smallest = min(smallest, _positive(_minimum(sums, mins, offsets, level, begin)))
            begin += 1
            visited += 1
        while begin < end and end & (FANOUT - 1):
            end -= 1
            total += sums[offsets[level] + end]
            smallest = min(smallest, _positive(_minimum(sums, mins, offsets, level, end)))
            visited += 1
        begin >>= SHIFT
        end >>= SHIFT
        level += 1
    return total, smallest, visited


@nb.njit(**_KERNEL)
def draw_in_range(sums, offsets, begin, end, residual):
    """Leaf in [begin, end) whose share holds `residual`, and the nodes visited.

    Walk the range from the left until `residual` falls into a node, then down to its leaf.
    """
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
        child, best_left = pick_child(sums, first_child, best_left)
        best_node = (best_node << SHIFT) + child
        visited += 1
    return best_node, visited
