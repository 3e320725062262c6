"""Numbers at an address and matrix products of them inside kernels: PyTorch's own routines, called without PyTorch.

PyTorch's operators cost several microseconds each before they begin. A kernel that calls the same routine pays for one
call, whatever the number of layers. A tensor's address takes 0.1 µs; an array of it four operators, and 1 µs.

There are two routines. `sgemm` is that of the BLAS library that PyTorch is built with, usually Intel's, which leaves
the vectors of other makers' processors half empty: on a Zen 5 it reaches 110 of 270 GFLOP/s. There we call what
PyTorch's attention multiplies blocks with, oneDNN's `brgemm`. It turns no operand, so we do.
"""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numba as nb
import numpy as np
import torch
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from recollect.agent.kernels import CALLBACK, INLINED

_MULTIPLY: Final = "recollect_multiply"
_BLAS: Final = "recollect_sgemm"
_BLOCKS: Final = "recollect_brgemm"
# `at::native::cpublas::brgemm` of float32, as C++ spells it.
BRGEMM: Final = "_ZN2at6native7cpublas6brgemmEllllllbPKfS3_Pfb"
# Rows of a block, and rows that are summed over at once. Other numbers are made of powers of two, since oneDNN keeps a
# compiled routine of 65 kB for every size it meets.
_LARGEST_BLOCK: Final = 256
_TILE: Final = 8
# Variables that limit oneDNN's instructions, and limits with which `brgemm` hands products on to BLAS.
_LIMITS: Final = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
_NARROW: Final = ("SSE41", "AVX")


def find_routine(name: str) -> int | None:
    """Address of a routine in PyTorch's library; None where its build has none."""
    folder = Path(torch.__file__).parent / "lib"
    for library in ("libtorch_cpu.so", "libtorch_cpu.dylib", "torch_cpu.dll"):
        if (folder / library).exists():
            try:
                routine = getattr(ctypes.CDLL(str(folder / library)), name)
            except (OSError, AttributeError):
                continue
            return ctypes.cast(routine, ctypes.c_void_p).value
    return None


def are_blocks_faster() -> bool:
    """Whether BLAS knows little of this processor, and nobody told PyTorch or oneDNN to do without vectors.

    A rule and no trial: products differ in their last bits, and runs of one machine must not.
    """
    is_limited = any(os.environ.get(name, "").upper() in _NARROW for name in _LIMITS)
    is_vectorised = torch.backends.cpu.get_cpu_capability() != "DEFAULT" and not is_limited
    has_blocks: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return binding.get_host_cpu_name().startswith("znver") and is_vectorised and has_blocks


_blas, _blocks = find_routine("sgemm_"), find_routine(BRGEMM)
_uses_blocks = _blocks is not None and are_blocks_faster()
HAS_PRODUCTS: Final = _uses_blocks or _blas is not None
"""Whether kernels can multiply: whether PyTorch's build exports a routine."""
USES_THREADS: Final = not _uses_blocks
"""Whether the routine uses as many threads as PyTorch; otherwise whoever calls it may."""
# Compiled kernels name the routines; where they are differs from process to process. Without one they must still link:
# LLVM ends the process over a name it cannot find. Nobody calls them then.
binding.add_symbol(_BLAS, _blas or 1)
binding.add_symbol(_BLOCKS, _blocks or 1)


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
def _sgemm(
    typing_context: Any,
    is_left_turned: Any,
    is_right_turned: Any,
    num_rows: Any,
    num_columns: Any,
    num_inner: Any,
    left: Any,
    right: Any,
    result: Any,
) -> tuple[Any, Callable[..., Any]]:
    """Call BLAS: `result = left @ right`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        left_turned, right_turned, rows, columns, inner, a, b, c = args
        flag, integer, real = ir.IntType(8), ir.IntType(32), ir.FloatType()

        def kept(value: Any, kind: Any) -> Any:
            place = cgutils.alloca_once(builder, kind)
            builder.store(value, place)
            return place

        def number(value: Any) -> Any:
            return kept(builder.trunc(value, integer), integer)

        def letter(is_turned: Any) -> Any:
            is_set = builder.icmp_signed("!=", is_turned, is_turned.type(0))
            return kept(builder.select(is_set, flag(ord("T")), flag(ord("N"))), flag)

        def width(is_turned: Any, turned: Any, plain: Any) -> Any:
            return number(builder.select(builder.icmp_signed("!=", is_turned, is_turned.type(0)), turned, plain))

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
            width(right_turned, inner, columns),
            matrix(a),
            width(left_turned, rows, inner),
            kept(real(0.0), real),
            matrix(c),
            number(columns),
        ]
        return _call(context, builder, _BLAS, operands)

    return types.void(*(types.int64,) * 8), generate


@intrinsic
def _brgemm(
    typing_context: Any,
    num_rows: Any,
    num_columns: Any,
    num_inner: Any,
    left_width: Any,
    is_sum: Any,
    left: Any,
    right: Any,
    result: Any,
) -> tuple[Any, Callable[..., Any]]:
    """Call oneDNN: `result = left @ right`, added to what is there for a sum; rows of `left` are `left_width` apart."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows, columns, inner, left_width, is_sum, a, b, c = args
        size, flag = ir.IntType(64), ir.IntType(32)
        places = [builder.inttoptr(address, ir.FloatType().as_pointer()) for address in (a, b, c)]
        # `right` has rows of as many numbers as the result.
        numbers = [rows, columns, inner, left_width, columns, columns]
        assert all(number.type == size for number in numbers)
        return _call(context, builder, _BLOCKS, [*numbers, builder.trunc(is_sum, flag), *places, flag(0)])

    return types.void(*(types.int64,) * 8), generate


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
    result: Any,
) -> tuple[Any, Callable[..., Any]]:
    """Compute `result = left @ right`, all float32 at addresses, without gaps between rows.

    `left` `[num_rows, num_inner]` and `right` `[num_inner, num_columns]` may be stored transposed: 1 says so, 0 not.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(context, builder, _MULTIPLY, args)

    return types.void(*(types.int64,) * 8), generate


def _call(context: Any, builder: Any, name: str, operands: Any) -> Any:
    """Call a routine by its symbol."""
    kind = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, name), operands)
    return context.get_dummy_value()


@nb.njit(**INLINED)
def _turned(matrix):
    """Copy of the transposed matrix; tiles of fixed size become vector instructions."""
    height, width = matrix.shape
    result = np.empty((width, height), np.float32)
    high, wide = height // _TILE * _TILE, width // _TILE * _TILE
    for column in range(0, wide, _TILE):
        for row in range(0, high, _TILE):
            for i in range(_TILE):
                for j in range(_TILE):
                    result[column + i, row + j] = matrix[row + j, column + i]
    for row in range(height):
        for column in range(wide if row < high else 0, width):
            result[column, row] = matrix[row, column]
    return result


@nb.njit(**INLINED)
def _block(num_left):
    """Size of the next block: the largest there is, or the largest power of two that is left."""
    size = np.int64(_LARGEST_BLOCK)
    while size > num_left:
        size //= 2
    return size


@nb.njit(**INLINED)
def _matrix_at(address, height, width):
    return numbers_at(address, height * width).reshape(height, width)


_SIGNATURE: Final = nb.void(*(nb.int64,) * 8)
_BYTES: Final = np.int64(4)


@nb.cfunc(_SIGNATURE, **CALLBACK)
def by_blas(is_left_turned, is_right_turned, num_rows, num_columns, num_inner, left, right, result):
    """`multiply` by BLAS, which refuses matrices without numbers."""
    if num_inner == 0:
        _matrix_at(result, num_rows, num_columns)[:] = np.float32(0.0)
    elif num_rows > 0 and num_columns > 0:
        _sgemm(is_left_turned, is_right_turned, num_rows, num_columns, num_inner, left, right, result)


@nb.njit(**INLINED)
def _put_blocks(left, right, results, is_sum):
    """Write `left @ right`, or add it for a sum, block by block of rows."""
    depth, width = right.shape
    begin = np.int64(0)
    while begin < len(left):
        height = _block(len(left) - begin)
        places = left.ctypes.data + begin * depth * _BYTES, results.ctypes.data + begin * width * _BYTES
        _brgemm(height, width, depth, depth, is_sum, places[0], right.ctypes.data, places[1])
        begin += height


@nb.cfunc(_SIGNATURE, **CALLBACK)
def by_blocks(is_left_turned, is_right_turned, num_rows, num_columns, num_inner, left, right, result):
    """`multiply` by blocks of rows, where PyTorch has `brgemm`.

    If the left operand is turned, a batch's rows are summed over: they come in any number, and in blocks too. Each
    block is turned by itself: oneDNN would compile a routine for every distance of rows as well.
    """
    columns = _matrix_at(right, num_inner, num_columns)
    if is_right_turned:
        columns = _turned(_matrix_at(right, num_columns, num_inner))
    results = _matrix_at(result, num_rows, num_columns)
    if num_inner == 0:
        results[:] = np.float32(0.0)
    elif num_columns > 0 and not is_left_turned:
        _put_blocks(_matrix_at(left, num_rows, num_inner), columns, results, np.int64(0))
    first = np.int64(0)
    while is_left_turned and num_columns > 0 and first < num_inner:
        end = first + _block(num_inner - first)
        rows = _turned(_matrix_at(left, num_inner, num_rows)[first:end])
        _put_blocks(rows, columns[first:end], results, np.int64(first > 0))
        first = end


_routine = by_blocks if _uses_blocks else by_blas
binding.add_symbol(_MULTIPLY, _routine.address)
