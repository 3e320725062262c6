"""What policies say of actions, and what PPO makes of it. Tensors come as addresses of contiguous numbers.

Exponentials are those of the C library, which keep what is infinite: a ratio that overflows must show in the loss.
"""

import math

import numba as nb
import numpy as np

from recollect.agent.kernels import INLINED, KERNEL
from recollect.agent.kernels.products import numbers_at, whole_numbers_at

_address, _count, _flag, _real = nb.int64, nb.int64, nb.boolean, nb.float32
# In their order: the largest logit goes first, before digits are lost beside it.
_IN_ORDER = {**KERNEL, "fastmath": {"contract"}}
_ZERO, _HALF, _ONE, _TWO = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(2.0)
_HALF_LOG_2PI = np.float32(0.5 * math.log(2.0 * math.pi))


@nb.njit(nb.boolean(_address, _address, _count, _count, *(_address,) * 3), **_IN_ORDER)
def judge(logits, actions, rows, width, log_probs, taken, entropies):
    """Say how probable actions are, and how uncertain the choice is.

    Returns whether all actions exist; nothing is to be used if not.

    Parameters
    ----------
    logits : `[rows, width]`
        Of any scale.
    actions : int64 `[rows]`
        Which of them was taken.
    log_probs : `[rows, width]`
        Out: logits, normalised.
    taken, entropies : `[rows]`
        Out: log-probabilities of the actions, and entropies.
    """
    logit, action = numbers_at(logits, rows * width), whole_numbers_at(actions, rows)
    log_prob, chosen = numbers_at(log_probs, rows * width), numbers_at(taken, rows)
    entropy = numbers_at(entropies, rows)
    for row in range(rows):
        given, found = logit[row * width :][:width], log_prob[row * width :][:width]
        if not 0 <= action[row] < width:
            return False
        largest = given[0]
        for index in range(width):
            largest = given[index] if given[index] > largest else largest
        total, uncertainty = _ZERO, _ZERO
        for index in range(width):
            total += np.exp(given[index] - largest)
        log_total = np.log(total)
        for index in range(width):
            found[index] = given[index] - largest - log_total
            uncertainty -= np.exp(found[index]) * found[index]
        chosen[row] = found[action[row]]
        entropy[row] = uncertainty
    return True


@nb.njit(nb.void(_address, _address, _count, _count, *(_address,) * 4), **KERNEL)
def judge_back(log_probs, actions, rows, width, entropies, taken_slopes, entropy_slopes, found):
    """Follow the gradients of `judge`'s results back.

    Parameters
    ----------
    log_probs, actions, rows, width, entropies
        As `judge` had and left them.
    taken_slopes, entropy_slopes : `[rows]`
        Gradients of the log-probabilities and of the entropies; 0 where there are none.
    found : `[rows, width]`
        Out: gradients of the logits.
    """
    log_prob, action = numbers_at(log_probs, rows * width), whole_numbers_at(actions, rows)
    entropy, gradient = numbers_at(entropies, rows), numbers_at(found, rows * width)
    of_taken = numbers_at(taken_slopes, rows if taken_slopes else np.int64(0))
    of_entropy = numbers_at(entropy_slopes, rows if entropy_slopes else np.int64(0))
    for row in range(rows):
        given, slope = log_prob[row * width :][:width], gradient[row * width :][:width]
        weight = of_taken[row] if taken_slopes else _ZERO
        warmth = of_entropy[row] if entropy_slopes else _ZERO
        for index in range(width):
            slope[index] = -np.exp(given[index]) * (weight + warmth * (given[index] + entropy[row]))
        slope[action[row]] += weight


@nb.njit(nb.void(_address, _address, _address, _count, _count, _address, _address), **KERNEL)
def judge_normal(means, stds, actions, rows, width, taken, entropies):
    """Say how probable actions of independent normal distributions are, and how uncertain those.

    Parameters
    ----------
    means, actions : `[rows, width]`
        Means, and numbers that were drawn.
    stds : `[width]`
        Deviations.
    taken, entropies : `[rows]`
        Out: log-probabilities of the actions, and entropies, summed over the action.
    """
    mean, action = numbers_at(means, rows * width), numbers_at(actions, rows * width)
    std, chosen, entropy = numbers_at(stds, width), numbers_at(taken, rows), numbers_at(entropies, rows)
    size = _ZERO
    for index in range(width):
        size += np.log(std[index]) + _HALF_LOG_2PI
    for row in range(rows):
        total = _ZERO
        for index in range(width):
            normal = (action[row * width + index] - mean[row * width + index]) / std[index]
            total += normal * normal
        chosen[row] = -_HALF * total - size
        entropy[row] = size + _HALF * np.float32(width)


@nb.njit(nb.void(*(_address,) * 3, _count, _count, *(_address,) * 4), **KERNEL)
def judge_normal_back(means, stds, actions, rows, width, taken_slopes, entropy_slopes, mean_slopes, std_slopes):
    """Follow the gradients of `judge_normal`'s results back.

    Parameters
    ----------
    means, stds, actions, rows, width
        As `judge_normal` had them.
    taken_slopes, entropy_slopes : `[rows]`
        Gradients of the log-probabilities and of the entropies; 0 where there are none.
    mean_slopes, std_slopes : `[rows, width]` and `[width]`
        Out: gradients of means and deviations.
    """
    mean, action = numbers_at(means, rows * width), numbers_at(actions, rows * width)
    std, of_std = numbers_at(stds, width), numbers_at(std_slopes, width)
    of_mean = numbers_at(mean_slopes, rows * width)
    of_taken = numbers_at(taken_slopes, rows if taken_slopes else np.int64(0))
    of_entropy = numbers_at(entropy_slopes, rows if entropy_slopes else np.int64(0))
    of_std[:] = _ZERO
    for row in range(rows):
        weight = of_taken[row] if taken_slopes else _ZERO
        warmth = of_entropy[row] if entropy_slopes else _ZERO
        for index in range(width):
            normal = (action[row * width + index] - mean[row * width + index]) / std[index]
            of_mean[row * width + index] = weight * normal / std[index]
            of_std[index] += weight * (normal * normal - _ONE) + warmth
    for index in range(width):
        of_std[index] /= std[index]


@nb.njit(**INLINED)
def _mean(values):
    """Mean of numbers, added up in twice their precision."""
    total = 0.0
    for index in range(len(values)):
        total += values[index]
    return total / len(values)


@nb.njit(**INLINED)
def _squares(values, mean):
    """Sum of the squared distances from a mean."""
    total = 0.0
    for index in range(len(values)):
        distance = values[index] - mean
        total += distance * distance
    return total


@nb.njit(**INLINED)
def _explained(predicted, actual):
    """Share of a variance that predictions account for."""
    rows, mean, total = len(actual), 0.0, 0.0
    for row in range(rows):
        mean += (actual[row] - predicted[row]) / rows
    for row in range(rows):
        distance = actual[row] - predicted[row] - mean
        total += distance * distance
    return 1.0 - total / rows / max(_squares(actual, _mean(actual)) / rows, 1e-12)


@nb.njit(nb.void(*(_address,) * 7, _count, _flag, *(_real,) * 4, *(_address,) * 3), **KERNEL)
def clip(
    log_probs, acted, advantages, entropies, values, old_values, returns, rows, normalises, limit, value_limit,
    value_weight, entropy_weight, told, losses, slopes,
):  # fmt: skip
    """Compute the loss of PPO.

    Parameters
    ----------
    log_probs, acted : `[rows]`
        Log-probabilities of the actions taken, under the present policy and under the one that acted.
    advantages : `[rows]`
        Of these actions; `normalises` says whether they get mean 0 and deviation 1.
    entropies : `[rows]`
        Of the present policy.
    values, old_values, returns : `[rows]`
        Present values, those at the time of acting, and what they are to predict.
    limit, value_limit : float
        How far a ratio may move from 1, and a value from what it was; infinite for any.
    value_weight, entropy_weight : float
        Weights of the critic's loss and of the entropy.
    told : `[6]`
        Out: losses of policy and critic, entropy, KL divergence, share of clipped ratios, explained variance.
    losses : `[1]`
        Out: the weighted sum.
    slopes : `[3, rows]`
        Out: its gradients by log-probabilities, values and entropies.
    """
    log_prob, acted_log_prob = numbers_at(log_probs, rows), numbers_at(acted, rows)
    advantage, value = numbers_at(advantages, rows), numbers_at(values, rows)
    old_value, target = numbers_at(old_values, rows), numbers_at(returns, rows)
    slope = numbers_at(slopes, 3 * rows)
    of_log_prob, of_value, of_entropy = slope[:rows], slope[rows : 2 * rows], slope[2 * rows :]
    low, high, share = _ONE - limit, _ONE + limit, _ONE / np.float32(rows)
    centre, scale = _ZERO, _ONE
    if normalises and rows > 1:
        mean = _mean(advantage)
        centre = np.float32(mean)
        scale = np.float32(1.0 / (np.sqrt(_squares(advantage, mean) / (rows - 1)) + 1e-8))
    policy_loss, value_loss, divergence, num_clipped = 0.0, 0.0, 0.0, 0
    for row in range(rows):
        log_ratio = log_prob[row] - acted_log_prob[row]
        ratio, gain = np.exp(log_ratio), (advantage[row] - centre) * scale
        clipped = low if ratio < low else ratio
        clipped = high if clipped > high else clipped
        is_clipped = clipped * gain < ratio * gain
        policy_loss -= clipped * gain if is_clipped else ratio * gain
        of_log_prob[row] = _ZERO if is_clipped else -ratio * gain * share
        divergence += np.expm1(log_ratio) - log_ratio
        num_clipped += abs(ratio - _ONE) > limit
        error = value[row] - target[row]
        counts = error * error
        of_value[row] = _TWO * error * value_weight * share
        if value_limit < np.inf:
            change = value[row] - old_value[row]
            moved = -value_limit if change < -value_limit else change
            moved = value_limit if moved > value_limit else moved
            limited = old_value[row] + moved - target[row]
            if not counts > limited * limited:
                counts = limited * limited
                of_value[row] = _TWO * limited * value_weight * share if moved == change else _ZERO
        value_loss += counts
    of_entropy[:] = -entropy_weight * share
    result = numbers_at(told, 6)
    result[0], result[1], result[2] = policy_loss / rows, value_loss / rows, _mean(numbers_at(entropies, rows))
    result[3], result[4], result[5] = divergence / rows, num_clipped / rows, _explained(old_value, target)
    numbers_at(losses, 1)[0] = result[0] + value_weight * result[1] - entropy_weight * result[2]
