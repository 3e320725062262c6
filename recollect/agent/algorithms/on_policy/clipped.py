"""The loss of PPO: one kernel and one step of autograd where it fits, operators elsewhere."""

import math
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from recollect import keys
from recollect.agent.algorithms.on_policy.surrogate import (
    clipped_fraction,
    clipped_surrogate,
    clipped_value_loss,
    estimated_kl,
    explained_variance,
    normalised,
)
from recollect.agent.kernels.fusible import are_fusible
from recollect.agent.kernels.policy_kernels import clip

# What kernels write into, whatever PyTorch's default dtype and device are.
_ROOM: Final[dict[str, Any]] = {"dtype": torch.float32, "device": torch.device("cpu")}
_COLUMNS: Final = (keys.LOG_PROB, keys.ADVANTAGE, keys.VALUE, keys.RETURN)
_TOLD: Final = ("loss_pi", "loss_v", "entropy", "kl", "clip_fraction", "explained_variance")


class Objective(NamedTuple):
    """How far policy and values may move, and what values and entropy weigh."""

    clip: float
    value_clip: float | None
    value_weight: float
    entropy_weight: float
    normalises: bool


class Clipped(NamedTuple):
    """The loss to descend `[]`, and what is told of it by name."""

    loss: Tensor
    told: dict[str, Tensor | float]


def clipped_loss(
    log_prob: Tensor, entropy: Tensor, values: Tensor, rows: dict[str, Tensor], objective: Objective
) -> Clipped:
    """Compare the present policy and critic with the steps of a rollout.

    Parameters
    ----------
    log_prob, entropy, values : tensor `[rows, 1]`
        Log-probabilities of the actions taken, entropies and values under the present networks.
    rows : dict of tensors `[rows, 1]`
        What was noted when they were taken.
    objective : Objective
        What the loss is made of.
    """
    given = log_prob, entropy, values, *[rows[key] for key in _COLUMNS]
    return (_by_kernel if _is_fusible(*given) else _by_operators)(objective, *given)


def _is_fusible(*columns: Tensor) -> bool:
    shape, (_, _, _, *given) = columns[0].shape, columns
    fits = len(shape) == 2 and shape[1] == 1 and shape[0] > 0 and all(each.shape == shape for each in columns)
    return fits and are_fusible(*columns) and not any(each.requires_grad for each in given)


def _by_kernel(objective: Objective, *given: Tensor) -> Clipped:
    loss, told = _Clip.apply(objective, *given)  # type: ignore[no-untyped-call]
    return Clipped(loss, dict(zip(_TOLD, told.tolist(), strict=True)))


def _by_operators(
    objective: Objective,
    log_prob: Tensor,
    entropy: Tensor,
    values: Tensor,
    acted: Tensor,
    advantages: Tensor,
    old_values: Tensor,
    returns: Tensor,
) -> Clipped:
    log_ratio = log_prob - acted
    advantages = normalised(advantages) if objective.normalises else advantages
    loss_pi = -clipped_surrogate(log_ratio, advantages, objective.clip).mean()
    if objective.value_clip is None:
        loss_v = (values - returns).square().mean()
    else:
        loss_v = clipped_value_loss(values, old_values, returns, objective.value_clip).mean()
    mean_entropy, seen = entropy.mean(), log_ratio.detach()
    kl, clipped = estimated_kl(seen), clipped_fraction(seen, objective.clip)
    told = (loss_pi, loss_v, mean_entropy, kl, clipped, explained_variance(old_values, returns))
    loss = loss_pi + objective.value_weight * loss_v - objective.entropy_weight * mean_entropy
    return Clipped(loss, {**dict(zip(_TOLD, told, strict=True))})


class _Clip(torch.autograd.Function):
    """`_by_operators` of plain float32 tensors on the processor, with its gradient."""

    @staticmethod
    def forward(ctx: Any, objective: Objective, *given: Tensor) -> tuple[Tensor, Tensor]:
        log_prob, entropy, values, acted, advantages, old_values, returns = [each.contiguous() for each in given]
        columns, rows = (log_prob, acted, advantages, entropy, values, old_values, returns), len(log_prob)
        told, loss = torch.empty(len(_TOLD), **_ROOM), torch.empty((), **_ROOM)
        slopes = torch.empty(3, rows, 1, **_ROOM)
        clip(
            *(each.data_ptr() for each in columns),
            *(rows, objective.normalises, objective.clip),
            math.inf if objective.value_clip is None else objective.value_clip,
            *(objective.value_weight, objective.entropy_weight),
            *(told.data_ptr(), loss.data_ptr(), slopes.data_ptr()),
        )
        ctx.objective = objective
        ctx.save_for_backward(slopes, *given)
        ctx.mark_non_differentiable(told)
        return loss, told

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        slopes, *given = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, *_differentiable(ctx.objective, given, gradient)
        of_log_prob, of_values, of_entropy = gradient * slopes
        is_warm = ctx.objective.entropy_weight > 0.0
        return None, of_log_prob, of_entropy if is_warm else None, of_values, *(None for _ in given[3:])


def _differentiable(objective: Objective, given: list[Tensor], gradient: Tensor) -> list[Tensor | None]:
    """Gradients that can be differentiated again."""
    loss = _by_operators(objective, *given).loss
    needed = [each for each in given if each.requires_grad]
    found = iter(torch.autograd.grad(loss, needed, gradient, create_graph=True, allow_unused=True))
    return [next(found) if each.requires_grad else None for each in given]
