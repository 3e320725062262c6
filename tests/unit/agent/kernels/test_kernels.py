"""Kernels of networks and optimisers, compared with PyTorch's operators."""

import math
import subprocess
import sys
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

from recollect.agent.actors.networks import fused_stack
from recollect.agent.actors.networks.dense import EnsembleMLP
from recollect.agent.kernels import arithmetic
from recollect.agent.kernels.fusible import are_fusible, plain_operators
from recollect.agent.kernels.row_kernels import clip_row

# Wide enough for the routes that take only what is large: BLAS's blocks, rows without gradients.
WIDTHS = (1, 2, 17, 64, 130)


def _gradients(ensemble: EnsembleMLP, inputs: Tensor, slopes: Tensor) -> list[Tensor]:
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
    found = _gradients(ensemble, inputs, slopes)
    with plain_operators():
        expected = _gradients(ensemble, inputs, slopes)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


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
    expected = _gradients(ensemble, inputs, slopes)
    was = torch.get_default_dtype()
    try:
        torch.set_default_dtype(default.get("dtype", was))
        with torch.device(default.get("device", "cpu")):
            found = _gradients(ensemble, inputs, slopes)
    finally:
        torch.set_default_dtype(was)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_layouts_of_inputs_and_gradients_change_nothing() -> None:
    ensemble, inputs = EnsembleMLP(2, (3, 4, 4, 5)), torch.randn(3, 6).t().requires_grad_()
    slopes = torch.randn(5, 6, 2).permute(2, 1, 0)
    found = _gradients(ensemble, inputs, slopes)
    with plain_operators():
        torch.testing.assert_close(found, _gradients(ensemble, inputs, slopes))


def test_a_mapped_network_computes_with_operators() -> None:
    ensemble, inputs = EnsembleMLP(2, (3, 4, 1)), torch.randn(4, 6, 3)
    with torch.no_grad():
        torch.testing.assert_close(torch.vmap(ensemble)(inputs), torch.stack([ensemble(each) for each in inputs]))


_WITHOUT_BLAS = """
import ctypes
import numba
import torch

class Library:
    def __init__(self, path): pass

ctypes.CDLL = Library
from recollect.agent.kernels.products import HAS_PRODUCTS
from recollect.agent.actors.networks.dense import MLP
assert not HAS_PRODUCTS
assert MLP((3, 4, 2))(torch.zeros(5, 3)).shape == (5, 2)
"""


def test_without_the_routine_operators_compute() -> None:
    subprocess.run([sys.executable, "-c", _WITHOUT_BLAS], check=True)


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


@nb.njit
def _each(values, are_tanh):
    """The kernels' own functions, of every number."""
    found = np.empty_like(values)
    for index in range(len(values)):
        found[index] = arithmetic.tanh(values[index]) if are_tanh else arithmetic.exp(values[index])
    return found


def test_functions_of_a_number_are_exact_to_their_last_places() -> None:
    values = np.linspace(-80, 80, 100_001, dtype=np.float32)
    np.testing.assert_allclose(_each(values, False), np.exp(values.astype(np.float64)), rtol=4e-7)
    np.testing.assert_allclose(_each(values, True), np.tanh(values.astype(np.float64)), rtol=0, atol=3e-7)


def test_kernels_take_plain_tensors_on_the_processor_alone() -> None:
    plain = torch.zeros(3)
    assert are_fusible(plain, nn.Parameter(plain))
    assert not are_fusible(plain.double())
    assert not are_fusible(plain, torch.zeros(3, device="meta"))
    with plain_operators():
        assert not are_fusible(plain)
    assert are_fusible(plain)
