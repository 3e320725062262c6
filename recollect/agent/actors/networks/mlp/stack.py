"""The forward pass of dense layers, and its gradient as one autograd function."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from recollect.agent.actors.config import Activation

Pair = tuple[Tensor, Tensor]
"""Weight `[num, in, out]` and bias `[num, 1, out]` of a layer."""

_ATEN: Final = torch.ops.aten
_MANY: Final = 2**15
"""Numbers of a hidden layer from which on rows without gradients are looked for."""


def _tanh(values: Tensor) -> Tensor:
    """Compute tanh in place, to 2e-7 in float32: PyTorch's own takes three times as long, and is left to autograd."""
    return values.tanh_() if torch.is_grad_enabled() else values.mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0)


# In place: a layer's result before its activation is needed by nobody.
_ACTIVATIONS: Final = {"relu": torch.relu_, "tanh": _tanh}


class Stack:
    """Dense layers of several networks of one shape, whose weights and biases lie in one row of numbers.

    Parameters
    ----------
    num : int
        How many networks.
    sizes : sequence of int
        Widths: of the input, the hidden layers and the output.
    activation : {"relu", "tanh"}
        What follows the first `num_active` layers.
    """

    def __init__(self, num: int, sizes: Sequence[int], activation: Activation, num_active: int) -> None:
        self.num, self.num_active = num, num_active
        self._activation = activation
        self.widths = tuple(sizes)
        self.num_hidden = sum(sizes[1:-1])
        # Multiplications for one row of one network.
        self.num_products = sum(wide * narrow for wide, narrow in pairwise(sizes))
        # What the kernels know of a stack.
        self.shape = np.array([num, num_active, activation == "tanh", *sizes], np.int64)
        weights = [(num, wide, narrow) for wide, narrow in pairwise(sizes)]
        self.shapes = [*weights, *((num, 1, narrow) for narrow in sizes[1:])]
        self._sizes = [prod(shape) for shape in self.shapes]
        self.num_weights = sum(self._sizes)
        self._viewed: tuple[int, list[Pair]] | None = None

    def split(self, row: Tensor) -> list[Tensor]:
        """Views of a row: the weights of all layers, then the biases."""
        return [piece.view(shape) for piece, shape in zip(torch.split(row, self._sizes), self.shapes, strict=True)]

    def pairs(self, row: Tensor, num: int) -> list[Pair]:
        """Views of a row: weight and bias of each layer, of the first `num` networks."""
        pieces = self.split(row)
        if num < self.num:
            pieces = [piece[:num] for piece in pieces]
        half = len(pieces) // 2
        return list(zip(pieces[:half], pieces[half:], strict=True))

    def weights(self, flat: Tensor, num: int) -> list[Pair]:
        """`pairs` of the trained row, without gradients: views are kept, which small networks would notice."""
        if num < self.num:
            return self.pairs(flat.detach(), num)
        # As long as its views are kept no other row can have its address.
        if self._viewed is None or self._viewed[0] != flat.data_ptr():
            self._viewed = flat.data_ptr(), self.pairs(flat.detach(), num)
        return self._viewed[1]

    def run(self, inputs: Sequence[Tensor], pairs: Sequence[Pair], norms: Sequence[nn.Module] = ()) -> list[Tensor]:
        """Compute the results of all layers, `[num, batch, out]`, from columns side by side."""
        hidden = for_each(beside(inputs), len(pairs[0][0]))
        activate, results = _ACTIVATIONS[self._activation], []
        for index, (weight, bias) in enumerate(pairs):
            hidden = torch.baddbmm(bias, hidden, weight) if weight.shape[-1] > 1 else _column(hidden, weight, bias)
            if index < self.num_active:
                hidden = activate(norms[index](hidden) if norms else hidden)
            results.append(hidden)
        return results

    def through_activation(self, gradient: Tensor, result: Tensor) -> None:
        """Turn the gradient of an activation's result, in place, into that of what was activated."""
        if self._activation == "relu":
            _ATEN.threshold_backward.grad_input(gradient, result, 0, grad_input=gradient)
        else:
            _ATEN.tanh_backward.grad_input(gradient, result, grad_input=gradient)

    def __getstate__(self) -> dict[str, Any]:
        # Views would be copied apart from the row that they are of.
        return {**self.__dict__, "_viewed": None}


class StackGradient(torch.autograd.Function):
    """`Stack.run` with a gradient by hand: those of all weights are one row, which products are written into.

    Gradients that nobody needs are not computed. A gradient of the gradient is autograd's, of the stack run again.
    """

    @staticmethod
    def forward(ctx: Any, stack: Stack, num: int, flat: Tensor, *inputs: Tensor) -> Tensor:
        """Columns of inputs side by side -> `[num, batch, out]` of the first `num` networks."""
        results = stack.run(inputs, stack.weights(flat, num))
        ctx.stack, ctx.num = stack, num
        ctx.save_for_backward(flat, *results, *inputs)
        return results[-1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        stack, num, needs = ctx.stack, ctx.num, ctx.needs_input_grad[2:]
        flat, *saved = ctx.saved_tensors
        results, inputs = saved[: 1 - len(needs)], saved[1 - len(needs) :]
        if torch.is_grad_enabled():
            return None, None, *differentiable(stack, num, (flat, *inputs), needs, gradient)
        weights = [weight for weight, _ in stack.weights(flat, num)]
        gradient = gradient.clone() if stack.num_active == len(weights) else gradient.contiguous()
        if needs[0]:
            row = (torch.empty_like if num == stack.num else torch.zeros_like)(flat)
            gradient = _descend(stack, weights, results, gradient, stack.pairs(row, num), for_each(beside(inputs), num))
        else:
            row = None
            # To find the rows takes longer than to multiply few of them, and a GPU would have to be waited for.
            is_worth_it = num > 1 and results[0].numel() >= _MANY and flat.device.type == "cpu"
            descend = _descend_by_rows if is_worth_it else _descend
            gradient = descend(stack, weights, results, gradient)
        return None, None, row, *_of_inputs(inputs, needs[1:], gradient, weights[0])


def _descend(
    stack: Stack,
    weights: Sequence[Tensor],
    results: Sequence[Tensor],
    gradient: Tensor,
    slots: Sequence[Pair] = (),
    columns: Tensor | None = None,
) -> Tensor:
    """Follow a gradient, which is changed, from the last layer to the first; write those of weights into `slots`.

    Returns the gradient `[num, batch, out]` of what the first layer computes before its activation.
    """
    for index in reversed(range(len(weights))):
        if index < stack.num_active:
            stack.through_activation(gradient, results[index])
        if columns is not None:
            _put_gradients(results[index - 1] if index else columns, gradient, slots[index])
        if index:
            gradient = _before(gradient, weights[index])
    return gradient


def _descend_by_rows(stack: Stack, weights: Sequence[Tensor], results: Sequence[Tensor], gradient: Tensor) -> Tensor:
    """`_descend` without the rows that have no gradient: where the lowest value counts, it is one network's in each."""
    found = gradient.new_zeros(results[0].shape)
    for network, part in enumerate(gradient):
        rows = part.any(-1).nonzero().squeeze(-1)
        own = slice(network, network + 1)
        chosen = [result[own].index_select(1, rows) for result in results[: stack.num_active]]
        piece = _descend(stack, [weight[own] for weight in weights], chosen, part[None].index_select(1, rows))
        found[network].index_copy_(0, rows, piece[0])
    return found


def beside(inputs: Sequence[Tensor]) -> Tensor:
    """Columns of several inputs side by side."""
    return inputs[0] if len(inputs) == 1 else torch.cat(list(inputs), -1)


def for_each(columns: Tensor, num: int) -> Tensor:
    """Rows for each network `[num, batch, in]`, shared unless each has its own."""
    return columns if columns.dim() == 3 else columns.expand(num, -1, -1)


def _column(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`[num, batch, in]` -> `[num, batch, 1]`, for which batched products are five times slower than this."""
    return (inputs * weight.mT).sum(-1, keepdim=True) + bias


def _before(gradient: Tensor, weight: Tensor) -> Tensor:
    """Gradient of a layer's inputs `[num, batch, in]` from that of its results."""
    return gradient * weight.mT if weight.shape[-1] == 1 else torch.bmm(gradient, weight.mT)


def _put_gradients(inputs: Tensor, gradient: Tensor, slots: Pair) -> None:
    """Write the gradients of a layer's weight and bias into their places."""
    weight, bias = slots
    torch.sum(gradient, 1, keepdim=True, out=bias)
    if weight.shape[-1] > 1:
        torch.bmm(inputs.mT, gradient, out=weight)
    else:
        # With one row a product is ten times faster than with one column.
        torch.bmm(gradient.mT, inputs, out=weight.mT)


def _of_inputs(
    inputs: Sequence[Tensor], needs: Sequence[bool], gradient: Tensor, weight: Tensor
) -> list[Tensor | None]:
    """Gradients of the inputs that need one, from that of the first layer's results; only of their columns."""
    found: list[Tensor | None] = []
    stop = 0
    for each, is_needed in zip(inputs, needs, strict=True):
        start, stop = stop, stop + each.shape[-1]
        if is_needed:
            mine = _before(gradient, weight[:, start:stop])
            found.append(mine if each.dim() == 3 else mine.sum(0))
        else:
            found.append(None)
    return found


def differentiable(
    stack: Stack, num: int, tensors: Sequence[Tensor], needs: Sequence[bool], gradient: Tensor
) -> Iterator[Tensor | None]:
    """Gradients of the row and the inputs that can be differentiated again."""
    flat, *inputs = tensors
    result = stack.run(inputs, stack.pairs(flat, num))[-1]
    needed = [tensor for tensor, is_needed in zip(tensors, needs, strict=True) if is_needed]
    found = iter(torch.autograd.grad(result, needed, gradient, create_graph=True))
    return (next(found) if is_needed else None for is_needed in needs)
