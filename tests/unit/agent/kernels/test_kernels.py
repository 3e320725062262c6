"""Kernels of networks and optimisers, compared with PyTorch's operators."""

import math
from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.extra.numpy import arrays
from hypothesis.strategies import booleans, floats, integers, sampled_from
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from recollect.agent.actors.networks import squash
from recollect.agent.actors.networks.distributions import SquashedGaussian
from recollect.agent.actors.networks.mlp import fused_stack
from recollect.agent.actors.networks.mlp.dense import EnsembleMLP
from recollect.agent.kernels import arithmetic
from recollect.agent.kernels.fusible import are_fusible, plain_operators
from recollect.agent.kernels.row_kernels import clip_row

# Wide enough for the routes that take only what is large: BLAS's blocks, rows without gradients.
WIDTHS = (1, 2, 17, 64, 130)


def gradients(ensemble: EnsembleMLP, inputs: Tensor, slopes: Tensor) -> list[Tensor]:
    """Results, and the gradients of weights and inputs."""
    ensemble.flat.grad = inputs.grad = None
    results = ensemble(inputs)
    (results * slopes).sum().backward()
    found = (results.detach(), ensemble.flat.grad, inputs.grad)
    return [each for each in found if each is not None]


@given(
    num=integers(1, 3),
    hidden=sampled_from(WIDTHS),
    out=sampled_from((1, 3)),
    rows=sampled_from((0, 1, 7, 300)),
    activation=sampled_from(["relu", "tanh"]),
    is_active=booleans(),
    is_trained=booleans(),
    seed=integers(0, 99),
)
def test_kernels_compute_what_the_operators_do(
    num: int, hidden: int, out: int, rows: int, activation: Any, is_active: bool, is_trained: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    ensemble = EnsembleMLP(num, (5, hidden, hidden, out), activation=activation, activate_output=is_active)
    ensemble.requires_grad_(is_trained)
    inputs = torch.randn(rows, 5, requires_grad=True)
    slopes = torch.randn(num, rows, out) * torch.randint(2, (num, rows, 1))
    found = gradients(ensemble, inputs, slopes)
    with plain_operators():
        expected = gradients(ensemble, inputs, slopes)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def _sampled(outputs: Tensor, slopes: tuple[Tensor, Tensor], which: str) -> list[Tensor]:
    """Actions, their log-probabilities, and the gradient of outputs through one or both."""
    outputs = outputs.clone().requires_grad_()
    results = SquashedGaussian.of(outputs).sample_with_log_prob(torch.Generator().manual_seed(3))
    sums = [(result * slope).sum() for result, slope in zip(results, slopes, strict=True)]
    {"action": sums[0], "log_prob": sums[1], "both": sums[0] + sums[1]}[which].backward()
    assert outputs.grad is not None
    return [*(result.detach() for result in results), outputs.grad]


@pytest.mark.parametrize("which", ["action", "log_prob", "both"])
@given(
    rows=sampled_from((0, 1, 5, 300)), width=integers(1, 9), scale=sampled_from((0.1, 1.0, 8.0)), seed=integers(0, 99)
)
def test_a_squashed_sample_is_that_of_the_operators(which: str, rows: int, width: int, scale: float, seed: int) -> None:
    torch.manual_seed(seed)
    outputs, slopes = scale * torch.randn(rows, 2 * width), (torch.randn(rows, width), torch.randn(rows, 1))
    found = _sampled(outputs, slopes, which)
    with plain_operators():
        expected = _sampled(outputs, slopes, which)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_squashed_sample_is_drawn_within_the_bounds_of_its_deviation() -> None:
    outputs = torch.tensor([[0.3, 0.3, 50.0, -50.0], [40.0, -40.0, 0.0, 0.0]], requires_grad=True)
    action, log_prob = SquashedGaussian.of(outputs).sample_with_log_prob(torch.Generator().manual_seed(1))
    (action.sum() + log_prob.sum()).backward()
    assert action[0, 1].item() == pytest.approx(math.tanh(0.3))
    assert action[1].tolist() == [1.0, -1.0]
    assert log_prob.isfinite().all()
    assert outputs.grad is not None
    assert outputs.grad.isfinite().all()
    assert outputs.grad[0, 2:].tolist() == [0.0, 0.0], "beyond its bounds a deviation stays the same"


def test_a_squashed_sample_is_differentiated_twice() -> None:
    outputs = torch.randn(3, 4, dtype=torch.float32, requires_grad=True)

    def second() -> Tensor:
        results = SquashedGaussian.of(outputs).sample_with_log_prob(torch.Generator().manual_seed(3))
        (first,) = torch.autograd.grad(sum(result.sum() for result in results), outputs, create_graph=True)
        return torch.autograd.grad(first.square().sum(), outputs)[0]

    found = second()
    with plain_operators():
        torch.testing.assert_close(found, second(), rtol=1e-3, atol=1e-4)


def test_a_squashed_sample_is_drawn_in_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    kernel = squash.squash
    monkeypatch.setattr(squash, "squash", lambda *args: (calls.append(1), kernel(*args))[1])
    policy = SquashedGaussian.of(torch.zeros(2, 4))
    generator = torch.Generator().manual_seed(1)
    assert policy.sample(generator).shape == (2, 2)
    policy.sample_with_log_prob(generator)
    assert len(calls) == 2
    with plain_operators():
        policy.sample(generator)
    assert len(calls) == 2


def test_a_network_computes_in_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def noting(name: str) -> Callable[..., None]:
        kernel = getattr(fused_stack, name)
        return lambda *args: (calls.append(name), kernel(*args))[1]

    for name in ("run_stack", "follow_back"):
        monkeypatch.setattr(fused_stack, name, noting(name))
    ensemble, inputs = EnsembleMLP(2, (3, 4, 4, 1)), torch.randn(6, 3)
    ensemble(inputs).sum().backward()
    assert calls == (["run_stack", "follow_back"] if fused_stack.HAS_PRODUCTS else [])


@pytest.mark.parametrize("default", [{"dtype": torch.float64}, {"device": "meta"}])
def test_defaults_of_pytorch_change_nothing(default: dict[str, Any]) -> None:
    ensemble, inputs, slopes = EnsembleMLP(2, (3, 4, 4, 1)), torch.randn(6, 3, requires_grad=True), torch.randn(2, 6, 1)
    expected = gradients(ensemble, inputs, slopes)
    was = torch.get_default_dtype()
    try:
        torch.set_default_dtype(default.get("dtype", was))
        with torch.device(default.get("device", "cpu")):
            found = gradients(ensemble, inputs, slopes)
    finally:
        torch.set_default_dtype(was)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_room_that_is_filled_with_nan_changes_nothing() -> None:
    ensemble, inputs, slopes = EnsembleMLP(2, (3, 4, 4, 1)), torch.randn(6, 3, requires_grad=True), torch.randn(2, 6, 1)
    expected = gradients(ensemble, inputs, slopes)
    torch.use_deterministic_algorithms(True)
    try:
        found = gradients(ensemble, inputs, slopes)
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_layouts_of_inputs_and_gradients_change_nothing() -> None:
    ensemble, inputs = EnsembleMLP(2, (3, 4, 4, 5)), torch.randn(3, 6).t().requires_grad_()
    slopes = torch.randn(5, 6, 2).permute(2, 1, 0)
    found = gradients(ensemble, inputs, slopes)
    with plain_operators():
        torch.testing.assert_close(found, gradients(ensemble, inputs, slopes))


def test_a_mapped_network_computes_with_operators() -> None:
    ensemble, inputs = EnsembleMLP(2, (3, 4, 1)), torch.randn(4, 6, 3)
    with torch.no_grad():
        torch.testing.assert_close(torch.vmap(ensemble)(inputs), torch.stack([ensemble(each) for each in inputs]))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_what_is_not_finite_is_not_hidden(value: float, activation: Any) -> None:
    ensemble = EnsembleMLP(1, (2, 3, 1), activation=activation)
    inputs = torch.tensor([[value, 1.0], [0.5, 1.0]])
    with torch.no_grad():
        found = ensemble(inputs)
        with plain_operators():
            torch.testing.assert_close(found, ensemble(inputs), equal_nan=True)


@given(arrays(np.float32, integers(0, 40), elements=floats(-100, 100, width=32)), sampled_from((0.1, 10.0, 1e4)))
def test_norms_are_limited_as_pytorch_limits_them(values: np.ndarray, max_norm: float) -> None:
    weights = nn.Parameter(torch.zeros(len(values)))
    weights.grad = torch.from_numpy(values.copy())
    norm = clip_row(values, max_norm, 1e-6)
    assert norm == pytest.approx(clip_grad_norm_([weights], max_norm).item(), rel=1e-5)
    np.testing.assert_allclose(values, weights.grad.numpy(), rtol=1e-5, atol=1e-7)


def test_the_norm_of_what_is_not_finite_is_not_finite() -> None:
    assert math.isnan(clip_row(np.array([1.0, math.nan], np.float32), 1.0, 1e-6))


def _each(function: Any, values: Any) -> Any:
    """A kernel's own function, of every number."""

    @nb.njit
    def compute(values, found):
        for index in range(len(values)):
            found[index] = function(values[index])

    found = np.empty_like(values)
    compute(values, found)
    return found


def test_functions_of_a_number_are_exact_to_their_last_places() -> None:
    values = np.linspace(-80, 80, 100_001, dtype=np.float32)
    np.testing.assert_allclose(_each(arithmetic.exp, values), np.exp(values.astype(np.float64)), rtol=4e-7)
    np.testing.assert_allclose(_each(arithmetic.tanh, values), np.tanh(values.astype(np.float64)), rtol=0, atol=3e-7)
    shares = np.concatenate([np.linspace(0, 1, 10_001), np.logspace(-30, 0, 1_001)]).astype(np.float32)
    found = _each(arithmetic.log_of_one_and, shares)
    np.testing.assert_allclose(found, np.log1p(shares.astype(np.float64)), rtol=4e-7)


def test_kernels_take_plain_tensors_on_the_processor_alone() -> None:
    plain = torch.zeros(3)
    assert are_fusible(plain, nn.Parameter(plain))
    assert not are_fusible(plain.double())
    assert not are_fusible(plain, torch.zeros(3, device="meta"))
    with plain_operators():
        assert not are_fusible(plain)
    assert are_fusible(plain)
