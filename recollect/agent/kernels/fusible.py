"""Which tensors kernels support, and how to disable the kernels."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch
from torch import Tensor, nn

_PLAIN_TYPES: Final = frozenset({Tensor, nn.Parameter})
_switch: Final = {"is_on": True}


@contextmanager
def plain_operators() -> Iterator[None]:
    """Let everything inside use PyTorch's operators, for those who look at them or compare."""
    was_on, _switch["is_on"] = _switch["is_on"], False
    try:
        yield
    finally:
        _switch["is_on"] = was_on


def are_fusible(*tensors: Tensor) -> bool:
    """Whether all are plain float32 tensors on the processor, and nobody compiles, traces or maps what is done."""
    if not _switch["is_on"] or torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    for each in tensors:
        if each.dtype is not torch.float32 or not each.is_cpu or type(each) not in _PLAIN_TYPES:
            return False
    return True
