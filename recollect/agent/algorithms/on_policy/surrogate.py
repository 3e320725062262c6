"""One pure function for each equation of PPO and A2C; ratios are of the present policy to the one that acted."""

import torch
from torch import Tensor


def clipped_surrogate(log_ratio_t: Tensor, advantage_t: Tensor, clip: float) -> Tensor:
    """What PPO maximises for each step: nothing is gained by a ratio beyond 1 ± clip (equation 7).

    Schulman et al. (2017), arXiv 1707.06347.

    Parameters
    ----------
    log_ratio_t, advantage_t : tensor `[batch, 1]`
        Log-ratio and advantage of the action taken.
    clip : float
        How far from 1 a ratio pays.

    Returns
    -------
    tensor `[batch, 1]`
    """
    ratio_t = log_ratio_t.exp()
    return torch.minimum(ratio_t * advantage_t, ratio_t.clamp(1.0 - clip, 1.0 + clip) * advantage_t)


def weighted_policy_gain(log_prob_t: Tensor, acted_log_prob_t: Tensor, advantage_t: Tensor) -> Tensor:
    """What A2C maximises for each step: `min(1, ratio) A log pi`, whose weight takes no gradient.

    The policy gradient of IMPALA (Espeholt et al., 2018, arXiv 1802.01561, section 4.2); the ratio is 1 for actions
    of the present policy.

    Parameters
    ----------
    log_prob_t, acted_log_prob_t : tensor `[batch, 1]`
        Log-probability of the action taken, under the present policy and under the one that acted.
    advantage_t : tensor `[batch, 1]`
        Its advantage.

    Returns
    -------
    tensor `[batch, 1]`
    """
    weight_t = (log_prob_t.detach() - acted_log_prob_t).exp().clamp(max=1.0)
    return weight_t * advantage_t * log_prob_t


def clipped_value_loss(v_t: Tensor, old_v_t: Tensor, target_t: Tensor, clip: float) -> Tensor:
    """Squared error of each value, whose change since acting does not count beyond `clip`.

    Parameters
    ----------
    v_t, old_v_t, target_t : tensor `[batch, 1]`
        Present value, value at the time of acting, and return to predict.
    clip : float
        Largest change that counts.

    Returns
    -------
    tensor `[batch, 1]`
    """
    clipped_v_t = old_v_t + (v_t - old_v_t).clamp(-clip, clip)
    return torch.maximum((v_t - target_t).square(), (clipped_v_t - target_t).square())


def estimated_kl(log_ratio_t: Tensor) -> Tensor:
    """Mean KL divergence from the policy that acted to the present one, from the actions taken.

    `ratio - 1 - log ratio` is never negative, has the KL as its mean and varies less than the log-ratio.

    Parameters
    ----------
    log_ratio_t : tensor `[batch, 1]`
        Log-ratios of the actions taken.

    Returns
    -------
    tensor `[]`
    """
    return (torch.expm1(log_ratio_t) - log_ratio_t).mean()


def clipped_fraction(log_ratio_t: Tensor, clip: float) -> Tensor:
    """Share of the steps whose ratio is beyond 1 ± clip.

    Parameters
    ----------
    log_ratio_t : tensor `[batch, 1]`
        Log-ratios of the actions taken.
    clip : float
        The same as that of `clipped_surrogate`.

    Returns
    -------
    tensor `[]`
    """
    return ((log_ratio_t.exp() - 1.0).abs() > clip).float().mean()


def normalised(values: Tensor) -> Tensor:
    """Shift and scale values to mean 0 and deviation 1; a single one stays as it is."""
    if values.numel() < 2:
        return values
    return (values - values.mean()) / (values.std() + 1e-8)


def explained_variance(predicted: Tensor, actual: Tensor) -> Tensor:
    """Share of the variance of `actual` that `predicted` accounts for: 1 is all, 0 no better than a constant."""
    return 1.0 - (actual - predicted).var(correction=0) / actual.var(correction=0).clamp(min=1e-12)
