"""The loss of critics as one step of autograd, compared with its definition."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from gymnasium.spaces import Box
from hypothesis import given, settings
from hypothesis.strategies import booleans, integers, sampled_from
from torch import Tensor, nn

from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.critics import ActionCritics, build_critics
from recollect.agent.actors.networks.mlp.dense import EnsembleMLP
from recollect.agent.actors.networks.mlp.fused_stack import HAS_PRODUCTS
from recollect.agent.actors.plan import ActorPlan
from recollect.agent.algorithms.losses.regression import Regression, fit, regression
from recollect.agent.algorithms.utils import backward
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


ROWS = 7
FITTED = (torch.linspace(-1.0, 1.0, 5 * ROWS).view(ROWS, 5),)
TARGET = torch.linspace(-2.0, 1.0, ROWS)[:, None]
each_fused = pytest.mark.skipif(not HAS_PRODUCTS, reason="PyTorch's build exports no routine")


def _gradients(critics: nn.Module) -> list[Tensor | None]:
    return [parameter.grad for parameter in critics.parameters()]


@settings(max_examples=25)
@given(
    num=integers(1, 3),
    rows=sampled_from((0, 1, 7, 300)),
    num_actions=integers(0, 3),
    is_weighted=booleans(),
    delta=sampled_from((math.inf, 0.5)),
    seed=integers(0, 99),
)
def test_critics_get_the_gradients_of_autograd_to_the_last_bit(
    num: int, rows: int, num_actions: int, is_weighted: bool, delta: float, seed: int
) -> None:
    torch.manual_seed(seed)
    critics = EnsembleMLP(num, (5, 17, 9, max(1, num_actions)))
    inputs = torch.randn(rows, 3), torch.randn(rows, 2)
    action = torch.randint(num_actions, (rows, 1)) if num_actions else None
    given = torch.randn(rows, 1), torch.rand(rows, 1) if is_weighted else None, action, delta
    expected = regression(critics(*inputs), *given)
    backward(expected.loss)
    own, critics.flat.grad = critics.flat.grad, None
    found = fit(critics, inputs, *given)
    assert found.loss.requires_grad is not HAS_PRODUCTS
    backward(found.loss)
    for each, other in zip((*found, critics.flat.grad), (*expected, own), strict=True):
        torch.testing.assert_close(each, other, rtol=0.0, atol=0.0, equal_nan=True)


@each_fused
def test_critics_of_actions_need_no_graph_either() -> None:
    critics = build_critics(ActorPlan("deterministic", "q_action", num_critics=2), 3, Box(-1, 1, (2,)), ActorConfig())
    inputs = FITTED[0][:, :3], FITTED[0][:, 3:]
    assert not fit(critics, inputs, TARGET).loss.requires_grad
    (found,) = _gradients(critics)
    critics.zero_grad()
    backward(regression(critics(*inputs), TARGET).loss)
    assert found is not None
    assert torch.equal(found, critics.network.flat.grad)  # type: ignore[union-attr, arg-type]


@each_fused
def test_what_is_computed_from_a_loss_without_a_graph_is_not_passed_over() -> None:
    critics = EnsembleMLP(1, (5, 8, 1))
    with pytest.raises(RuntimeError, match="does not require grad"):
        backward(0.5 * fit(critics, FITTED, TARGET).loss)
    critics.zero_grad()
    backward(fit(critics, FITTED, TARGET).loss + critics.flat.square().sum())
    both = critics.flat.grad
    critics.flat.grad = None
    backward(regression(critics(*FITTED), TARGET).loss, critics.flat.square().sum())
    torch.testing.assert_close(both, critics.flat.grad)


class _Doubled(EnsembleMLP):
    def forward(self, *inputs: Tensor) -> Tensor:
        return 2.0 * super().forward(*inputs)


class _Seen(ActionCritics):
    def forward(self, features: Tensor, action: Tensor) -> Tensor:
        return 2.0 * super().forward(features, action)


def _hooked(critics: EnsembleMLP) -> None:
    critics.register_forward_hook(lambda module, given, result: 2.0 * result)


def _hooked_before(critics: EnsembleMLP) -> None:
    critics.register_forward_pre_hook(lambda module, given: (2.0 * given[0],))


def _hooked_behind(critics: EnsembleMLP) -> None:
    critics.register_full_backward_hook(lambda module, given, result: None)


def _row_hooked(critics: EnsembleMLP) -> None:
    critics.flat.register_hook(lambda gradient: 2.0 * gradient)


def _hooked_after(critics: EnsembleMLP) -> None:
    critics.flat.register_post_accumulate_grad_hook(lambda row: None)


def _with_gradient(critics: EnsembleMLP) -> None:
    critics.flat.grad = torch.ones_like(critics.flat)


def _replaced(critics: EnsembleMLP) -> None:
    before: Any = critics.forward
    critics.forward = lambda *inputs: 2.0 * before(*inputs)  # type: ignore[method-assign]


def _in_double(critics: EnsembleMLP) -> None:
    critics.double()


@pytest.mark.parametrize(
    "change",
    [
        _hooked,
        _hooked_before,
        _hooked_behind,
        _row_hooked,
        _hooked_after,
        _with_gradient,
        _replaced,
        _in_double,
    ],
)
@pytest.mark.parametrize("kind", [EnsembleMLP, _Doubled])
def test_critics_that_autograd_must_see_have_a_graph(
    kind: type[EnsembleMLP], change: Callable[[EnsembleMLP], None]
) -> None:
    def gradient(*, is_fitted: bool) -> Tensor | None:
        torch.manual_seed(1)
        critics = kind(2, (5, 8, 1))
        change(critics)
        inputs, target = (FITTED[0].to(critics.flat.dtype),), TARGET.to(critics.flat.dtype)
        found = fit(critics, inputs, target) if is_fitted else regression(critics(*inputs), target)
        assert found.loss.requires_grad
        backward(found.loss)
        return critics.flat.grad

    torch.testing.assert_close(gradient(is_fitted=True), gradient(is_fitted=False), rtol=0.0, atol=0.0)


def test_critics_with_norms_or_features_that_learn_or_a_forward_of_ones_own_have_a_graph() -> None:
    plain, normed = EnsembleMLP(2, (5, 8, 1)), EnsembleMLP(2, (5, 8, 1), layer_norm=True)
    assert fit(normed, FITTED, TARGET).loss.requires_grad
    assert fit(plain, (FITTED[0].clone().requires_grad_(),), TARGET).loss.requires_grad
    assert fit(_Doubled(2, (5, 8, 1)), FITTED, TARGET).loss.requires_grad
    plan = ActorPlan("deterministic", "q_action", num_critics=2)
    seen = _Seen(plan, 3, 2, ActorConfig())
    assert fit(seen, (FITTED[0][:, :3], FITTED[0][:, 3:]), TARGET).loss.requires_grad
    with plain_operators():
        assert fit(plain, FITTED, TARGET).loss.requires_grad


def test_critics_that_are_not_trained_get_no_gradient() -> None:
    critics = EnsembleMLP(2, (5, 8, 1)).requires_grad_(False)
    fit(critics, FITTED, TARGET)
    assert critics.flat.grad is None
    with torch.no_grad():
        fit(critics.requires_grad_(), FITTED, TARGET)
    assert critics.flat.grad is None
