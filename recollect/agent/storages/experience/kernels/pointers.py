"""Raw memory for the kernels: copy, compare, load and store at an address.

The store's kernels work on addresses instead of typed arrays, so that one compilation serves every
schema and a call costs the unboxing of two or three arrays. Loads and stores assume no alignment.
"""

from collections.abc import Callable
from typing import Any, Final

import numba as nb
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# Bytes of a cache line, and how far ahead of a stream memory is asked for what it reads.
_LINE: Final = 64
_BYTES_AHEAD: Final = 2048


def _loader(number: types.Number) -> Any:
    @intrinsic
    def load(typing_context: Any, address: Any) -> tuple[Any, Callable[..., Any]]:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value_type = context.get_value_type(number)
            pointer = builder.inttoptr(args[0], value_type.as_pointer())
            return builder.load(pointer, align=1)

        return number(types.int64), generate

    return load


def _storer(number: types.Number) -> Any:
    @intrinsic
    def store(typing_context: Any, address: Any, value: Any) -> tuple[Any, Callable[..., Any]]:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value_type = context.get_value_type(number)
            pointer = builder.inttoptr(args[0], value_type.as_pointer())
            builder.store(args[1], pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, number), generate

    return store


load_u8 = _loader(types.uint8)
load_i32 = _loader(types.int32)
load_i64 = _loader(types.int64)
load_f32 = _loader(types.float32)
load_f64 = _loader(types.float64)
store_u8 = _storer(types.uint8)
store_i32 = _storer(types.int32)
store_i64 = _storer(types.int64)
store_f32 = _storer(types.float32)
store_f64 = _storer(types.float64)


@intrinsic
def copy_bytes(typing_context: Any, target: Any, source: Any, num_bytes: Any) -> tuple[Any, Callable[..., Any]]:
    """Copy `num_bytes` from the address `source` to the address `target`; they may not overlap."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = builder.inttoptr(args[0], cgutils.voidptr_t)
        origin = builder.inttoptr(args[1], cgutils.voidptr_t)
        cgutils.raw_memcpy(builder, to, origin, args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@nb.njit(nogil=True, cache=True, forceinline=True)
def copy_field(target: int, source: int, num_bytes: int) -> None:
    """As `copy_bytes`, for a few numbers: by moves of fixed sizes, which need no call and overlap at the end."""
    if num_bytes > 256:
        copy_bytes(target, source, num_bytes)
    elif num_bytes >= 32:
        last = num_bytes - 32
        for offset in range(0, last, 32):
            copy_bytes(target + offset, source + offset, 32)
        copy_bytes(target + last, source + last, 32)
    elif num_bytes >= 16:
        copy_bytes(target, source, 16)
        copy_bytes(target + num_bytes - 16, source + num_bytes - 16, 16)
    elif num_bytes >= 8:
        copy_bytes(target, source, 8)
        copy_bytes(target + num_bytes - 8, source + num_bytes - 8, 8)
    elif num_bytes >= 4:
        copy_bytes(target, source, 4)
        copy_bytes(target + num_bytes - 4, source + num_bytes - 4, 4)
    else:
        copy_bytes(target, source, num_bytes)


@intrinsic
def _stream_line(typing_context: Any, target: Any, source: Any) -> tuple[Any, Callable[..., Any]]:
    """Copy a cache line past the caches to a `target` that is the beginning of one."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer_type = ir.VectorType(ir.IntType(8), _LINE).as_pointer()
        value = builder.load(builder.inttoptr(args[1], pointer_type), align=1)
        store = builder.store(value, builder.inttoptr(args[0], pointer_type), align=_LINE)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def finish_streams(typing_context: Any) -> tuple[Any, Callable[..., Any]]:
    """Wait until what `stream_bytes` has copied is in memory, where other threads see it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def prefetch(typing_context: Any, address: Any) -> tuple[Any, Callable[..., Any]]:
    """Ask for the cache line at `address`, which will be read soon.

    It comes into the second level: the first has few reads under way, and a batch would wait for them.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte_pointer = builder.inttoptr(args[0], cgutils.voidptr_t)
        int32 = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, int32, int32, int32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        read, second_level, data_cache = int32(0), int32(2), int32(1)
        builder.call(function, [byte_pointer, read, second_level, data_cache])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@nb.njit(nogil=True, cache=True)
def stream_bytes(target: int, source: int, num_bytes: int) -> None:
    """As `copy_bytes`, but past the caches, for more than fits into them; `finish_streams` has to follow.

    A store through the caches reads what it is about to write over. What is read is asked for ahead, because the
    processor itself does so only up to the end of a page.
    """
    begin = min(-target % _LINE, num_bytes)
    end = begin + (num_bytes - begin) // _LINE * _LINE
    copy_bytes(target, source, begin)
    for offset in range(begin, end, _LINE):
        prefetch(source + offset + _BYTES_AHEAD)
        _stream_line(target + offset, source + offset)
    copy_bytes(target + end, source + end, num_bytes - end)


@nb.njit(nb.boolean(nb.int64, nb.int64, nb.int64), nogil=True, cache=True)
def same_bytes(left: int, right: int, num_bytes: int) -> bool:
    """Whether two blocks of `num_bytes` are equal bit for bit."""
    words = num_bytes >> 3
    for word in range(words):
        if load_i64(left + 8 * word) != load_i64(right + 8 * word):
            return False
    for byte in range(8 * words, num_bytes):
        if load_u8(left + byte) != load_u8(right + byte):
            return False
    return True
