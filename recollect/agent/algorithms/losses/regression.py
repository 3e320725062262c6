"""The critics' regression loss, as one kernel and without autograd, or as one autograd function, where it fits."""

import math
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from recollect.agent.algorithms.losses.targets import huber
from recollect.agent.kernels.fusible import are_fusible
from recollect.agent.kernels.loss_kernels import regress
from recollect.errors import SchemaError

# What kernels write into, whatever PyTorch's default dtype and device are.
_ROOM: Final[dict[str, Any]] = {"dtype": torch.float32, "device": torch.device("cpu")}


class Regression(NamedTuple):
    """What comes of predicting targets.

    Attributes
    ----------
    loss : tensor `[]`
        Mean over rows, weighted where rows have weights, summed over critics.
    sizes : tensor `[rows, 1]`
        Absolute errors, their mean over critics; without gradients.
    value : tensor `[]`
        Mean of what the critics predict; without gradients.
    """

    loss: Tensor
    sizes: Tensor
    value: Tensor


def fit(
    critics: Any,
    inputs: tuple[Tensor, ...],
    target: Tensor,
    weights: Tensor | None = None,
    action: Tensor | None = None,
    delta: float = math.inf,
) -> Regression:
    """Compare what critics make of inputs with what they are to predict, as `regression` does.

    Where all that autograd would do is to follow the loss back through dense layers, the gradients of their weights
    are in place already, and the loss has no graph: `backward` passes over it. Elsewhere they are left to that.
    """
    run = critics.run_apart(*inputs) if hasattr(critics, "run_apart") else None
    if run is None or not _is_fusible(run.results, target, weights, action):
        return regression(critics(*inputs), target, weights, action, delta)
    loss, sizes, value, slopes = _compare(run.results, target, weights, action, delta)
    run.put_gradient(slopes)
    loss.is_followed = True  # type: ignore[attr-defined]  # what is computed from it is not, and `backward` says so
    return Regression(loss, sizes, value)


def regression(
    values: Tensor, target: Tensor, weights: Tensor | None = None, action: Tensor | None = None, delta: float = math.inf
) -> Regression:
    """Compare what critics predict with what they are to predict.

    Parameters
    ----------
    values : tensor `[num_critics, rows, 1]`, or `[num_critics, rows, num_actions]`
        Predictions, of all actions if `action` says which counts.
    target : tensor `[rows, 1]`
        What they are to be.
    weights : tensor `[rows, 1]`, optional
        What each row counts.
    action : int64 tensor `[rows, 1]`, optional
        The action taken.
    delta : float
        Size from which errors count linearly; half of the square of those below.
    """
    if _is_fusible(values, target, weights, action):
        found: tuple[Tensor, Tensor, Tensor] = _Regression.apply(values, target, weights, action, delta)  # type: ignore[no-untyped-call]
        return Regression(*found)
    return _by_operators(values, target, weights, action, delta)


def _is_fusible(values: Tensor, target: Tensor, weights: Tensor | None, action: Tensor | None) -> bool:
    rows = (*values.shape[-2:-1], 1)
    if not are_fusible(values, target, *(() if weights is None else (weights,))) or values.dim() != 3:
        return False
    if target.requires_grad or target.shape != rows or (weights is not None and weights.shape != rows):
        return False
    if action is None:
        return values.shape[-1] == 1
    return action.dtype is torch.int64 and action.is_cpu and action.shape == rows


def _by_operators(
    values: Tensor, target: Tensor, weights: Tensor | None, action: Tensor | None, delta: float
) -> Regression:
    taken = values if action is None else values.gather(-1, action.expand(len(values), -1, -1))
    errors = target - taken
    losses = 0.5 * errors.square() if delta == math.inf else huber(errors, delta)
    loss = (losses if weights is None else losses * weights).sum() / losses.shape[-2]
    return Regression(loss, errors.detach().abs().mean(0), taken.detach().mean())


def _compare(
    values: Tensor, target: Tensor, weights: Tensor | None, action: Tensor | None, delta: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What `Regression` has, and the gradient of the loss `[num_critics, rows, num_actions]`, by a kernel."""
    num, rows, width = values.shape
    given = [None if each is None else each.contiguous() for each in (values, action, target, weights)]
    loss, value = torch.empty((), **_ROOM), torch.empty((), **_ROOM)
    slopes, sizes = torch.empty(num, rows, width, **_ROOM), torch.empty(rows, 1, **_ROOM)
    addresses = [0 if each is None else each.data_ptr() for each in given]
    results = loss.data_ptr(), slopes.data_ptr(), value.data_ptr(), sizes.data_ptr()
    if not regress(addresses[0], num, rows, width, *addresses[1:], delta, *results):
        found = f"{int(action.min())} to {int(action.max())}"  # type: ignore[union-attr]
        raise SchemaError(
            f"a batch has the actions {found}, expected 0 to {width - 1}: the critics value {width} actions; "
            "store actions counted from 0, as the environment's space does"
        )
    return loss, sizes, value, slopes


class _Regression(torch.autograd.Function):
    """`_by_operators` of plain float32 tensors on the processor, with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, target: Tensor, weights: Tensor | None, action: Tensor | None, delta: float
    ) -> Regression | tuple[Tensor, ...]:
        loss, sizes, value, slopes = _compare(values, target, weights, action, delta)
        ctx.delta = delta
        ctx.save_for_backward(slopes, values, target, weights, action)
        ctx.mark_non_differentiable(sizes, value)
        ctx.set_materialize_grads(False)
        return loss, sizes, value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        slopes, values, target, weights, action = ctx.saved_tensors
        if gradient is None:
            return None, None, None, None, None
        if torch.is_grad_enabled():
            loss = _by_operators(values, target, weights, action, ctx.delta).loss
            (slopes,) = torch.autograd.grad(loss, values, create_graph=True)
        return gradient * slopes, None, None, None, None
