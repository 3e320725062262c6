"""The equations of PPO with numbers worked by hand."""

import math

import pytest
import torch

from recollect.agent.algorithms.on_policy.surrogate import (
    clipped_fraction,
    clipped_surrogate,
    clipped_value_loss,
    estimated_kl,
    explained_variance,
    normalised,
)


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.0, 2.0, 2.0),
        (1.1, 2.0, 2.2),
        # A ratio that has moved far enough in the right direction earns nothing more,
        (1.5, 2.0, 2.4),
        (0.5, -2.0, -1.6),
        # and one that has moved in the wrong direction costs all of it.
        (0.5, 2.0, 1.0),
        (1.5, -2.0, -3.0),
    ],
)
def test_clipped_surrogate(ratio: float, advantage: float, expected: float) -> None:
    found = clipped_surrogate(torch.tensor([math.log(ratio)]), torch.tensor([advantage]), 0.2)
    assert found.item() == pytest.approx(expected, rel=1e-6)


def test_no_gradient_flows_beyond_the_clip() -> None:
    log_ratio = torch.tensor([math.log(1.5), math.log(1.1)], requires_grad=True)
    clipped_surrogate(log_ratio, torch.ones(2), 0.2).sum().backward()
    assert log_ratio.grad is not None
    assert log_ratio.grad.tolist() == pytest.approx([0.0, 1.1])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.1, 0.81),
        # The change from 1 counts up to 1.2 only: (1.2 - 2)² is the larger loss.
        (1.9, 0.64),
        (0.5, 2.25),
    ],
)
def test_clipped_value_loss(value: float, expected: float) -> None:
    found = clipped_value_loss(torch.tensor([value]), torch.tensor([1.0]), torch.tensor([2.0]), 0.2)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_estimated_kl_of_the_same_policy_is_zero_and_of_another_positive() -> None:
    assert estimated_kl(torch.zeros(3)).item() == 0.0
    # (2 - 1 - log 2 + 0.5 - 1 - log 0.5) / 2
    assert estimated_kl(torch.tensor([math.log(2.0), math.log(0.5)])).item() == pytest.approx(0.25)


def test_clipped_fraction_counts_both_sides() -> None:
    ratios = torch.tensor([0.7, 0.9, 1.1, 1.3])
    assert clipped_fraction(ratios.log(), 0.2).item() == 0.5


def test_normalised_values_have_mean_zero_and_deviation_one() -> None:
    torch.testing.assert_close(normalised(torch.tensor([1.0, 2.0, 3.0])), torch.tensor([-1.0, 0.0, 1.0]))


def test_a_single_value_is_not_normalised() -> None:
    assert normalised(torch.tensor([[4.0]])).item() == 4.0


@pytest.mark.parametrize(("predicted", "share"), [((1.0, 3.0), 1.0), ((2.0, 2.0), 0.0), ((3.0, 1.0), -3.0)])
def test_explained_variance(predicted: tuple[float, float], share: float) -> None:
    assert explained_variance(torch.tensor(predicted), torch.tensor([1.0, 3.0])).item() == pytest.approx(share)
