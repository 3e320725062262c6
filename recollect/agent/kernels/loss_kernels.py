"""Losses of values that are to predict targets, with their slopes. Tensors come as addresses of contiguous numbers."""

import numba as nb
import numpy as np

from recollect.agent.kernels import KERNEL
from recollect.agent.kernels.products import numbers_at, whole_numbers_at

_address, _count = nb.int64, nb.int64
_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)


@nb.njit(
    nb.boolean(_address, _count, _count, _count, _address, _address, _address, nb.float32, *(_address,) * 4), **KERNEL
)
def regress(values, num, rows, width, actions, targets, weights, delta, losses, slopes, means, sizes):
    """Compare values with targets: half the square of small errors, linear beyond `delta`.

    Returns whether all actions exist; nothing is to be used if not.

    Parameters
    ----------
    values : `[num, rows, width]`
        Of `num` critics.
    actions : int64 `[rows]`, or 0
        Which of a row's values counts; the first one if nobody says.
    targets, weights : `[rows]`
        What values are to be, and what each row counts; 0 in place of weights if all count the same.
    losses : `[1]`
        Out: losses summed over critics, their mean over rows.
    slopes : `[num, rows, width]`
        Out: gradient of the loss.
    means : `[1]`
        Out: mean of the values that count.
    sizes : `[rows]`
        Out: absolute errors, their mean over critics.
    """
    value, slope = numbers_at(values, num * rows * width), numbers_at(slopes, num * rows * width)
    target, weight = numbers_at(targets, rows), numbers_at(weights, rows if weights else np.int64(0))
    action = whole_numbers_at(actions, rows if actions else np.int64(0))
    size = numbers_at(sizes, rows)
    share, total, sum_taken = _ONE / np.float32(rows), 0.0, 0.0
    slope[:] = _ZERO
    size[:] = _ZERO
    for network in range(num):
        for row in range(rows):
            place = (network * rows + row) * width
            if actions:
                if not 0 <= action[row] < width:
                    return False
                place += action[row]
            counts = weight[row] if weights else _ONE
            error = target[row] - value[place]
            distance = abs(error)
            limited = min(distance, delta)
            total += counts * (limited * (distance - _HALF * limited))
            slope[place] = -np.copysign(limited, error) * (share * counts)
            sum_taken += value[place]
            size[row] += distance
    size /= np.float32(num)
    numbers_at(losses, 1)[0] = total / rows
    numbers_at(means, 1)[0] = sum_taken / (num * rows)
    return True


@nb.njit(nb.void(_address, _address, *(_count,) * 4, nb.float32, _address, _address), **KERNEL)
def regress_quantiles(quantiles, targets, num, rows, num_quantiles, num_targets, delta, losses, slopes):
    """Compare quantiles with samples: squares of small errors, linear beyond `delta`, weighted by their side.

    Parameters
    ----------
    quantiles : `[num, rows, num_quantiles]`
        Of `num` critics.
    targets : `[rows, num_targets]`
        Samples of what they describe.
    losses : `[num, rows, num_quantiles]`
        Out: losses, their mean over samples.
    slopes : `[num, rows, num_quantiles]`
        Out: gradient of each.
    """
    quantile, target = numbers_at(quantiles, num * rows * num_quantiles), numbers_at(targets, rows * num_targets)
    loss, slope = numbers_at(losses, num * rows * num_quantiles), numbers_at(slopes, num * rows * num_quantiles)
    scale = _ONE / (delta * np.float32(num_targets))
    for row in range(num * rows):
        samples = target[row % rows * num_targets :][:num_targets]
        for index in range(num_quantiles):
            share, value = (
                (np.float32(index) + _HALF) / np.float32(num_quantiles),
                quantile[row * num_quantiles + index],
            )
            total, gradient = _ZERO, _ZERO
            for sample in samples:
                error = sample - value
                distance = abs(error)
                weight = _ONE - share if error < _ZERO else share
                limited = delta if distance > delta else distance
                total += weight * (limited * (distance - _HALF * limited))
                gradient -= weight * np.copysign(limited, error)
            loss[row * num_quantiles + index] = total * scale
            slope[row * num_quantiles + index] = gradient * scale
