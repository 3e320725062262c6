"""The sum tree's arithmetic: refresh nodes, sum ranges, descend to a leaf.

The tree has a fan-out of 8, so that the children of a node share a cache line. Level 0 are the
leaves; the nodes of level `l` start at `offsets[l]`. Every inner node is the sum of its children,
recomputed in full, so nothing drifts.

What is asked of the eight children of a node is written in vector instructions, which the compiler does not find by
itself: a PER round trip of 256 rows takes 40 µs with them, 61 with plain loops (ADR 0004).
"""

from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.types.containers import Tuple
from numba.extending import intrinsic

from recollect.agent.storages.experience.kernels.pointers import load_f64, store_f64
from recollect.agent.storages.experience.kernels.ring_layout import HELPER, INLINED, KERNEL

SHIFT = 3
FANOUT = 8
_EIGHT = ir.VectorType(ir.DoubleType(), 8)


def _summed(builder: Any, vector: Any) -> Any:
    """Add the halves of a vector until one number is left."""
    size = vector.type.count
    while size > 1:
        size //= 2
        halves = []
        for begin in (0, size):
            mask = ir.Constant(ir.VectorType(ir.IntType(32), size), list(range(begin, begin + size)))
            halves.append(builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask))
        vector = builder.fadd(*halves)
    return builder.extract_element(vector, ir.IntType(32)(0))


@intrinsic
def sum_of_eight(typing_context: Any, address: Any) -> tuple[Any, Callable[..., Any]]:
    """Sum of the eight float64 at `address`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = builder.load(builder.inttoptr(args[0], _EIGHT.as_pointer()), align=8)
        return _summed(builder, values)

    return types.float64(types.int64), generate


def _running_sums(builder: Any, values: Any) -> Any:
    """Sums of the first numbers of a vector, each with those before it."""
    zeros = ir.Constant(_EIGHT, [0.0] * 8)
    sums = values
    for distance in (1, 2, 4):
        mask = ir.Constant(ir.VectorType(ir.IntType(32), 8), list(range(8 - distance, 16 - distance)))
        sums = builder.fadd(sums, builder.shuffle_vector(zeros, sums, mask))
    return sums


@intrinsic
def first_beyond(typing_context: Any, address: Any, residual: Any) -> tuple[Any, Callable[..., Any]]:
    """First positive one of the eight float64 at `address` whose running sum is larger than `residual`, 8 if none is.

    Returned with what is left of the residual after those before it. No branch depends on the data, so that the walks
    of a batch overlap.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        int32 = ir.IntType(32)
        undefined = ir.Constant(_EIGHT, ir.Undefined)
        values = builder.load(builder.inttoptr(args[0], _EIGHT.as_pointer()), align=8)
        sums = _running_sums(builder, values)
        first_lane = builder.insert_element(undefined, args[1], int32(0))
        residuals = builder.shuffle_vector(first_lane, undefined, ir.Constant(ir.VectorType(int32, 8), [0] * 8))
        is_positive = builder.fcmp_ordered(">", values, ir.Constant(_EIGHT, [0.0] * 8))
        is_beyond = builder.and_(builder.fcmp_ordered(">", sums, residuals), is_positive)
        bits = builder.zext(builder.bitcast(is_beyond, ir.IntType(8)), int32)
        child = builder.cttz(builder.or_(bits, int32(1 << 8)), ir.IntType(1)(1))
        before = builder.extract_element(builder.fsub(sums, values), builder.and_(child, int32(7)))
        found = [builder.zext(child, ir.IntType(64)), builder.fsub(args[1], before)]
        return context.make_tuple(builder, signature.return_type, found)

    return Tuple((types.int64, types.float64))(types.int64, types.float64), generate


@nb.njit(**INLINED)
def _refresh_node(sums, offsets, level, node):
    """Recompute a node of `level` >= 1 from its children."""
    children = sums.ctypes.data + 8 * (offsets[level - 1] + (node << SHIFT))
    store_f64(sums.ctypes.data + 8 * (offsets[level] + node), sum_of_eight(children))


@nb.njit(**INLINED)
def num_nodes(offsets, level):
    """Nodes of `level` >= 1 that have children; the rest pads the level to whole cache lines."""
    return (offsets[level] - offsets[level - 1]) >> SHIFT


@nb.njit(**HELPER)
def refresh(sums, offsets, leaves, num_leaves):
    """Recompute what stands above the first `num_leaves` of `leaves`."""
    for level in range(1, len(offsets) - 1):
        if num_nodes(offsets, level) <= num_leaves:
            for node in range(num_nodes(offsets, level)):
                _refresh_node(sums, offsets, level, node)
            continue
        previous = np.int64(-1)
        for index in range(num_leaves):
            node = leaves[index] >> (SHIFT * level)
            if node != previous:
                _refresh_node(sums, offsets, level, node)
            previous = node


@nb.njit(nb.void(nb.float64[::1], nb.int64[::1]), **KERNEL)
def rebuild(sums, offsets):
    """Recompute every inner node."""
    for level in range(1, len(offsets) - 1):
        for node in range(num_nodes(offsets, level)):
            _refresh_node(sums, offsets, level, node)


@nb.njit(**HELPER)
def _last_positive(children):
    """The last positive child, and the largest residual that it holds: where rounding overshot."""
    child = FANOUT - 1
    while child > 0 and load_f64(children + 8 * child) <= 0.0:
        child -= 1
    return child, np.nextafter(load_f64(children + 8 * child), 0.0)


@nb.njit(**INLINED)
def pick_child(children, residual):
    """Child in whose share `residual` falls, and what is left of it; never one of priority 0.

    Rounding may put the residual beside the node's own share: then it falls to the first or last child of any.
    `children` is the address of the eight: to hand the array on from a loop would cost two atomic operations.
    """
    child, left = first_beyond(children, residual)
    if child == FANOUT:
        return _last_positive(children)
    return child, left


@nb.njit(**INLINED)
def _add_node(sums_at, level, node, levels, nodes, ends, count, running):
    running += load_f64(sums_at + 8 * node)
    levels[count], nodes[count], ends[count] = level, node, running
    return running


@nb.njit(**HELPER)
def decompose(sums, offsets, begin, end, levels, nodes, ends, count, running):
    """Append to a list the fewest nodes that cover the leaves [begin, end).

    Parameters
    ----------
    levels, nodes, ends : [entries]
        Level and number of each listed node, and the sum of the list up to and including it.
    count, running
        Length and sum of the list so far.

    Returns
    -------
    count, running
        The same with the new nodes.
    """
    level = 0
    while begin < end:
        sums_at = sums.ctypes.data + 8 * offsets[level]
        while begin < end and begin & (FANOUT - 1):
            running = _add_node(sums_at, level, begin, levels, nodes, ends, count, running)
            begin += 1
            count += 1
        while begin < end and end & (FANOUT - 1):
            end -= 1
            running = _add_node(sums_at, level, end, levels, nodes, ends, count, running)
            count += 1
        begin >>= SHIFT
        end >>= SHIFT
        level += 1
    return count, running
