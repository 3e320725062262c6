"""One pure function for each equation of the algorithms that learn distributions of returns.

A distribution is a row of atoms: quantiles of the return, or the probabilities of returns on a fixed grid.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from recollect.agent.kernels.fusible import are_fusible
from recollect.agent.kernels.loss_kernels import regress_quantiles


def taken_atoms(atoms: Tensor, action: Tensor) -> Tensor:
    """Atoms of the actions that were taken.

    Parameters
    ----------
    atoms : tensor `[..., batch, num_actions, num_atoms]`
        Atoms of every action.
    action : int64 tensor `[batch, 1]`
        Which action was taken.

    Returns
    -------
    tensor `[..., batch, num_atoms]`
    """
    return atoms[..., torch.arange(len(action), device=action.device), action.squeeze(-1), :]


def quantile_huber(z_t: Tensor, target: Tensor, delta: float) -> Tensor:
    """Loss of each quantile against samples of the target (Dabney et al., 2017, equation 10), averaged over them.

    Divided by `delta`, as in later papers, so that errors beyond it count as much for any.

    Parameters
    ----------
    z_t : tensor `[..., batch, num_quantiles]`
        Estimates of the quantiles at the middles of `num_quantiles` equal shares.
    target : tensor `[batch, num_targets]`
        Returns, each as likely as the others.
    delta : float
        Size from which errors count linearly.

    Returns
    -------
    tensor `[..., batch, num_quantiles]`
    """
    if z_t.dim() > 1 and target.shape[:-1] == z_t.shape[-2:-1] and _is_fusible(z_t, target):
        found: Tensor = _QuantileHuber.apply(z_t, target, delta)  # type: ignore[no-untyped-call]
        return found
    return _by_operators(z_t, target, delta)


def _is_fusible(z_t: Tensor, target: Tensor) -> bool:
    return target.shape[-1] > 0 and are_fusible(z_t, target) and not target.requires_grad


def _by_operators(z_t: Tensor, target: Tensor, delta: float) -> Tensor:
    num = z_t.shape[-1]
    share = (torch.arange(num, device=z_t.device) + 0.5) / num
    errors = target.unsqueeze(-2) - z_t.unsqueeze(-1)  # [..., batch, num_quantiles, num_targets]
    sizes = functional.huber_loss(errors, torch.zeros_like(errors), reduction="none", delta=delta) / delta
    return ((share[:, None] - (errors.detach() < 0).float()).abs() * sizes).mean(-1)


class _QuantileHuber(torch.autograd.Function):
    """`quantile_huber` of plain float32 tensors on the processor, with its gradient."""

    @staticmethod
    def forward(ctx: Any, z_t: Tensor, target: Tensor, delta: float) -> Tensor:
        quantiles, samples = z_t.contiguous(), target.contiguous()
        losses, slopes = torch.empty_like(quantiles), torch.empty_like(quantiles)
        regress_quantiles(
            *(quantiles.data_ptr(), samples.data_ptr(), quantiles.shape[:-2].numel(), len(samples)),
            *(quantiles.shape[-1], samples.shape[-1], delta, losses.data_ptr(), slopes.data_ptr()),
        )
        ctx.delta = delta
        ctx.save_for_backward(slopes, z_t, target)
        return losses

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        slopes, z_t, target = ctx.saved_tensors
        if torch.is_grad_enabled():
            (slopes,) = torch.autograd.grad(_by_operators(z_t, target, ctx.delta).sum(), z_t, create_graph=True)
        return gradient * slopes, None, None


def truncated(z_tp1: Tensor, num_dropped: int) -> Tensor:
    """All critics' quantiles of the same state without the largest (Kuznetsov et al., 2020).

    Parameters
    ----------
    z_tp1 : tensor `[num_critics, batch, num_quantiles]`
        Quantiles of each critic.
    num_dropped : int
        How many of them are dropped for each critic.

    Returns
    -------
    tensor `[batch, num_critics * (num_quantiles - num_dropped)]`
    """
    num_critics, _, num_quantiles = z_tp1.shape
    together = z_tp1.movedim(0, 1).flatten(1)
    return together.sort(-1).values[:, : num_critics * (num_quantiles - num_dropped)]


def projected(probs_tp1: Tensor, returns: Tensor, support: Tensor) -> Tensor:
    """Probabilities of returns, put onto the grid that critics know (Bellemare et al., 2017, equation 7).

    Parameters
    ----------
    probs_tp1, returns : tensor `[batch, num_atoms]`
        Returns and how probable each is. Those beyond the grid count as its ends.
    support : tensor `[num_atoms]`
        The grid, with equal steps.

    Returns
    -------
    tensor `[batch, num_atoms]`
    """
    step = support[1] - support[0]
    places = (returns.clamp(support[0], support[-1]) - support[0]) / step
    grid = torch.arange(len(support), device=support.device)
    # A return between two places is shared between them by its distance.
    shares = (1 - (places.unsqueeze(-2) - grid[:, None]).abs()).clamp(min=0)  # [batch, on the grid, num_atoms]
    return (shares * probs_tp1.unsqueeze(-2)).sum(-1)
