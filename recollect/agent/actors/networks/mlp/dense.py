"""Multilayer perceptrons: ensembles of one shape in one batched computation, and single networks."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from recollect.agent.actors.config import Activation
from recollect.agent.actors.networks.mlp.fused_stack import (
    FusedGradient,
    FusedRun,
    Lead,
    best_fused,
    drawn_fused,
    is_fusible,
    is_only,
    leaves_autograd,
    run_fused,
)
from recollect.agent.actors.networks.mlp.stack import Stack, StackGradient


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

    All weights and biases are one parameter, so that an optimiser, a target network or a norm passes over one tensor.
    Checkpoints have them by layer.

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

    Attributes
    ----------
    flat : nn.Parameter
        Weights of all layers, then biases of all layers.

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
        num_active = len(sizes) - 1 if activate_output else len(sizes) - 2
        self._stack = Stack(num, sizes, activation, num_active)
        weights = [_drawn(num, wide, wide, narrow) for wide, narrow in pairwise(sizes)]
        biases = [_drawn(num, wide, 1, narrow) for wide, narrow in pairwise(sizes)]
        self.flat = nn.Parameter(torch.cat([piece.flatten() for piece in (*weights, *biases)]))
        active_sizes = sizes[1 : 1 + num_active] if layer_norm else ()
        self.norms = nn.ModuleList(EnsembleNorm(num, size) for size in active_sizes)
        self._has_norms = len(self.norms) > 0

    @property
    def weights(self) -> list[Tensor]:
        """Weights of each layer `[num, in, out]`, views of the parameter."""
        return [weight for weight, _ in self._stack.pairs(self.flat, self.num)]

    @property
    def biases(self) -> list[Tensor]:
        """Biases of each layer `[num, 1, out]`, views of the parameter."""
        return [bias for _, bias in self._stack.pairs(self.flat, self.num)]

    def forward(self, *inputs: Tensor) -> Tensor:
        """Columns side by side, `[batch, in]`, shared by all, or `[num, batch, in]` -> `[num, batch, out]`."""
        return self._run(inputs, (self.num,))

    def first(self, *inputs: Tensor) -> Tensor:
        """`[batch, in]` -> `[batch, out]` of the first network, at the cost of one."""
        return self._run(inputs, ())

    def run_apart(self, *inputs: Tensor) -> FusedRun | None:
        """What `forward` gives, for those who bring its gradient without autograd; None where autograd must see it."""
        flat = self._row()
        if self._has_norms or not is_fusible(self._stack, self.num, flat, inputs):
            return None
        if not is_only(self, EnsembleMLP.forward) or not leaves_autograd(flat, inputs):
            return None
        return FusedRun(self._stack, flat, inputs)

    def best(self, rows: np.ndarray) -> np.ndarray | None:
        """Place of the first network's highest result for each of float32 rows `[batch, in]`, int64 `[batch, 1]`.

        None where no kernel can tell.
        """
        return None if self._has_norms else best_fused(self._stack, self._row(), rows)

    def draw_squashed(self, rows: np.ndarray, bounds: tuple[float, float], generator: Generator) -> Tensor | None:
        """A sample of the squashed Gaussian that the first network describes for each of float32 rows `[batch, in]`.

        None where no kernel can tell.
        """
        return None if self._has_norms else drawn_fused(self._stack, self._row(), rows, bounds, generator)

    def orthogonalise(self, output_gain: float) -> None:
        """Draw orthogonal weights and zero biases: gain sqrt(2) before an activation, else `output_gain`."""
        for index, (weight, bias) in enumerate(self._stack.pairs(self.flat.detach(), self.num)):
            for matrix in weight:
                nn.init.orthogonal_(matrix, math.sqrt(2) if index < self._stack.num_active else output_gain)
            nn.init.zeros_(bias)

    def _run(self, inputs: Sequence[Tensor], lead: Lead) -> Tensor:
        """Results of the first networks, `[*lead, batch, out]`."""
        stack, flat = self._stack, self._row()
        num = lead[0] if lead else 1
        if not self._has_norms and is_fusible(stack, num, flat, inputs):
            if not torch.is_grad_enabled():
                return run_fused(stack, lead, flat, inputs)
            fused: Tensor = FusedGradient.apply(stack, lead, flat, *inputs)  # type: ignore[no-untyped-call]
            return fused
        found = self._run_operators(inputs, num, flat)
        return found if lead else found.squeeze(0)

    def _run_operators(self, inputs: Sequence[Tensor], num: int, flat: Tensor) -> Tensor:
        """`[num, batch, out]` by PyTorch's operators."""
        stack = self._stack
        is_plain = self._has_norms or torch.compiler.is_compiling() or torch.is_autocast_enabled(flat.device.type)
        if torch.is_grad_enabled() and not is_plain:
            found: Tensor = StackGradient.apply(stack, num, flat, *inputs)  # type: ignore[no-untyped-call]
            return found
        pairs = stack.pairs(flat, num) if is_plain else stack.weights(flat, num)
        # Under autocast products are rounded, and what is made of them is not.
        return stack.run(inputs, pairs, list(self.norms) if self._has_norms else ())[-1].to(flat.dtype)

    def _row(self) -> Tensor:
        """Weights of all layers, then biases, to compute with."""
        return self.flat

    def _rows(self) -> dict[str, list[str]]:
        """Names of parameters that are such rows, and of the weights and biases in them, which checkpoints have."""
        indices = range(len(self._stack.shapes) // 2)
        return {"flat": [f"{kind}.{index}" for kind in ("weights", "biases") for index in indices]}

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for row, names in self._rows().items():
            pieces = self._stack.split(destination.pop(prefix + row))
            destination.update({prefix + name: piece for name, piece in zip(names, pieces, strict=True)})

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Put the layers of a checkpoint together; one that has others lacks a row, and its own are unexpected."""
        for row, names in self._rows().items():
            pieces = [state_dict[prefix + name] for name in names if prefix + name in state_dict]
            if [tuple(piece.shape) for piece in pieces] == self._stack.shapes:
                state_dict[prefix + row] = torch.cat([piece.flatten() for piece in pieces])
                for name in names:
                    del state_dict[prefix + name]
        super()._load_from_state_dict(state_dict, prefix, *args)


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

    def forward(self, *inputs: Tensor) -> Tensor:
        """Columns side by side, `[batch, in]` -> `[batch, out]`."""
        return self._run(inputs, ())


def _drawn(num: int, in_features: int, *shape: int) -> Tensor:
    """Draw weights or biases of `num` layers as `nn.Linear` does: uniform within 1 / sqrt(in_features)."""
    bound = 1 / math.sqrt(max(in_features, 1))
    return torch.empty(num, *shape).uniform_(-bound, bound)
