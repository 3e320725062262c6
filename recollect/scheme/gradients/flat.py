"""Gradients as one flat row, which is sent as a whole and summed across workers."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from recollect.errors import SchemaError
from recollect.roles import Gradients


class FlatGradients:
    """Packs the gradients of an algorithm's parameters into one row, and takes the mean of summed rows.

    A row has the values of all gradients, zeros for those that are missing, and behind them for each
    parameter whether it has a gradient. So the sum of rows says how many workers had one, and the mean goes
    over those alone: an algorithm that trains its policy now and then need not do so everywhere at once.

    Parameters
    ----------
    parameters : sequence of nn.Parameter
        What is trained.

    Attributes
    ----------
    num_values : int
        Length of a row.

    Examples
    --------
    >>> flat = FlatGradients([nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))])
    >>> rows = flat.pack([torch.tensor([1.0, 2.0]), None]) + flat.pack([torch.tensor([3.0, 4.0]), torch.ones(1)])
    >>> flat.mean(rows)
    [tensor([2., 3.]), tensor([1.])]
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._shapes = [parameter.shape for parameter in parameters]
        self._sizes = [parameter.numel() for parameter in parameters]
        self.num_values = sum(self._sizes) + len(self._sizes)

    @property
    def num_bytes(self) -> int:
        """Bytes of a row."""
        return self.num_values * torch.float32.itemsize

    def pack(self, gradients: Gradients | None) -> Tensor:
        """Put gradients into a row of float32 `[num_values]`; zeros where there are none at all."""
        if gradients is None:
            return torch.zeros(self.num_values)
        if len(gradients) != len(self._sizes):
            raise SchemaError(f"expected {len(self._sizes)} gradients, one for each parameter, got {len(gradients)}")
        pieces = [
            torch.zeros(size) if gradient is None else gradient.detach().reshape(-1).float().cpu()
            for gradient, size in zip(gradients, self._sizes, strict=True)
        ]
        has = torch.tensor([gradient is not None for gradient in gradients], dtype=torch.float32)
        return torch.cat([*pieces, has])

    def mean(self, total: Tensor) -> list[Tensor | None] | None:
        """Take the mean of rows from their sum `[num_values]`; None if no row had a gradient."""
        *pieces, counts = torch.split(total, [*self._sizes, len(self._sizes)])
        numbers: list[float] = counts.tolist()
        if not any(numbers):
            return None
        return [
            (piece / number).reshape(shape) if number else None
            for piece, shape, number in zip(pieces, self._shapes, numbers, strict=True)
        ]
