"""Elementary functions that compilers can vectorise, unlike those of the C library."""

import math

import numba as nb
import numpy as np

from recollect.agent.kernels import INLINED

_F = np.float32
_LOG2_E = _F(math.log2(math.e))
# log(2) in two parts: a number times the first, which has few digits, is exact.
_LOG_2_HIGH, _LOG_2_LOW = _F(0.693359375), _F(math.log(2.0) - 0.693359375)
_LARGEST = _F(9.1)  # tanh rounds to 1 from here on
_C2, _C3, _C4, _C5, _C6, _C7 = (_F(1.0 / math.factorial(n)) for n in range(2, 8))


@nb.njit(**INLINED)
def exp(value):
    """The exponential of a float32 from -87 to 88, to two units in the last place; beyond, what its bounds give."""
    value = _F(-87.0) if value < _F(-87.0) else value
    value = _F(88.0) if value > _F(88.0) else value
    power = np.floor(value * _LOG2_E + _F(0.5))
    rest = value - power * _LOG_2_HIGH - power * _LOG_2_LOW
    series = _C6 + rest * _C7
    series = _C5 + rest * series
    series = _C4 + rest * series
    series = _C3 + rest * series
    series = _C2 + rest * series
    series = _F(1.0) + rest * (_F(1.0) + rest * series)
    return series * np.int32((np.int32(power) + np.int32(127)) << np.int32(23)).view(np.float32)


@nb.njit(**INLINED)
def tanh(value):
    """The hyperbolic tangent of a float32, to 2e-7."""
    value = -_LARGEST if value < -_LARGEST else value
    value = _LARGEST if value > _LARGEST else value
    return _F(1.0) - _F(2.0) / (exp(value + value) + _F(1.0))


@nb.njit(**INLINED)
def log_of_one_and(value):
    """The logarithm of 1 and a float32 from 0 to 1, to 1e-7: a series of the area tangent."""
    ratio = value / (_F(2.0) + value)
    square = ratio * ratio
    series = _F(1.0 / 11.0) + square * _F(1.0 / 13.0)
    series = _F(1.0 / 9.0) + square * series
    series = _F(1.0 / 7.0) + square * series
    series = _F(1.0 / 5.0) + square * series
    series = _F(1.0 / 3.0) + square * series
    return _F(2.0) * ratio * (_F(1.0) + square * series)
