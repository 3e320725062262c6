"""The loss of critics as one step of autograd, compared with its definition."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import booleans, integers, sampled_from
from torch import Tensor

from recollect.agent.algorithms.losses.regression import Regression, regression
from recollect.agent.kernels.fusible import plain_operators
from recollect.errors import SchemaError


def _slopes(found: Regression, values: Tensor) -> Tensor:
    (slopes,) = torch.autograd.grad(3.0 * found.loss, values)
    return slopes


@settings(max_examples=25)
@given(
    num=integers(1, 3),
    rows=sampled_from((1, 7, 300)),
    num_actions=integers(0, 3),
    is_weighted=booleans(),
    delta=sampled_from((math.inf, 0.5)),
    seed=integers(0, 99),
)
def test_a_kernel_compares_as_the_operators_do(
    num: int, rows: int, num_actions: int, is_weighted: bool, delta: float, seed: int
) -> None:
    torch.manual_seed(seed)
    # As a slice of others, which is not contiguous.
    values = torch.randn(num, 2 * rows, max(1, num_actions), requires_grad=True)[:, ::2]
    action = torch.randint(num_actions, (rows, 1)) if num_actions else None
    given = (values, torch.randn(rows, 1), torch.rand(rows, 1) if is_weighted else None, action, delta)
    found = regression(*given)
    with plain_operators():
        expected = regression(*given)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(_slopes(found, values), _slopes(expected, values))


def test_gradients_of_gradients_are_those_of_the_definition() -> None:
    target = torch.zeros(5, 1, dtype=torch.float32)

    def slope_of_slope(power: float) -> Tensor:
        weight = torch.tensor(2.0, requires_grad=True)
        found = regression((weight**power).expand(1, 5, 1), target)
        (slope,) = torch.autograd.grad(found.loss, weight, create_graph=True)
        return torch.autograd.grad(slope, weight)[0]

    assert slope_of_slope(1.0) == 1.0  # half of a square
    assert slope_of_slope(2.0) == pytest.approx(6.0 * 2.0**2)  # w^4 / 2


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_shows_in_the_loss(value: float) -> None:
    values = torch.tensor([[[1.0], [value]]])
    for delta in (math.inf, 1.0):
        assert not math.isfinite(regression(values, torch.zeros(2, 1), delta=delta).loss)


@pytest.mark.parametrize("action", [-1, 2])
def test_actions_that_critics_do_not_know_are_refused(action: int) -> None:
    actions = torch.tensor([[0], [action]])
    with pytest.raises(SchemaError, match=rf"{min(0, action)} to {max(0, action)}, expected 0 to 1"):
        regression(torch.zeros(1, 2, 2), torch.zeros(2, 1), action=actions)
