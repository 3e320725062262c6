"""Stacks of dense layers: several networks of one shape computed as one, and the single network."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import torch
from torch import Tensor, nn

from recollect.agent.actors.config import Activation

# In place: a layer's result before its activation is needed by nobody.
_ACTIVATIONS: Final[dict[Activation, Callable[[Tensor], Tensor]]] = {"relu": torch.relu_, "tanh": torch.tanh_}


class EnsembleNorm(nn.Module):
    """Layer normalisation with a scale and shift of its own for each of `num` networks."""

    def __init__(self, num: int, size: int) -> None:
        super().__init__()
        self.size = (size,)
        self.weight = nn.Parameter(torch.ones(num, 1, size))
        self.bias = nn.Parameter(torch.zeros(num, 1, size))

    def forward(self, inputs: Tensor) -> Tensor:
        """`[num, batch, size]`, or those of the first networks alone -> the same shape."""
        weight, bias = self.weight[: len(inputs)], self.bias[: len(inputs)]
        return torch.addcmul(bias, nn.functional.layer_norm(inputs, self.size), weight)


class EnsembleMLP(nn.Module):
    """`num` multilayer perceptrons of one shape, computed together: one batched product per layer.

    Parameters
    ----------
    num : int
        How many networks.
    sizes : sequence of int
        Widths: of the input, the hidden layers and the output.
    activation : {"relu", "tanh"}
        What follows each hidden layer.
    layer_norm : bool
        Normalise each hidden layer before its activation.
    activate_output : bool
        Treat the output like a hidden layer: for a stack that others build upon.

    Examples
    --------
    >>> EnsembleMLP(2, (17, 256, 1))(torch.zeros(5, 17)).shape
    torch.Size([2, 5, 1])
    """

    def __init__(
        self,
        num: int,
        sizes: Sequence[int],
        *,
        activation: Activation = "relu",
        layer_norm: bool = False,
        activate_output: bool = False,
    ) -> None:
        super().__init__()
        self.num = num
        self.out_features = sizes[-1]
        self._activate = _ACTIVATIONS[activation]
        self._num_active = len(sizes) - 1 if activate_output else len(sizes) - 2
        self.weights = nn.ParameterList(_drawn(num, wide, wide, narrow) for wide, narrow in pairwise(sizes))
        self.biases = nn.ParameterList(_drawn(num, wide, 1, narrow) for wide, narrow in pairwise(sizes))
        active_sizes = sizes[1 : 1 + self._num_active] if layer_norm else ()
        self.norms = nn.ModuleList(EnsembleNorm(num, size) for size in active_sizes)
        # Looking parameters up in their lists would take as long as multiplying a single row by them.
        self._layers = list(zip(self.weights, self.biases, strict=True))
        self._norms = list(self.norms)

    def forward(self, inputs: Tensor) -> Tensor:
        """`[batch, in]`, shared by all, or `[num, batch, in]` -> `[num, batch, out]`."""
        return self._run(inputs if inputs.dim() == 3 else inputs.expand(self.num, -1, -1), self._layers)

    def first(self, inputs: Tensor) -> Tensor:
        """`[batch, in]` -> `[batch, out]` of the first network, at the cost of one."""
        return self._run(inputs.unsqueeze(0), [(weight[:1], bias[:1]) for weight, bias in self._layers])[0]

    def _run(self, hidden: Tensor, layers: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        for index, (weight, bias) in enumerate(layers):
            hidden = _dense(hidden, weight, bias)
            if index < self._num_active:
                if self._norms:
                    hidden = self._norms[index](hidden)
                hidden = self._activate(hidden)
        return hidden

    def orthogonalise(self, output_gain: float) -> None:
        """Draw orthogonal weights and zero biases: gain sqrt(2) before an activation, else `output_gain`."""
        for index, (weight, bias) in enumerate(self._layers):
            for matrix in weight.data:
                nn.init.orthogonal_(matrix, math.sqrt(2) if index < self._num_active else output_gain)
            nn.init.zeros_(bias)


class MLP(EnsembleMLP):
    """One multilayer perceptron.

    Examples
    --------
    >>> MLP((17, 256, 6))(torch.zeros(5, 17)).shape
    torch.Size([5, 6])
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        activation: Activation = "relu",
        layer_norm: bool = False,
        activate_output: bool = False,
    ) -> None:
        super().__init__(1, sizes, activation=activation, layer_norm=layer_norm, activate_output=activate_output)

    def forward(self, inputs: Tensor) -> Tensor:
        """`[batch, in]` -> `[batch, out]`."""
        return super().forward(inputs)[0]


def _drawn(num: int, in_features: int, *shape: int) -> Tensor:
    """Draw weights or biases of `num` layers as `nn.Linear` does: uniform within 1 / sqrt(in_features)."""
    bound = 1 / math.sqrt(max(in_features, 1))
    return torch.empty(num, *shape).uniform_(-bound, bound)


def _dense(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`[num, batch, in]` -> `[num, batch, out]`, one batched product."""
    if weight.shape[-1] == 1:
        # Matrix products with one column are slow in both directions: ten times slower than this one's gradient.
        return (inputs * weight.mT).sum(-1, keepdim=True) + bias
    return torch.baddbmm(bias, inputs, weight)
