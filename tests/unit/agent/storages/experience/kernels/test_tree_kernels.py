"""The vector instructions against the same in plain Python."""

import numba as nb
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recollect.agent.storages.experience.kernels.tree_kernels import first_beyond, sum_of_eight

EIGHT = st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1e12, allow_subnormal=False)), min_size=8, max_size=8).map(
    np.array
)


@nb.njit
def _sum(values):  # type: ignore[no-untyped-def]
    return sum_of_eight(values.ctypes.data)


@nb.njit
def _first_beyond(values, residual):  # type: ignore[no-untyped-def]
    return first_beyond(values.ctypes.data, residual)


@given(EIGHT)
def test_sum(values: np.ndarray) -> None:
    assert np.isclose(_sum(values), values.sum(), rtol=1e-12)


@given(EIGHT, st.floats(-0.1, 1.1))
def test_the_one_whose_share_a_residual_falls_into(values: np.ndarray, share: float) -> None:
    residual = share * values.sum()
    child, left = _first_beyond(values, residual)
    ends = np.cumsum(values)
    slack = 1e-12 * values.sum()
    if child == 8:
        assert residual >= ends[-1] - slack or not values.any()
        return
    assert values[child] > 0.0
    before = ends[child] - values[child]
    assert np.isclose(left, residual - before, atol=slack)
    assert residual < ends[child] + slack
    assert residual >= before - slack or not values[:child].any()
