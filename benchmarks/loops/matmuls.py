"""The arithmetic of an update: the matrix products and convolutions that it makes, repeated by themselves."""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from recollect.agent.kernels.fusible import plain_operators

_ATEN: Final = torch.ops.aten
PRODUCTS: Final = frozenset(
    {
        _ATEN.mm.default,
        _ATEN.addmm.default,
        _ATEN.bmm.default,
        _ATEN.bmm.out,
        _ATEN.baddbmm.default,
        _ATEN.convolution.default,
        _ATEN.convolution_backward.default,
    }
)


class Recorder(TorchDispatchMode):
    """Keeps every product that is made inside, with operands of the same layout and numbers of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in PRODUCTS:
            self.calls.append((func, tree_map(_operand, args), tree_map(_operand, kwargs or {})))
        return func(*args, **(kwargs or {}))


def recorded(update: Callable[[], int]) -> Callable[[], int]:
    """Record the products of one call, and return a function that repeats them and returns the updates they stand for.

    Autograd calls them with the layouts that count, such as transposed weights, so these are kept. Our kernels, which
    multiply unseen, are left out for that call.
    """
    with plain_operators(), Recorder() as recorder:
        num_updates = update()

    @torch.no_grad()
    def repeat() -> int:
        for func, args, kwargs in recorder.calls:
            func(*args, **kwargs)
        return num_updates

    return repeat


def _operand(value: Any) -> Any:
    """Random numbers of the same sizes and strides, expanded ones included; what is no tensor as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    reach = sum((size - 1) * stride for size, stride in zip(value.size(), value.stride(), strict=True))
    return torch.rand(reach + 1, dtype=value.dtype).as_strided(value.size(), value.stride())
