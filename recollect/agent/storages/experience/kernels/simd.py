"""What the sum tree asks of the eight children of a node, in vector instructions.

The compiler does not find them by itself: a PER round trip of 256 rows takes 40 µs with them, 61 with plain loops
(ADR 0004).
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.types.containers import Tuple
from numba.extending import intrinsic

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
