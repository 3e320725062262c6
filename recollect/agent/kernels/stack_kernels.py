"""Stacks of dense layers: all layers of all networks in one call, forward or backward.

A row of weights is laid out as `Stack` says: the weights `[num, in, out]` of all layers, then the biases
`[num, 1, out]`. `shape` holds the number of networks in the row, the number of activations, whether they are tanh, and
the widths. Tensors come as addresses of their numbers, which are contiguous and float32.
Loops are over views, whose indices the compiler knows to be in range: it vectorises nothing else.
"""

import numba as nb
import numpy as np

from recollect.agent.kernels import CALLBACK, INLINED, KERNEL
from recollect.agent.kernels.arithmetic import tanh
from recollect.agent.kernels.products import multiply, numbers_at
from recollect.agent.kernels.threads import arguments_at, on_threads, places_of, share_of, thread_number

_address, _count = nb.int64, nb.int64
_shape = nb.int64[::1]
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_BYTES = np.int64(4)
# Where widths begin in `shape`.
WIDTHS = 3


@nb.njit(**INLINED)
def _matrix(values, begin, height, width):
    """Numbers from `begin` on as a matrix `[height, width]`."""
    return values[begin : begin + height * width].reshape(height, width)


@nb.njit(**INLINED)
def _weight_of(flat, shape, layer, network):
    """Weight `[in, out]` of a network's layer."""
    place = np.int64(0)
    for index in range(layer):
        place += shape[0] * shape[WIDTHS + index] * shape[WIDTHS + index + 1]
    wide, narrow = shape[WIDTHS + layer], shape[WIDTHS + layer + 1]
    return _matrix(flat, place + network * wide * narrow, wide, narrow)


@nb.njit(**INLINED)
def _bias_of(flat, shape, layer, network):
    """Bias `[out]` of a network's layer."""
    place = np.int64(0)
    for index in range(len(shape) - WIDTHS - 1):
        place += shape[0] * shape[WIDTHS + index] * shape[WIDTHS + index + 1]
        if index < layer:
            place += shape[0] * shape[WIDTHS + index + 1]
    narrow = shape[WIDTHS + layer + 1]
    return flat[place + network * narrow : place + (network + 1) * narrow]


@nb.njit(**INLINED)
def _result_of(hidden, out, shape, layer, network, num, batch):
    """Result `[batch, out]` of a network's layer: one of the hidden ones, or the last."""
    narrow = shape[WIDTHS + layer + 1]
    if layer == len(shape) - WIDTHS - 2:
        return _matrix(out, network * batch * narrow, batch, narrow)
    place = np.int64(0)
    for index in range(layer):
        place += num * batch * shape[WIDTHS + index + 1]
    return _matrix(hidden, place + network * batch * narrow, batch, narrow)


@nb.njit(**INLINED)
def _product(left, right, result):
    """`result = left @ right`; a single column is a sum, for which BLAS is slower."""
    height, inner, width = result.shape[0], left.shape[1], result.shape[1]
    if width > 1:
        addresses = left.ctypes.data, right.ctypes.data, result.ctypes.data
        multiply(0, 0, height, width, inner, addresses[0], addresses[1], addresses[2])
        return
    column = right.reshape(-1)
    for row in range(height):
        total = _ZERO
        for index in range(inner):
            total += left[row, index] * column[index]
        result[row, 0] = total


@nb.njit(**INLINED)
def _activate(values, bias, is_active, is_tanh):
    """Add a bias to rows, and activate them."""
    height, width = values.shape
    if is_active and is_tanh:
        for row in range(height):
            for column in range(width):
                values[row, column] = tanh(values[row, column] + bias[column])
    elif is_active:
        for row in range(height):
            for column in range(width):
                value = values[row, column] + bias[column]
                values[row, column] = _ZERO if value < _ZERO else value
    else:
        for row in range(height):
            for column in range(width):
                values[row, column] += bias[column]


@nb.njit(**INLINED)
def _num_weights(shape):
    """How many numbers a row of weights has."""
    total = np.int64(0)
    for layer in range(len(shape) - WIDTHS - 1):
        total += shape[0] * (shape[WIDTHS + layer] + 1) * shape[WIDTHS + layer + 1]
    return total


@nb.njit(**INLINED)
def _num_hidden(shape):
    """How many numbers a row of the batch has in the hidden layers."""
    total = np.int64(0)
    for layer in range(len(shape) - WIDTHS - 2):
        total += shape[WIDTHS + layer + 1]
    return total


@nb.njit(**INLINED)
def _run_rows(weights, shape, inputs, num_inputs, num, batch, hiddens, outs, begin, end):
    """Do `run_stack` for the rows of the batch from `begin` to `end`."""
    num_layers, wide, last = len(shape) - WIDTHS - 1, shape[WIDTHS], shape[len(shape) - 1]
    flat = numbers_at(weights, _num_weights(shape))
    columns = numbers_at(inputs, num_inputs * batch * wide)
    num_hidden = num * batch * _num_hidden(shape)
    hidden = numbers_at(hiddens, num_hidden) if hiddens else np.empty(num_hidden, np.float32)
    out = numbers_at(outs, num * batch * last)
    for network in range(num):
        source = _matrix(columns, network % num_inputs * batch * wide, batch, wide)[begin:end]
        for layer in range(num_layers):
            target = _result_of(hidden, out, shape, layer, network, num, batch)[begin:end]
            _product(source, _weight_of(flat, shape, layer, network), target)
            _activate(target, _bias_of(flat, shape, layer, network), layer < shape[1], shape[2] != 0)
            source = target


@nb.cfunc(nb.void(_address), **CALLBACK)
def _run_share(place):
    """Do a thread's share of `run_stack`, whose arguments lie at an address."""
    given, shape = arguments_at(place)
    begin, end = share_of(given[4])
    _run_rows(given[0], shape, given[1], given[2], given[3], given[4], given[5], given[6], begin, end)


_run_shares = on_threads(_run_share)


@nb.njit(nb.void(_address, _shape, _address, _count, _count, _count, _address, _address, _count), **KERNEL)
def run_stack(weights, shape, inputs, num_inputs, num, batch, hiddens, outs, num_threads):
    """Compute the results of the first `num` networks.

    Parameters
    ----------
    weights : `[num_weights]`
        The row.
    inputs : `[num_inputs, batch, in]`
        One for each network, or a single one for all.
    hiddens : `[num * batch * num_hidden]`, or 0
        Out: results of the hidden layers, one layer after the other, if anybody needs them.
    outs : `[num, batch, out]`
        Out: results of the last layer.
    num_threads : int
        Among how many threads to share out the rows.
    """
    if num_threads == 1:
        _run_rows(weights, shape, inputs, num_inputs, num, batch, hiddens, outs, 0, batch)
        return
    given = np.array([weights, inputs, num_inputs, num, batch, hiddens, outs])
    places = places_of(given, shape)
    _run_shares(places.ctypes.data, num_threads)
    # They must stay alive until here.
    given[0] = places[0] = 0


@nb.njit(**INLINED)
def _rows_with_gradient(gradient, rows):
    """Note the rows whose gradient is not 0, and say how many there are."""
    count = 0
    for row in range(gradient.shape[0]):
        has_any = False
        for column in range(gradient.shape[1]):
            has_any |= gradient[row, column] != _ZERO
        rows[count] = row
        count += has_any
    return count


@nb.njit(**INLINED)
def _through_activation(gradient, rows, results, is_tanh):
    """Turn the gradients of an activation's results into those of what was activated, in place."""
    height, width = gradient.shape
    for index in range(height):
        result = results[rows[index]]
        if is_tanh:
            for column in range(width):
                gradient[index, column] *= _ONE - result[column] * result[column]
        else:
            for column in range(width):
                gradient[index, column] = gradient[index, column] if result[column] > _ZERO else _ZERO


@nb.njit(**INLINED)
def _put_bias(gradient, bias):
    """Write the gradient of a bias: a sum over rows."""
    for column in range(len(bias)):
        bias[column] = _ZERO
    for row in range(gradient.shape[0]):
        for column in range(len(bias)):
            bias[column] += gradient[row, column]


@nb.njit(**INLINED)
def _put_weight(inputs, gradient, weight):
    """Write the gradient of a weight: `inputs.T @ gradient`."""
    height, (wide, narrow) = inputs.shape[0], weight.shape
    if narrow > 1:
        addresses = inputs.ctypes.data, gradient.ctypes.data, weight.ctypes.data
        multiply(1, 0, wide, narrow, height, addresses[0], addresses[1], addresses[2])
        return
    column = weight.reshape(-1)
    column[:] = _ZERO
    for row in range(height):
        scale = gradient[row, 0]
        for index in range(wide):
            column[index] += scale * inputs[row, index]


@nb.njit(**INLINED)
def _before(gradient, weight, found):
    """Write the gradient of a layer's inputs: `gradient @ weight.T`."""
    height, (wide, narrow) = gradient.shape[0], weight.shape
    if narrow > 1:
        addresses = gradient.ctypes.data, weight.ctypes.data, found.ctypes.data
        multiply(0, 1, height, wide, narrow, addresses[0], addresses[1], addresses[2])
        return
    column = weight.reshape(-1)
    for row in range(height):
        scale = gradient[row, 0]
        for index in range(wide):
            found[row, index] = scale * column[index]


@nb.njit(**INLINED)
def _follow_rows(
    weights, shape, inputs, num_inputs, num, batch, hiddens, outs, slopes, slots, found, first, num_found, begin, end
):
    """Do `follow_back` for the rows of the batch from `begin` to `end`, whose gradients of weights go into `slots`."""
    num_layers, wide, last = len(shape) - WIDTHS - 1, shape[WIDTHS], shape[len(shape) - 1]
    flat = numbers_at(weights, _num_weights(shape))
    flat_slots = numbers_at(slots, _num_weights(shape) if slots else np.int64(0))
    columns = numbers_at(inputs, num_inputs * batch * wide)
    hidden, out = numbers_at(hiddens, num * batch * _num_hidden(shape)), numbers_at(outs, num * batch * last)
    gradients, sums = numbers_at(slopes, num * batch * last), numbers_at(found, num_inputs * batch * num_found)
    height = end - begin
    half = height * np.max(shape[WIDTHS:])
    here, there = np.empty(half, np.float32), np.empty(half, np.float32)
    rows = np.arange(height)
    for index in range(num_inputs):
        _matrix(sums, index * batch * num_found, batch, num_found)[begin:end] = _ZERO
    for network in range(num):
        source = _matrix(columns, network % num_inputs * batch * wide, batch, wide)[begin:end]
        given = _matrix(gradients, network * batch * last, batch, last)[begin:end]
        count = height if slots else _rows_with_gradient(given, rows)
        gradient = _matrix(here, 0, count, last)
        for index in range(count):
            gradient[index] = given[rows[index]]
        for layer in range(num_layers - 1, -1, -1):
            weight = _weight_of(flat, shape, layer, network)
            if layer < shape[1]:
                result = _result_of(hidden, out, shape, layer, network, num, batch)[begin:end]
                _through_activation(gradient, rows, result, shape[2] != 0)
            if slots:
                _put_bias(gradient, _bias_of(flat_slots, shape, layer, network))
                before = _result_of(hidden, out, shape, layer - 1, network, num, batch)[begin:end] if layer else source
                _put_weight(before, gradient, _weight_of(flat_slots, shape, layer, network))
            if layer:
                earlier = _matrix(there, 0, count, shape[WIDTHS + layer])
                _before(gradient, weight, earlier)
                gradient, here, there = earlier, there, here
            elif num_found > 0:
                earlier = _matrix(there, 0, count, num_found)
                _before(gradient, weight[first : first + num_found], earlier)
                target = _matrix(sums, network % num_inputs * batch * num_found, batch, num_found)[begin:end]
                for index in range(count):
                    for column in range(num_found):
                        target[rows[index], column] += earlier[index, column]


@nb.cfunc(nb.void(_address), **CALLBACK)
def _follow_share(place):
    """Do a thread's share of `follow_back`, whose arguments lie at an address; the first one fills `slots`."""
    given, shape = arguments_at(place)
    begin, end = share_of(given[4])
    number, slots = thread_number(), given[8]
    if number and slots:
        slots = given[12] + (number - 1) * _num_weights(shape) * _BYTES
    _follow_rows(
        *(given[0], shape, given[1], given[2], given[3], given[4], given[5], given[6], given[7], slots),
        *(given[9], given[10], given[11], begin, end),
    )


_follow_shares = on_threads(_follow_share)


@nb.njit(
    nb.void(
        *(_address, _shape, _address, _count, _count, _count, _address, _address),
        *(_address, _address, _address, _count, _count, _count),
    ),
    **KERNEL,
)
def follow_back(
    weights, shape, inputs, num_inputs, num, batch, hiddens, outs, slopes, slots, found, first, num_found, num_threads
):
    """Follow the gradients of `run_stack`'s results back through all layers.

    Parameters
    ----------
    weights, shape, inputs, num_inputs, num, batch, hiddens, outs, num_threads
        As `run_stack` had and left them.
    slopes : `[num, batch, out]`
        Gradients of the results.
    slots : `[num_weights]`, or 0
        Out: gradients of the weights. Where nobody needs them, rows of zeros are left out.
    found : `[num_inputs, batch, num_found]`
        Out: gradients of the inputs' columns from `first` on; summed over networks if they share them.
    """
    if num_threads == 1:
        _follow_rows(
            *(weights, shape, inputs, num_inputs, num, batch, hiddens, outs, slopes, slots, found, first, num_found),
            *(0, batch),
        )
        return
    # Sums of all threads but the first; networks that are left out, and threads that were not to be had, have none.
    others = np.zeros(((num_threads - 1) if slots else 0, _num_weights(shape)), np.float32)
    beside = np.int64(others.ctypes.data)
    given = np.array(
        [weights, inputs, num_inputs, num, batch, hiddens, outs, slopes, slots, found, first, num_found, beside]
    )
    places = places_of(given, shape)
    _follow_shares(places.ctypes.data, num_threads)
    given[0] = places[0] = 0
    total = numbers_at(slots, others.shape[1] if slots else np.int64(0))
    for other in range(len(others)):
        for index in range(len(total)):
            total[index] += others[other, index]
