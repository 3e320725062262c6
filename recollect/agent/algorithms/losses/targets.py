"""One pure function for each equation of the off-policy algorithms.

Names carry their time: `r_t` is the reward of step t, `v_tp1` a value at the step after the window.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


def td_target(r_t: Tensor, discount_t: Tensor, v_tp1: Tensor) -> Tensor:
    """Target of a temporal difference: the discount, which is 0 after a termination, decides on bootstrapping.

    Parameters
    ----------
    r_t, discount_t, v_tp1 : tensor `[batch, 1]`
        Reward of the window, discount of what follows, and value where the window led to.

    Returns
    -------
    tensor `[batch, 1]`
    """
    return torch.addcmul(r_t, discount_t, v_tp1)


def best_action(q_t: Tensor, mask: Tensor | None = None) -> Tensor:
    """Action with the highest value, int64 `[batch, 1]`.

    Parameters
    ----------
    q_t : tensor `[batch, num_actions]`
        Value of each action.
    mask : bool tensor `[batch, num_actions]`, optional
        Which actions are allowed. Where none is, after an end, the first one stands for it.
    """
    return (q_t if mask is None else q_t.masked_fill(~mask, -math.inf)).argmax(-1, keepdim=True)


def epsilon_greedy_log_prob(
    q_t: Tensor, action_t: Tensor, greedy_t: Tensor, epsilon: float, mask: Tensor | None = None
) -> Tensor:
    """Log-probability `[batch, 1]` of actions that are greedy, but random in a share `epsilon` of the steps.

    Parameters
    ----------
    q_t : tensor `[batch, num_actions]`
        Value of each action.
    action_t, greedy_t : int tensor `[batch, 1]`
        Actions taken, and those of the highest value.
    epsilon : float
        Share of random actions. An action that could not be taken counts as very unlikely.
    mask : bool tensor `[batch, num_actions]`, optional
        Which actions are allowed.
    """
    num_allowed = float(q_t.shape[-1]) if mask is None else mask.sum(-1, keepdim=True).clamp(min=1)
    chance = epsilon / num_allowed + (1.0 - epsilon) * (action_t == greedy_t).to(q_t.dtype)
    return chance.clamp(min=torch.finfo(q_t.dtype).eps).log()


def double_q_value(q_tp1: Tensor, q_tp1_target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Target network's value of the action that the online network prefers (van Hasselt et al., 2015).

    Parameters
    ----------
    q_tp1, q_tp1_target : tensor `[batch, num_actions]`
        Action values of the online and of the target network.
    mask : bool tensor `[batch, num_actions]`, optional
        Which actions are allowed.

    Returns
    -------
    tensor `[batch, 1]`
    """
    return q_tp1_target.gather(-1, best_action(q_tp1, mask))


def soft_value(q_t: Tensor, log_prob_t: Tensor, temperature: Tensor) -> Tensor:
    """Value of a state with its entropy bonus, from one sampled action.

    Parameters
    ----------
    q_t, log_prob_t : tensor `[batch, 1]`
        Value and log-probability of the action; with `[batch, num_actions]`, of each action.
    temperature : tensor `[]`
        Weight of the entropy.

    Returns
    -------
    tensor of the shape of `q_t`
    """
    return q_t - temperature * log_prob_t


def expected_soft_value(q_t: Tensor, log_probs_t: Tensor, temperature: Tensor) -> Tensor:
    """Value of a state with its entropy bonus, over all its actions.

    Parameters
    ----------
    q_t, log_probs_t : tensor `[batch, num_actions]`
        Value and log-probability of each action.
    temperature : tensor `[]`
        Weight of the entropy.

    Returns
    -------
    tensor `[batch, 1]`
    """
    return (log_probs_t.exp() * soft_value(q_t, log_probs_t, temperature)).sum(-1, keepdim=True)


def huber(error: Tensor, delta: float) -> Tensor:
    """Half the square of small errors, linear beyond `delta`.

    Parameters
    ----------
    error : tensor `[num_critics, batch, 1]`
        Errors; any other shape does too.
    delta : float
        Size from which errors count linearly.

    Returns
    -------
    tensor `[num_critics, batch, 1]`
        A loss for each error.
    """
    return functional.huber_loss(error, torch.zeros_like(error), reduction="none", delta=delta)


def temperature_loss(log_temperature: Tensor, log_prob_t: Tensor, target_entropy: float | Tensor) -> Tensor:
    """Loss that raises the temperature while the policy's entropy is below its target, and lowers it above.

    Parameters
    ----------
    log_temperature : tensor `[]`
        What is learned.
    log_prob_t : tensor `[batch, 1]` or `[]`
        Log-probabilities of sampled actions, or their mean; no gradient flows into them.
    target_entropy : float or tensor `[]`
        Entropy to hold, in nats.

    Returns
    -------
    tensor `[]`
    """
    return -log_temperature * (log_prob_t.detach().mean() + target_entropy)


def smoothed_action(action: Tensor, noise: Tensor, limit: float) -> Tensor:
    """Target action of TD3: with noise clipped to `limit`, inside [-1, 1]."""
    return (action + noise.clamp(-limit, limit)).clamp(-1.0, 1.0)


def improved_weights(q_samples: Tensor, temperature: Tensor) -> Tensor:
    """Weights of sampled actions under MPO's improved, non-parametric policy.

    Parameters
    ----------
    q_samples : tensor `[num_samples, batch, 1]`
        Values of actions sampled from the old policy.

    Returns
    -------
    tensor `[num_samples, batch, 1]`
        Weights that sum to one over the samples.
    """
    return (q_samples / temperature).softmax(0)


def temperature_dual(q_samples: Tensor, temperature: Tensor, epsilon: float) -> Tensor:
    """Dual function of MPO's E-step `[batch, 1]`: its minimum bounds the KL to the old policy by `epsilon`."""
    log_mean_exp = (q_samples / temperature).logsumexp(0) - math.log(len(q_samples))
    return temperature * (epsilon + log_mean_exp)


class Bound(NamedTuple):
    """What a soft bound costs: a penalty for who has to keep it, and the loss of its multiplier, both `[]`."""

    penalty: Tensor
    loss: Tensor


def lagrangian(kl: Tensor, multiplier: Tensor, epsilon: float) -> Bound:
    """Bound `kl` by `epsilon`: the multiplier grows while the bound is broken.

    Parameters
    ----------
    kl : tensor `[]`
        Mean divergence over the batch; it gets its gradient from the penalty alone.
    multiplier : tensor `[]`
        Price of the divergence, not negative; it gets its gradient from the loss alone.
    epsilon : float
        The bound.

    Returns
    -------
    Bound
    """
    return Bound(multiplier.detach() * kl, multiplier * (epsilon - kl.detach()))


def td3_bc_losses(q_t: Tensor, action: Tensor, data_action: Tensor, alpha: float) -> Tensor:
    """Losses `[batch, 1]` of a policy that climbs values, scaled to a size of `alpha`, and stays close to the data.

    Parameters
    ----------
    q_t : tensor `[batch, 1]`
        Values of the policy's actions.
    action, data_action : tensor `[batch, action]`
        Actions of the policy, and those of the data.
    alpha : float
        Weight of the values.
    """
    scale = alpha / q_t.detach().abs().mean().clamp(min=1e-8)
    return (action - data_action).square().mean(-1, keepdim=True) - scale * q_t


def expectile_losses(error: Tensor, expectile: float) -> Tensor:
    """Squares of errors, of which those above 0 count `expectile` and those below the rest; of the shape of `error`."""
    return torch.where(error > 0, expectile, 1.0 - expectile) * error.square()


def advantage_weights(advantage: Tensor, scale: float, largest: float) -> Tensor:
    """Weights of actions by their advantage: `exp(scale * advantage)`, at most `largest`."""
    return (scale * advantage).exp().clamp(max=largest)
