"""Passes over numbers: the norm of a gradient, and sums that decay along a stream."""

import math

import numba as nb
import numpy as np

from recollect.agent.kernels import KERNEL

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


@nb.njit(nb.float64(nb.float32[::1], nb.float64, nb.float64), **KERNEL)
def clip_row(gradient, max_norm, small):
    """Limit the norm of a gradient to `max_norm`, and return it as it was."""
    total = _ZERO
    for index in range(len(gradient)):
        total += gradient[index] * gradient[index]
    norm = math.sqrt(total)
    share = np.float32(max_norm / (norm + small))
    if share < _ONE:
        for index in range(len(gradient)):
            gradient[index] *= share
    return norm


@nb.njit(nb.void(nb.float32[:, ::1], nb.float32[:, ::1], nb.float32[:, ::1]), **KERNEL)
def sum_backwards(terms, decays, sums):
    """Write `sums[t] = terms[t] + decays[t] * sums[t + 1]`, all `[time, streams]`."""
    last = len(terms) - 1
    for stream in range(terms.shape[1] if len(terms) else 0):
        sums[last, stream] = terms[last, stream]
    for step in range(last - 1, -1, -1):
        for stream in range(terms.shape[1]):
            sums[step, stream] = terms[step, stream] + decays[step, stream] * sums[step + 1, stream]
