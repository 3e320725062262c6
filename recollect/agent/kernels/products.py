"""Numbers at an address and matrix products of them inside kernels: PyTorch's own BLAS, called without PyTorch.

PyTorch's operators reach the processor's peak at 256 x 256, and cost several microseconds each before they begin. A
kernel that calls the same routine pays for one call, whatever the number of layers. A tensor's address takes 0.1 µs;
an array of it four operators, and 1 µs.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numba as nb
import torch
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from recollect.agent.kernels import INLINED

_SYMBOL: Final = "recollect_sgemm"


def _find_routine() -> int | None:
    """Address of `sgemm_` in PyTorch's library; None where its build has none."""
    folder = Path(torch.__file__).parent / "lib"
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib", "torch_cpu.dll"):
        if (folder / name).exists():
            try:
                routine = ctypes.CDLL(str(folder / name)).sgemm_
            except (OSError, AttributeError):
                continue
            return ctypes.cast(routine, ctypes.c_void_p).value
    return None


_ADDRESS: Final = _find_routine()
HAS_PRODUCTS: Final = _ADDRESS is not None
"""Whether kernels can multiply: whether PyTorch's build exports the routine."""
# Compiled kernels name the routine; where it is differs from process to process. Without one they must still link:
# LLVM ends the process over a name it cannot find. Nobody calls them then.
binding.add_symbol(_SYMBOL, _ADDRESS or 1)


def _pointer_to(kind: Any) -> Any:
    """Make what turns an address into a pointer to numbers of a kind."""

    @intrinsic
    def pointer(typing_context: Any, address: Any) -> tuple[Any, Callable[..., Any]]:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_data_type(kind).as_pointer())

        return types.CPointer(kind)(types.int64), generate  # type: ignore[attr-defined]

    return pointer


_pointer, _whole_pointer = _pointer_to(types.float32), _pointer_to(types.int64)


@nb.njit(**INLINED)
def numbers_at(address, count):
    """`count` float32 numbers at an address, as an array."""
    return nb.carray(_pointer(address), (count,))


@nb.njit(**INLINED)
def whole_numbers_at(address, count):
    """`count` int64 numbers at an address, as an array."""
    return nb.carray(_whole_pointer(address), (count,))


@intrinsic
def multiply(
    typing_context: Any,
    is_left_turned: Any,
    is_right_turned: Any,
    num_rows: Any,
    num_columns: Any,
    num_inner: Any,
    left: Any,
    right: Any,
    keep: Any,
    result: Any,
    left_width: Any,
    right_width: Any,
    result_width: Any,
) -> tuple[Any, Callable[..., Any]]:
    """Compute `result = left @ right + keep * result`, all float32 at addresses, rows one after the other.

    `left` `[num_rows, num_inner]` and `right` `[num_inner, num_columns]` may be stored transposed; widths are the
    numbers from one stored row to the next.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (left_turned, right_turned, rows, columns, inner, a, b, beta, c, a_width, b_width, c_width) = args
        flag, integer, real = ir.IntType(8), ir.IntType(32), ir.FloatType()

        def kept(value: Any, kind: Any) -> Any:
            place = cgutils.alloca_once(builder, kind)
            builder.store(value, place)
            return place

        def number(value: Any) -> Any:
            return kept(builder.trunc(value, integer), integer)

        def letter(is_turned: Any) -> Any:
            return kept(builder.select(is_turned, flag(ord("T")), flag(ord("N"))), flag)

        def matrix(address: Any) -> Any:
            return builder.inttoptr(address, real.as_pointer())

        # The routine has columns one after the other: it computes the transposed product from swapped operands.
        operands = [
            letter(right_turned),
            letter(left_turned),
            number(columns),
            number(rows),
            number(inner),
            kept(real(1.0), real),
            matrix(b),
            number(b_width),
            matrix(a),
            number(a_width),
            kept(beta, real),
            matrix(c),
            number(c_width),
        ]
        kind = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, _SYMBOL), operands)
        return context.get_dummy_value()

    size, address = types.int64, types.int64
    taken = (types.boolean, types.boolean, *(size,) * 3, address, address, types.float32, address, *(size,) * 3)
    return types.void(*taken), generate
