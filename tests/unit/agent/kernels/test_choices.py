"""The place of the highest of a network's results, compared with PyTorch's operators."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.strategies import integers, sampled_from

from recollect.agent.actors.networks.mlp.dense import EnsembleMLP
from recollect.agent.actors.networks.mlp.fused_stack import HAS_PRODUCTS
from recollect.agent.kernels.fusible import plain_operators

pytestmark = pytest.mark.skipif(not HAS_PRODUCTS, reason="PyTorch's build exports no routine")


@given(
    num=integers(1, 2),
    hidden=sampled_from((1, 17, 64)),
    out=sampled_from((1, 2, 5)),
    rows=sampled_from((0, 1, 7, 300)),
    activation=sampled_from(["relu", "tanh"]),
    seed=integers(0, 99),
)
def test_the_best_is_that_of_the_first_network(
    num: int, hidden: int, out: int, rows: int, activation: Any, seed: int
) -> None:
    torch.manual_seed(seed)
    ensemble = EnsembleMLP(num, (5, hidden, hidden, out), activation=activation)
    inputs = torch.randn(rows, 5)
    with torch.no_grad():
        expected = ensemble(inputs)[0].argmax(-1, keepdim=True)
    found = ensemble.best(inputs.numpy())
    assert found is not None
    assert found.dtype == np.int64
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("results", "place"),
    [
        ((1.0, 3.0, 2.0), 1),
        ((-3.0, -1.0, -2.0), 1),
        ((3.0, 3.0, 1.0), 0),
        ((3.0, float("nan"), 5.0), 1),
        ((float("nan"), float("nan"), 5.0), 0),
        ((-float("inf"), -float("inf"), -float("inf")), 0),
    ],
)
def test_of_several_the_first_counts_and_what_is_no_number_before_all(results: tuple[float, ...], place: int) -> None:
    ensemble = EnsembleMLP(1, (1, 3))
    with torch.no_grad():
        ensemble.flat.copy_(torch.tensor([0.0, 0.0, 0.0, *results]))
    assert torch.tensor(results).argmax().item() == place
    found = ensemble.best(np.zeros((1, 1), np.float32))
    assert found is not None
    assert found.tolist() == [[place]]


def test_it_is_left_to_operators_where_no_kernel_computes_the_stack() -> None:
    rows = np.zeros((2, 3), np.float32)
    plain = EnsembleMLP(1, (3, 4, 2))
    assert plain.best(rows) is not None
    assert plain.best(np.zeros((2, 4), np.float32)) is None, "another width, which the operators refuse"
    assert EnsembleMLP(1, (3, 4, 2), layer_norm=True).best(rows) is None
    assert EnsembleMLP(1, (3, 4, 2)).double().best(rows) is None
    with plain_operators():
        assert plain.best(rows) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert plain.best(rows) is None
