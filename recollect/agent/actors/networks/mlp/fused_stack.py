"""Dense layers as one kernel forward and one backward, for float32 on the CPU."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from recollect.agent.actors.networks.mlp.stack import Stack, beside, differentiable
from recollect.agent.kernels.choice_kernels import choose_best, draw_squashed
from recollect.agent.kernels.fusible import are_fusible
from recollect.agent.kernels.products import HAS_PRODUCTS
from recollect.agent.kernels.stack_kernels import follow_back, run_stack
from recollect.agent.kernels.threads import num_shares

# What kernels write into, whatever PyTorch's default dtype and device are.
_CPU: Final = "cpu"
_ROOM: Final[dict[str, Any]] = {"dtype": torch.float32, "device": torch.device("cpu")}

Lead = tuple[()] | tuple[int]
"""First axis of a result: the number of networks, or none for a single one."""


def is_fusible(stack: Stack, num: int, flat: Tensor, inputs: Sequence[Tensor]) -> bool:
    """Whether a kernel computes the stack: of plain float32 tensors on the processor that fit it and nobody traces."""
    if not HAS_PRODUCTS or not are_fusible(flat, *inputs) or torch.is_autocast_enabled(_CPU):
        return False
    first = inputs[0]
    fits = first.dim() == 2 or (first.dim() == 3 and len(first) == num)
    width = first.shape[-1] if len(inputs) == 1 else sum([each.shape[-1] for each in inputs])
    return fits and width == stack.widths[0] and flat.numel() == stack.num_weights and flat.is_contiguous()


def run_fused(stack: Stack, lead: Lead, flat: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """Columns of inputs side by side -> `[*lead, batch, out]`, without a gradient."""
    return _run_columns(stack, lead, flat, _columns_of(inputs))


def best_fused(stack: Stack, flat: Tensor, rows: np.ndarray) -> np.ndarray | None:
    """Place of the first network's highest result for each of float32 rows `[batch, in]`, int64 `[batch, 1]`.

    None where no kernel computes the stack.
    """
    if not _takes_rows(stack, flat, rows):
        return None
    places = np.empty((len(rows), 1), np.int64)
    choose_best(flat.data_ptr(), stack.shape, rows, num_shares(len(rows) * stack.num_products), places)
    return places


def drawn_fused(
    stack: Stack, flat: Tensor, rows: np.ndarray, bounds: tuple[float, float], generator: Generator
) -> Tensor | None:
    """A sample `[batch, out / 2]` of the squashed Gaussian that the first network describes for each of float32 rows.

    None where no kernel computes the stack. `bounds` are those of the deviations' logarithms.
    """
    if not _takes_rows(stack, flat, rows):
        return None
    actions = torch.empty(len(rows), stack.widths[-1] // 2, **_ROOM)
    noise = torch.empty_like(actions).normal_(generator=generator)
    num_threads = num_shares(len(rows) * stack.num_products)
    draw_squashed(flat.data_ptr(), stack.shape, rows, num_threads, noise.data_ptr(), *bounds, actions.data_ptr())
    return actions


def _takes_rows(stack: Stack, flat: Tensor, rows: np.ndarray) -> bool:
    """Whether a kernel computes the stack from rows as they came from environments."""
    if not HAS_PRODUCTS or not are_fusible(flat) or torch.is_autocast_enabled(_CPU):
        return False
    return rows.shape[1] == stack.widths[0] and flat.numel() == stack.num_weights and flat.is_contiguous()


def is_only(module: nn.Module, forward: Any) -> bool:
    """Whether a call of a module is one of this function: no hooks, and nobody's own in its place."""
    return not (
        getattr(module.forward, "__func__", None) is not forward
        or module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or module._compiled_call_impl is not None
        or _has_any_global_hook()  # type: ignore[no-untyped-call]
    )


def leaves_autograd(flat: Tensor, inputs: Sequence[Tensor]) -> bool:
    """Whether all that autograd would do with the gradient of a stack's results is to give its row one."""
    is_first = flat.is_leaf and flat.requires_grad and flat.grad is None and torch.is_grad_enabled()
    if not is_first or flat._backward_hooks or flat._post_accumulate_grad_hooks:
        return False
    return not any(each.requires_grad for each in inputs)


class FusedRun:
    """What a stack makes of inputs, outside of autograd, and the way of a gradient back to its row.

    Attributes
    ----------
    results : tensor `[num, batch, out]`
        Of all networks.
    """

    def __init__(self, stack: Stack, flat: Tensor, inputs: Sequence[Tensor]) -> None:
        self._stack, self._flat, self._columns = stack, flat, _columns_of(inputs)
        self._hidden = _room_for_hidden(stack, stack.num, self._columns)
        self.results = _run_columns(stack, (stack.num,), flat, self._columns, self._hidden)

    def put_gradient(self, slopes: Tensor) -> None:
        """Follow the gradient of the results `[num, batch, out]` back; the row's is in place then."""
        stack = self._stack
        row = _row_for(stack, stack.num, self._flat, self._columns.shape[-2])
        _follow_back(stack, stack.num, self._flat, self._columns, self._hidden, self.results, slopes, row)
        self._flat.grad = row


class FusedGradient(torch.autograd.Function):
    """`run_fused` with its gradient; as in `StackGradient`, what nobody needs is not computed."""

    @staticmethod
    def forward(ctx: Any, stack: Stack, lead: Lead, flat: Tensor, *inputs: Tensor) -> Tensor:
        """Columns of inputs side by side -> `[*lead, batch, out]` of the first networks."""
        columns = _columns_of(inputs)
        hidden = _room_for_hidden(stack, _num_of(lead), columns)
        out = _run_columns(stack, lead, flat, columns, hidden)
        ctx.stack, ctx.num = stack, _num_of(lead)
        ctx.save_for_backward(flat, out, hidden, columns, *inputs)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        stack, num, needs = ctx.stack, ctx.num, ctx.needs_input_grad[2:]
        flat, out, hidden, columns, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():
            slopes = gradient.view(num, *gradient.shape[-2:])
            return None, None, *differentiable(stack, num, (flat, *inputs), needs, slopes)
        begins = list(accumulate([each.shape[-1] for each in inputs], initial=0))
        needed = [index for index, is_needed in enumerate(needs[1:]) if is_needed]
        first, last = (begins[needed[0]], begins[needed[-1] + 1]) if needed else (0, 0)
        num_inputs, batch = _num_inputs(columns), columns.shape[-2]
        row = _row_for(stack, num, flat, batch) if needs[0] else None
        found = torch.empty(num_inputs, batch, last - first, **_ROOM) if needed else None
        gradient = gradient.contiguous()
        _follow_back(stack, num, flat, columns, hidden, out, gradient, row, found, first)
        if found is None:
            return None, None, row, *(None for _ in inputs)
        pieces = (
            _piece(found, each, begin - first) if is_needed else None
            for each, begin, is_needed in zip(inputs, begins, needs[1:], strict=False)
        )
        return None, None, row, *pieces


def _run_columns(stack: Stack, lead: Lead, flat: Tensor, columns: Tensor, hidden: Tensor | None = None) -> Tensor:
    """`run_fused`; the results of hidden layers, one layer after the other, are left in `hidden`, if that is given."""
    num, batch = _num_of(lead), columns.shape[-2]
    out = torch.empty(*lead, batch, stack.widths[-1], **_ROOM)
    run_stack(
        flat.data_ptr(),
        stack.shape,
        columns.data_ptr(),
        _num_inputs(columns),
        num,
        batch,
        0 if hidden is None else hidden.data_ptr(),
        out.data_ptr(),
        num_shares(num * batch * stack.num_products),
    )
    return out


def _follow_back(
    stack: Stack,
    num: int,
    flat: Tensor,
    columns: Tensor,
    hidden: Tensor,
    results: Tensor,
    slopes: Tensor,
    row: Tensor | None,
    found: Tensor | None = None,
    first: int = 0,
) -> None:
    """Write the gradients of the row into `row`, and those of columns from `first` on into `found`, if wanted."""
    batch = columns.shape[-2]
    follow_back(
        flat.data_ptr(),
        stack.shape,
        columns.data_ptr(),
        _num_inputs(columns),
        num,
        batch,
        hidden.data_ptr(),
        results.data_ptr(),
        slopes.data_ptr(),
        0 if row is None else row.data_ptr(),
        0 if found is None else found.data_ptr(),
        first,
        0 if found is None else found.shape[-1],
        num_shares(num * batch * stack.num_products),
    )


def _room_for_hidden(stack: Stack, num: int, columns: Tensor) -> Tensor:
    """Room for the results of hidden layers, which gradients need."""
    return torch.empty(num * columns.shape[-2] * stack.num_hidden, **_ROOM)


def _num_of(lead: Lead) -> int:
    return lead[0] if lead else 1


def _columns_of(inputs: Sequence[Tensor]) -> Tensor:
    """Columns side by side, `[batch, in]` for all networks, or `[num, batch, in]`."""
    return beside(inputs).contiguous()


def _num_inputs(columns: Tensor) -> int:
    """How many networks have columns of their own; 1 if all share them."""
    return len(columns) if columns.dim() == 3 else 1


def _row_for(stack: Stack, num: int, flat: Tensor, num_rows: int) -> Tensor:
    """Room for the gradients of all weights; networks that were left out have none."""
    is_written = num == stack.num and num_rows > 0
    return (torch.empty_like if is_written else torch.zeros_like)(flat, requires_grad=False)


def _piece(found: Tensor, like: Tensor, begin: int) -> Tensor:
    """Gradient of one of several inputs."""
    columns = found[..., begin : begin + like.shape[-1]]
    return columns if like.dim() == 3 else columns.squeeze(0)
