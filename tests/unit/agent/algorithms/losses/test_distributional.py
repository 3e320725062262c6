"""Equations of distributions of returns, with numbers worked by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis.strategies import booleans, integers, sampled_from
from torch import Tensor

from recollect.agent.algorithms.losses.distributional import projected, quantile_huber, taken_atoms, truncated
from recollect.agent.kernels.fusible import plain_operators


def test_atoms_are_those_of_the_action_that_was_taken() -> None:
    atoms = torch.arange(2.0 * 3 * 4).view(1, 2, 3, 4)
    assert taken_atoms(atoms, torch.tensor([[2], [0]])).tolist() == [[[8, 9, 10, 11], [12, 13, 14, 15]]]


def test_a_quantile_pays_for_both_sides_by_its_share() -> None:
    # Shares 0.25 and 0.75; targets 1 below and 3 above 0 with a delta of 2: losses 1/4 and (2 * 3 - 2) / 2 = 2.
    losses = quantile_huber(torch.zeros(1, 2), torch.tensor([[-1.0, 3.0]]), 2.0)
    low, high = (0.75 * 0.25 + 0.25 * 2.0) / 2, (0.25 * 0.25 + 0.75 * 2.0) / 2
    assert losses.flatten().tolist() == pytest.approx([low, high])


def _losses_and_slopes(z_t: Tensor, target: Tensor, delta: float) -> tuple[Tensor, ...]:
    losses = quantile_huber(z_t, target, delta)
    weights = torch.linspace(1.0, 2.0, losses.numel()).view_as(losses)
    return losses.detach(), *torch.autograd.grad((losses * weights).sum(), z_t)


@given(
    lead=sampled_from([(), (1,), (3,)]),
    rows=sampled_from((1, 7, 100)),
    sizes=sampled_from([(1, 1), (25, 46), (8, 3)]),
    delta=sampled_from((0.5, 1.0, 10.0)),
    is_turned=booleans(),
    seed=integers(0, 99),
)
def test_a_kernel_compares_quantiles_as_the_operators_do(
    lead: tuple[int, ...], rows: int, sizes: tuple[int, int], delta: float, is_turned: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    num, num_targets = sizes
    z_t = torch.randn(*lead, rows, num)
    z_t = (z_t.mT.contiguous().mT if is_turned else z_t).requires_grad_()
    target = torch.randn(rows, num_targets)
    found = _losses_and_slopes(z_t, target, delta)
    with plain_operators():
        expected = _losses_and_slopes(z_t, target, delta)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_quantiles_that_are_not_finite_show_in_the_loss(value: float) -> None:
    assert not quantile_huber(torch.tensor([[value, 0.0]]), torch.zeros(1, 3), 1.0).isfinite().all()
    assert not quantile_huber(torch.zeros(1, 2), torch.tensor([[value, 0.0]]), 1.0).isfinite().all()


def test_gradients_of_gradients_of_quantiles_are_those_of_the_definition() -> None:
    z_t, target = torch.tensor([[0.2, -0.3]], requires_grad=True), torch.tensor([[0.1, 4.0, -0.4]])

    def second() -> Tensor:
        (first,) = torch.autograd.grad(quantile_huber(z_t, target, 1.0).square().sum(), z_t, create_graph=True)
        return torch.autograd.grad(first.sum(), z_t)[0]

    found = second()
    with plain_operators():
        torch.testing.assert_close(found, second())


def test_the_largest_quantiles_of_all_critics_are_dropped_together() -> None:
    atoms = torch.tensor([[[1.0, 9.0, 8.0]], [[2.0, 7.0, 3.0]]])  # two critics, one row
    assert truncated(atoms, 1).tolist() == [[1, 2, 3, 7]]
    assert truncated(atoms, 0).tolist() == [[1, 2, 3, 7, 8, 9]]


def test_returns_between_two_places_of_the_grid_are_shared_between_them() -> None:
    support = torch.tensor([0.0, 2.0, 4.0])
    found = projected(torch.tensor([[0.2, 0.3, 0.5]]), torch.tensor([[0.5, 2.0, 9.0]]), support)
    assert found.flatten().tolist() == pytest.approx([0.15, 0.05 + 0.3, 0.5])
