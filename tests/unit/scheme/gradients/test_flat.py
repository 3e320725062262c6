"""Gradients travel as one row; the mean goes over those who have one."""

import pytest
import torch
from torch import nn

from recollect.errors import SchemaError
from recollect.scheme.gradients.flat import FlatGradients


def make_flat() -> FlatGradients:
    return FlatGradients([nn.Parameter(torch.zeros(2, 3)), nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(4))])


def test_a_row_comes_back_as_it_was() -> None:
    flat = make_flat()
    given = [torch.rand(2, 3), torch.rand(()), torch.rand(4)]
    found = flat.mean(flat.pack(given))
    assert found is not None
    for gradient, expected in zip(found, given, strict=True):
        assert gradient is not None
        assert torch.equal(gradient, expected)


def test_a_mean_goes_over_those_who_have_a_gradient() -> None:
    flat = make_flat()
    rows = [
        flat.pack([torch.full((2, 3), 1.0), None, torch.full((4,), 3.0)]),
        flat.pack([torch.full((2, 3), 5.0), None, None]),
        flat.pack(None),
    ]
    found = flat.mean(torch.stack(rows).sum(0))
    assert found is not None
    first, second, third = found
    assert torch.equal(first, torch.full((2, 3), 3.0))  # type: ignore[arg-type]
    assert second is None
    assert torch.equal(third, torch.full((4,), 3.0))  # type: ignore[arg-type]


def test_nobody_having_any_is_no_gradient() -> None:
    flat = make_flat()
    assert flat.mean(flat.pack(None) + flat.pack(None)) is None


def test_gradients_of_other_parameters_are_refused() -> None:
    with pytest.raises(SchemaError, match="expected 3 gradients"):
        make_flat().pack([torch.zeros(4)])
