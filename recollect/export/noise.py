"""Noise as an input: exported policies take what an algorithm would draw from given tensors."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

# Standard distributions that noise is drawn from.
NORMAL: Final = "normal"
UNIFORM: Final = "uniform"
EXPONENTIAL: Final = "exponential"
# What draws, in place or not, and from what.
_IN_PLACE: Final[Mapping[Callable[..., Any], str]] = {
    torch.Tensor.normal_: NORMAL,
    torch.Tensor.uniform_: UNIFORM,
    torch.Tensor.exponential_: EXPONENTIAL,
}
_NEW: Final[Mapping[Callable[..., Any], str]] = {
    torch.rand: UNIFORM,
    torch.rand_like: UNIFORM,
    torch.randn: NORMAL,
    torch.randn_like: NORMAL,
}


class Draw(NamedTuple):
    """One drawing of noise: the standard distribution that it is from, and its values."""

    distribution: str
    values: Tensor


class GivenNoise(TorchFunctionMode):
    """Answers each drawing of random numbers inside with the next of `given`; without any, draws and records them.

    Attributes
    ----------
    draws : list of Draw
        What was drawn, in order, from standard distributions.
    """

    def __init__(self, given: Iterable[Tensor] | None = None) -> None:
        super().__init__()
        self._given = None if given is None else iter(given)
        self.draws: list[Draw] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        if func in _NEW:
            return self._take(_NEW[func], lambda: func(*args, **options))
        if func not in _IN_PLACE:
            return func(*args, **options)
        generator = options.pop("generator", None)
        target, *numbers = args
        shift, scale = _shift_and_scale(func, numbers, options)
        noise = self._take(_IN_PLACE[func], lambda: func(torch.empty_like(target), generator=generator))
        return target.copy_(noise * scale + shift)

    def _take(self, distribution: str, draw: Callable[[], Tensor]) -> Tensor:
        values = draw() if self._given is None else next(self._given)
        self.draws.append(Draw(distribution, values))
        return values


def _shift_and_scale(func: Any, numbers: Sequence[float], options: Mapping[str, float]) -> tuple[float, float]:
    """What turns standard noise into that which a call asks for."""
    names = {
        torch.Tensor.normal_: {"mean": 0.0, "std": 1.0},
        torch.Tensor.uniform_: {"from": 0.0, "to": 1.0},
        torch.Tensor.exponential_: {"lambd": 1.0},
    }[func]
    first, *rest = ({**names, **dict(zip(names, numbers, strict=False)), **options}[name] for name in names)
    if func is torch.Tensor.exponential_:
        return 0.0, 1.0 / first
    return first, rest[0] if func is torch.Tensor.normal_ else rest[0] - first
