"""How probable actions are, and how uncertain a policy, as one step of autograd where a kernel fits."""

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

from recollect.agent.kernels.fusible import are_fusible
from recollect.agent.kernels.policy_kernels import judge, judge_back, judge_normal, judge_normal_back
from recollect.errors import SchemaError

HALF_LOG_2PI: Final = 0.5 * math.log(2.0 * math.pi)


def is_judgeable(logits: Tensor, action: Tensor) -> bool:
    """Whether a kernel judges actions `[batch, 1]` by logits `[batch, num_actions]`."""
    fits = logits.dim() == 2 and logits.shape[1] > 0 and action.shape == (len(logits), 1)
    return fits and action.dtype is torch.int64 and action.is_cpu and are_fusible(logits)


class Judge(torch.autograd.Function):
    """Logits and actions -> log-probabilities `[batch, 1]` of the actions, and entropies `[batch, 1]`."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        given, action, (rows, width) = logits.contiguous(), action.contiguous(), logits.shape
        log_probs, taken, entropies = torch.empty_like(given), given.new_empty(rows, 1), given.new_empty(rows, 1)
        places = log_probs.data_ptr(), taken.data_ptr(), entropies.data_ptr()
        if not judge(given.data_ptr(), action.data_ptr(), rows, width, *places):
            found = f"{int(action.min())} to {int(action.max())}"
            raise SchemaError(
                f"a batch has the actions {found}, expected 0 to {width - 1}: the policy chooses among {width}; store "
                "actions counted from 0, as the environment's space does"
            )
        ctx.save_for_backward(logits, action, log_probs, entropies)
        ctx.set_materialize_grads(False)
        return taken, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        logits, action, log_probs, entropies = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *_differentiable(_by_operators(logits, action), gradients, [logits]), None
        slopes = [None if each is None else each.contiguous() for each in gradients]
        found = torch.empty_like(log_probs)
        judge_back(
            *(log_probs.data_ptr(), action.data_ptr(), *log_probs.shape, entropies.data_ptr()),
            *(0 if each is None else each.data_ptr() for each in slopes),
            found.data_ptr(),
        )
        return found, None


def is_normally_judgeable(mean: Tensor, std: Tensor, action: Tensor) -> bool:
    """Whether a kernel judges actions `[batch, action]` by means of the same shape and deviations `[action]`."""
    fits = mean.dim() == 2 and action.shape == mean.shape and std.shape == mean.shape[1:]
    return fits and are_fusible(mean, std, action) and not action.requires_grad


class JudgeNormal(torch.autograd.Function):
    """Means, deviations and actions -> log-probabilities `[batch, 1]`, and entropies `[batch, 1]`."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, std: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        given, (rows, width) = [each.contiguous() for each in (mean, std, action)], mean.shape
        taken, entropies = given[0].new_empty(rows, 1), given[0].new_empty(rows, 1)
        judge_normal(*(each.data_ptr() for each in given), rows, width, taken.data_ptr(), entropies.data_ptr())
        ctx.save_for_backward(mean, std, action)
        ctx.set_materialize_grads(False)
        return taken, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        mean, std, action = given = ctx.saved_tensors
        if torch.is_grad_enabled():
            results = normal_log_prob((action - mean) / std, std), normal_entropy(mean, std)
            return *_differentiable(results, gradients, [mean, std]), None
        slopes = [None if each is None else each.contiguous() for each in gradients]
        columns = [each.contiguous() for each in given]
        of_mean, of_std = (torch.empty_like(each) for each in columns[:2])
        judge_normal_back(
            *(each.data_ptr() for each in columns),
            *mean.shape,
            *(0 if each is None else each.data_ptr() for each in slopes),
            *(of_mean.data_ptr(), of_std.data_ptr()),
        )
        return of_mean, of_std, None


def _differentiable(
    results: Sequence[Tensor], gradients: Sequence[Tensor | None], of: Sequence[Tensor]
) -> list[Tensor | None]:
    """Gradients that can be differentiated again, of what needs them."""
    pairs = [(result, each) for result, each in zip(results, gradients, strict=True) if each is not None]
    needed = [each for each in of if each.requires_grad]
    reached, slopes = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(reached, needed, slopes, create_graph=True, allow_unused=True))
    return [next(found) if each.requires_grad else None for each in of]


def normal_log_prob(noise: Tensor, std: Tensor) -> Tensor:
    """Log-probabilities `[batch, 1]` of draws that are `noise` deviations from their means."""
    return -torch.addcmul(std.log() + HALF_LOG_2PI, noise, noise, value=0.5).sum(-1, keepdim=True)


def normal_entropy(mean: Tensor, std: Tensor) -> Tensor:
    """Entropies `[batch, 1]`."""
    return (std.log() + (0.5 + HALF_LOG_2PI)).expand_as(mean).sum(-1, keepdim=True)


def _by_operators(logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    log_probs = logits.log_softmax(-1)
    return log_probs.gather(-1, action), -(log_probs.exp() * log_probs).sum(-1, keepdim=True)
