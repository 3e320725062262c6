"""Equations of distributions of returns, with numbers worked by hand."""

import pytest
import torch

from recollect.agent.algorithms.losses.distributional import projected, quantile_huber, taken_atoms, truncated


def test_atoms_are_those_of_the_action_that_was_taken() -> None:
    atoms = torch.arange(2.0 * 3 * 4).view(1, 2, 3, 4)
    assert taken_atoms(atoms, torch.tensor([[2], [0]])).tolist() == [[[8, 9, 10, 11], [12, 13, 14, 15]]]


def test_a_quantile_pays_for_both_sides_by_its_share() -> None:
    # Shares 0.25 and 0.75; targets 1 below and 3 above 0 with a delta of 2: losses 1/4 and (2 * 3 - 2) / 2 = 2.
    losses = quantile_huber(torch.zeros(1, 2), torch.tensor([[-1.0, 3.0]]), 2.0)
    low, high = (0.75 * 0.25 + 0.25 * 2.0) / 2, (0.25 * 0.25 + 0.75 * 2.0) / 2
    assert losses.flatten().tolist() == pytest.approx([low, high])


def test_the_largest_quantiles_of_all_critics_are_dropped_together() -> None:
    atoms = torch.tensor([[[1.0, 9.0, 8.0]], [[2.0, 7.0, 3.0]]])  # two critics, one row
    assert truncated(atoms, 1).tolist() == [[1, 2, 3, 7]]
    assert truncated(atoms, 0).tolist() == [[1, 2, 3, 7, 8, 9]]


def test_returns_between_two_places_of_the_grid_are_shared_between_them() -> None:
    support = torch.tensor([0.0, 2.0, 4.0])
    found = projected(torch.tensor([[0.2, 0.3, 0.5]]), torch.tensor([[0.5, 2.0, 9.0]]), support)
    assert found.flatten().tolist() == pytest.approx([0.15, 0.05 + 0.3, 0.5])
