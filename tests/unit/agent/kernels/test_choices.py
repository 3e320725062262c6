"""What acting makes of a network's results by kernels, compared with PyTorch's operators."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.strategies import integers, sampled_from

from recollect.agent.actors.networks.distributions import SquashedGaussian
from recollect.agent.actors.networks.mlp.dense import MLP, EnsembleMLP
from recollect.agent.actors.networks.mlp.fused_stack import HAS_PRODUCTS
from recollect.agent.actors.networks.squash import LOG_STD_RANGE
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


@given(
    hidden=sampled_from((1, 17, 64)),
    width=sampled_from((1, 2, 6)),
    rows=sampled_from((0, 1, 7, 300)),
    activation=sampled_from(["relu", "tanh"]),
    scale=sampled_from((1.0, 100.0)),
    seed=integers(0, 99),
)
def test_samples_are_those_of_the_distribution(
    hidden: int, width: int, rows: int, activation: Any, scale: float, seed: int
) -> None:
    torch.manual_seed(seed)
    network = MLP((5, hidden, 2 * width), activation=activation)
    inputs = scale * torch.randn(rows, 5)  # such that some deviations are beyond their bounds

    def drawn() -> torch.Tensor:
        with torch.no_grad():
            return SquashedGaussian.of(network(inputs)).sample(torch.Generator().manual_seed(seed))

    found = network.draw_squashed(inputs.numpy(), LOG_STD_RANGE, torch.Generator().manual_seed(seed))
    assert found is not None
    assert torch.equal(found, drawn())
    with plain_operators():
        torch.testing.assert_close(found, drawn(), rtol=1e-4, atol=1e-5)


def test_samples_are_left_to_operators_where_no_kernel_computes_the_stack() -> None:
    rows, generator = np.zeros((2, 3), np.float32), torch.Generator()
    before = generator.get_state()
    with plain_operators():
        assert MLP((3, 4, 2)).draw_squashed(rows, LOG_STD_RANGE, generator) is None
    assert MLP((3, 4, 2), layer_norm=True).draw_squashed(rows, LOG_STD_RANGE, generator) is None
    assert MLP((3, 4, 2)).double().draw_squashed(rows, LOG_STD_RANGE, generator) is None
    assert MLP((4, 4, 2)).draw_squashed(rows, LOG_STD_RANGE, generator) is None
    assert torch.equal(generator.get_state(), before)
