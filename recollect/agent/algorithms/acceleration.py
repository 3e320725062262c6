"""How losses are computed: eagerly, compiled, or with bfloat16 products."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, TypeVar, cast

import torch

from recollect.errors import ConfigError, RecollectWarning

Precision = Literal["float32", "bfloat16"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_CUDA: Final = "cuda"


def compiled(function: _Function, device: torch.device) -> _Function:
    """Compile a function of tensors, and its gradients; it stays as it is, with a warning, where nothing compiles."""
    if device.type != _CUDA and not _has_compiler():
        warnings.warn(
            "compile=True needs a C++ compiler and found none, so updates are not compiled; install g++ or clang++, or "
            "name yours in the environment variable CXX",
            RecollectWarning,
            stacklevel=3,
        )
        return function
    # Launching kernels one by one is what takes time on a GPU; a graph of them is launched at once.
    mode = "reduce-overhead" if device.type == _CUDA else None
    return cast(_Function, torch.compile(function, dynamic=False, mode=mode))


def products_in(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Let matrix products inside have operands of that precision; sums, losses and weights stay in float32."""
    return nullcontext() if precision == "float32" else torch.autocast(device.type, torch.bfloat16)


def check_precision(precision: Precision, device: torch.device, *, is_recurrent: bool) -> None:
    """Refuse a precision that networks do not have, and warn of one that the processor has to emulate."""
    if precision == "float32":
        return
    if is_recurrent:
        raise ConfigError(
            f"precision={precision!r} is for networks without memory, whose states would lose their digits "
            "from step to step; leave it at 'float32'"
        )
    if not multiplies_bfloat16(device):
        warnings.warn(
            f"precision={precision!r} is slower than float32 here: {device.type} has no products of bfloat16; leave "
            "it at 'float32'",
            RecollectWarning,
            stacklevel=3,
        )


def _has_compiler() -> bool:
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        return False
    return True


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether a device has products of bfloat16, and need not emulate them."""
    if device.type == _CUDA:
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
