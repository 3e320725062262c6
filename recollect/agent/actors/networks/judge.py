"""How probable choices are, and how uncertain, as one step of autograd where a kernel fits."""

from typing import Any

import torch
from torch import Tensor

from recollect.agent.kernels.fusible import are_fusible
from recollect.agent.kernels.policy_kernels import judge, judge_back
from recollect.errors import SchemaError


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
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        logits, action, log_probs, entropies = ctx.saved_tensors
        if torch.is_grad_enabled():
            results = _by_operators(logits, action)
            pairs = [(result, each) for result, each in zip(results, gradients, strict=True) if each is not None]
            of, given = zip(*pairs, strict=True)
            return torch.autograd.grad(of, logits, given, create_graph=True)[0], None
        slopes = [None if each is None else each.contiguous() for each in gradients]
        found = torch.empty_like(log_probs)
        judge_back(
            *(log_probs.data_ptr(), action.data_ptr(), *log_probs.shape, entropies.data_ptr()),
            *(0 if each is None else each.data_ptr() for each in slopes),
            found.data_ptr(),
        )
        return found, None


def _by_operators(logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    log_probs = logits.log_softmax(-1)
    return log_probs.gather(-1, action), -(log_probs.exp() * log_probs).sum(-1, keepdim=True)
