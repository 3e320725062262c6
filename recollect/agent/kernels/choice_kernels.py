"""What acting makes of a network's results for each row, without a tensor in between: the best, or a sample."""

import numba as nb
import numpy as np

from recollect.agent.kernels import INLINED, KERNEL
from recollect.agent.kernels.gaussian_kernels import squash
from recollect.agent.kernels.stack_kernels import run_stack

_BYTES = np.int64(4)
# PyTorch's memory begins at multiples of so many bytes; on some processors, the last bits of products depend on it.
_ALIGNMENT = np.int64(64)


@nb.njit(**INLINED)
def _room_for(count):
    """Room for numbers, aligned as PyTorch aligns those of tensors."""
    room = np.empty(count + _ALIGNMENT // _BYTES, np.float32)
    begin = (_ALIGNMENT - np.int64(room.ctypes.data) % _ALIGNMENT) // _BYTES
    return room[begin : begin + count]


@nb.njit(**INLINED)
def _results_of(weights, shape, inputs, num_threads):
    """Results of a stack's first network, one row after the other."""
    batch, width = inputs.shape[0], shape[len(shape) - 1]
    columns, values = _room_for(inputs.size), _room_for(batch * width)
    columns[:] = inputs.reshape(-1)
    run_stack(weights, shape, columns.ctypes.data, 1, 1, batch, 0, values.ctypes.data, num_threads)
    return values


@nb.njit(
    nb.void(nb.int64, nb.int64[::1], nb.float32[:, ::1], nb.int64, nb.int64[:, ::1]),
    **KERNEL,
)
def choose_best(weights, shape, inputs, num_threads, actions):
    """Write the place of the highest result of a stack's first network; of several, the first one, and NaN before all.

    Parameters
    ----------
    weights, shape, num_threads
        As `run_stack` has them.
    inputs : `[batch, in]`
    actions : `[batch, 1]`
        Out: the places.
    """
    batch, width = inputs.shape[0], shape[len(shape) - 1]
    values = _results_of(weights, shape, inputs, num_threads)
    for row in range(batch):
        best = row * width
        for place in range(best + 1, best + width):
            if values[place] > values[best] or (np.isnan(values[place]) and not np.isnan(values[best])):
                best = place
        actions[row, 0] = best - row * width


@nb.njit(
    nb.void(nb.int64, nb.int64[::1], nb.float32[:, ::1], nb.int64, nb.int64, nb.float32, nb.float32, nb.int64),
    **KERNEL,
)
def draw_squashed(weights, shape, inputs, num_threads, noise, low, high, actions):
    """Draw from the squashed Gaussians that a stack's first network describes.

    Parameters
    ----------
    weights, shape, num_threads
        As `run_stack` has them.
    inputs : `[batch, in]`
    noise, low, high, actions
        As `squash` has them; noise and actions as addresses.
    """
    batch, width = inputs.shape[0], shape[len(shape) - 1] // 2
    outputs, log_probs = _results_of(weights, shape, inputs, num_threads), np.empty(batch, np.float32)
    squash(outputs.ctypes.data, noise, batch, width, low, high, actions, log_probs.ctypes.data)
