"""Samples of a squashed Gaussian and how probable they are. Tensors come as addresses of contiguous numbers."""

import math

import numba as nb
import numpy as np

from recollect.agent.kernels import INLINED, KERNEL
from recollect.agent.kernels.arithmetic import exp, log_of_one_and, tanh
from recollect.agent.kernels.products import numbers_at

_address, _count, _bound = nb.int64, nb.int64, nb.float32
_HALF_LOG_2PI, _LOG_4 = np.float32(0.5 * math.log(2.0 * math.pi)), np.float32(math.log(4.0))
_ZERO, _HALF, _ONE, _TWO = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(2.0)


@nb.njit(**INLINED)
def _within(value, low, high):
    """The number, or the bound that it is beyond; NaN stays NaN."""
    value = low if value < low else value
    return high if value > high else value


@nb.njit(nb.void(_address, _address, _count, _count, _bound, _bound, _address, _address), **KERNEL)
def squash(outputs, noise, rows, width, low, high, actions, log_probs):
    """Squash samples `mean + std * noise` into (-1, 1).

    Parameters
    ----------
    outputs : `[rows, 2 * width]`
        Means, then logarithms of deviations, which count as `low` below that and as `high` above.
    noise : `[rows, width]`
        Standard normal numbers.
    actions : `[rows, width]`
        Out: the squashed samples.
    log_probs : `[rows]`
        Out: their log-probabilities, summed over the action.
    """
    output, drawn = numbers_at(outputs, 2 * rows * width), numbers_at(noise, rows * width)
    action, log_prob = numbers_at(actions, rows * width), numbers_at(log_probs, rows)
    for row in range(rows):
        mean, log_std = output[2 * row * width :][:width], output[(2 * row + 1) * width :][:width]
        normal, squashed = drawn[row * width :][:width], action[row * width :][:width]
        total = _ZERO
        for index in range(width):
            log = _within(log_std[index], low, high)
            raw = mean[index] + exp(log) * normal[index]
            size = abs(raw)
            # The slope of tanh is 4 / (e^raw + e^-raw)^2: stable where 1 - tanh^2 would round to 0.
            log_slope = _LOG_4 - _TWO * (size + log_of_one_and(exp(-_TWO * size)))
            squashed[index] = tanh(raw)
            total -= log + _HALF_LOG_2PI + _HALF * normal[index] * normal[index] + log_slope
        log_prob[row] = total


@nb.njit(nb.void(_address, _address, _address, _count, _count, _bound, _bound, _address, _address, _address), **KERNEL)
def unsquash(outputs, noise, actions, rows, width, low, high, action_slopes, log_prob_slopes, found):
    """Follow the gradients of `squash`'s results back.

    Parameters
    ----------
    outputs, noise, actions, rows, width, low, high
        As `squash` had and left them.
    action_slopes, log_prob_slopes : `[rows, width]` and `[rows]`
        Gradients of the actions and of their log-probabilities; 0 where there are none.
    found : `[rows, 2 * width]`
        Out: gradients of the outputs.
    """
    output, drawn = numbers_at(outputs, 2 * rows * width), numbers_at(noise, rows * width)
    action, gradient = numbers_at(actions, rows * width), numbers_at(found, 2 * rows * width)
    of_action = numbers_at(action_slopes, rows * width if action_slopes else np.int64(0))
    of_log_prob = numbers_at(log_prob_slopes, rows if log_prob_slopes else np.int64(0))
    for row in range(rows):
        log_std, normal = output[(2 * row + 1) * width :][:width], drawn[row * width :][:width]
        of_mean, of_log_std = gradient[2 * row * width :][:width], gradient[(2 * row + 1) * width :][:width]
        squashed = action[row * width :][:width]
        weight = of_log_prob[row] if log_prob_slopes else _ZERO
        for index in range(width):
            log, value = log_std[index], squashed[index]
            slope = of_action[row * width + index] if action_slopes else _ZERO
            of_raw = slope * (_ONE - value * value) + weight * _TWO * value
            of_mean[index] = of_raw
            is_within = low <= log <= high
            of_log_std[index] = of_raw * normal[index] * exp(log) - weight if is_within else _ZERO
