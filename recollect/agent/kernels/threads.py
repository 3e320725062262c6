"""Shares of a batch's rows on PyTorch's own threads, for kernels whose routine multiplies on one thread only.

Threads of our own would find the cores taken: PyTorch's look out for work some milliseconds after they had any.
"""

import os
from collections.abc import Callable
from typing import Any, Final

import numba as nb
import numpy as np
import torch
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from recollect.agent.kernels import INLINED
from recollect.agent.kernels.products import USES_THREADS, find_routine, whole_numbers_at

# Those of the OpenMP library that PyTorch is linked with.
_ROUTINES: Final = {name: find_routine(name) for name in ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")}
HAS_THREADS: Final = not USES_THREADS and None not in _ROUTINES.values()
"""Whether kernels can share out their rows."""
for _name, _place in _ROUTINES.items():
    binding.add_symbol(f"recollect_{_name}", _place or 1)
_MIN_WORK: Final = 2_000_000
"""Multiplications that a thread must have to be worth waking."""


# A forked process has none of the threads that OpenMP waits for: PyTorch's own operators hang there.
_forks: Final[list[int]] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _forks.append(1))


def num_shares(work: int) -> int:
    """Among how many threads to share out a number of multiplications."""
    if work < 2 * _MIN_WORK or not HAS_THREADS or _forks:
        return 1
    return min(torch.get_num_threads(), work // _MIN_WORK)


def on_threads(share: Any) -> Any:
    """Make what calls `share(place)` on several threads at once, and waits: `run(place, num_threads)` for kernels."""
    symbol = f"recollect{share.__name__}"
    # Compiled kernels name the function; where it is differs from process to process.
    binding.add_symbol(symbol, share.address)

    @intrinsic
    def run(typing_context: Any, place: Any, num_threads: Any) -> tuple[Any, Callable[..., Any]]:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
            function = builder.bitcast(cgutils.get_or_insert_function(builder.module, kind, symbol), pointer)
            operands = [function, builder.inttoptr(args[0], pointer), builder.trunc(args[1], whole), whole(0)]
            kind = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "recollect_GOMP_parallel"), operands)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return run


def _number_from(name: str) -> Any:
    """Make what asks for a whole number."""

    @intrinsic
    def ask(typing_context: Any) -> tuple[Any, Callable[..., Any]]:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.FunctionType(ir.IntType(32), [])
            found = builder.call(cgutils.get_or_insert_function(builder.module, kind, f"recollect_{name}"), [])
            return builder.sext(found, ir.IntType(64))

        return types.int64(), generate

    return ask


thread_number: Final = _number_from("omp_get_thread_num")
_num_threads: Final = _number_from("omp_get_num_threads")


@nb.njit(**INLINED)
def share_of(num_rows):
    """Return the rows of this thread's share: its first one, and where the next share begins."""
    number, num = thread_number(), _num_threads()
    return num_rows * number // num, num_rows * (number + 1) // num


@nb.njit(**INLINED)
def places_of(given, shape):
    """Return where arguments and a stack's shape are, as `arguments_at` reads it."""
    # Addresses are unsigned; among signed numbers they would become floats.
    return np.array([np.int64(given.ctypes.data), len(given), np.int64(shape.ctypes.data), len(shape)])


@nb.njit(**INLINED)
def arguments_at(place):
    """Return arguments and a stack's shape."""
    places = whole_numbers_at(place, 4)
    return whole_numbers_at(places[0], places[1]), whole_numbers_at(places[2], places[3])
