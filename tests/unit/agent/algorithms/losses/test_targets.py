"""Each equation with numbers worked by hand."""

import math

import pytest
import torch
from torch import Tensor

from recollect.agent.algorithms.losses import targets


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)[:, None]


def test_td_target() -> None:
    found = targets.td_target(column(1, 2, 3), column(0.9, 0.5, 0.0), column(10, -4, 100))
    torch.testing.assert_close(found, column(10, 0, 3))


def test_double_q_value_takes_the_action_of_one_network_and_the_value_of_the_other() -> None:
    online = torch.tensor([[1.0, 3.0, 2.0], [5.0, 0.0, 0.0]])
    target = torch.tensor([[9.0, -1.0, 7.0], [4.0, 8.0, 8.0]])
    torch.testing.assert_close(targets.double_q_value(online, target), column(-1, 4))


def test_soft_value() -> None:
    found = targets.soft_value(column(2, -1), column(-3, 0.5), torch.tensor(0.2))
    torch.testing.assert_close(found, column(2.6, -1.1))


def test_expected_soft_value() -> None:
    log_probs = torch.tensor([[0.25, 0.75]]).log()
    found = targets.expected_soft_value(torch.tensor([[4.0, 8.0]]), log_probs, torch.tensor(2.0))
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    torch.testing.assert_close(found, column(7.0 + 2.0 * entropy))


@pytest.mark.parametrize(("error", "loss"), [(0.0, 0.0), (1.0, 0.5), (-2.0, 2.0), (3.0, 4.0), (-3.0, 4.0)])
def test_huber_is_square_up_to_delta_and_linear_beyond(error: float, loss: float) -> None:
    assert targets.huber(torch.tensor(error), 2.0) == loss


def test_huber_slope_ends_at_delta() -> None:
    error = torch.tensor([0.5, 10.0, -10.0], requires_grad=True)
    targets.huber(error, 2.0).sum().backward()
    assert error.grad is not None
    assert error.grad.tolist() == [0.5, 2.0, -2.0]


@pytest.mark.parametrize(("log_prob", "slope"), [(3.0, -1.0), (1.0, 1.0)])
def test_temperature_rises_while_the_entropy_is_too_low(log_prob: float, slope: float) -> None:
    # Entropies of -3 and -1, with a target of -2: the gradient points down where the temperature shall rise.
    log_temperature = torch.tensor(0.5, requires_grad=True)
    loss = targets.temperature_loss(log_temperature, torch.tensor(log_prob), -2.0)
    loss.backward()
    assert loss == 0.5 * slope
    assert log_temperature.grad == slope


def test_smoothed_action_limits_the_noise_and_the_action() -> None:
    found = targets.smoothed_action(column(0.1, 0.0, 0.9, -0.9), column(0.2, -3.0, 0.4, -0.3), 0.5)
    torch.testing.assert_close(found, column(0.3, -0.5, 1.0, -1.0))


def test_improved_weights_are_a_softmax_over_samples() -> None:
    samples = torch.tensor([[[0.0], [1.0]], [[2 * math.log(3.0)], [1.0]]])  # [num_samples, batch, 1]
    found = targets.improved_weights(samples, torch.tensor(2.0))
    torch.testing.assert_close(found, torch.tensor([[[0.25], [0.5]], [[0.75], [0.5]]]))


def test_temperature_dual() -> None:
    samples = torch.tensor([[[0.0]], [[2 * math.log(3.0)]]])
    found = targets.temperature_dual(samples, torch.tensor(2.0), 0.1)
    torch.testing.assert_close(found, column(2 * 0.1 + 2 * math.log((1 + 3) / 2)))


def test_the_dual_is_lowest_where_the_weights_have_the_kl_that_is_allowed() -> None:
    samples = torch.randn(50, 1, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    temperature = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([temperature], max_iter=100, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = targets.temperature_dual(samples, temperature, 0.3).sum()
        loss.backward()
        return loss

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    weights = targets.improved_weights(samples, temperature.detach())
    kl = (weights * (weights * len(samples)).log()).sum()
    assert float(kl) == pytest.approx(0.3, abs=1e-4)


def test_lagrangian_presses_on_both_sides() -> None:
    kl, multiplier = torch.tensor(0.5, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    bound = targets.lagrangian(kl, multiplier, 0.1)
    (bound.penalty + bound.loss).backward()
    assert (bound.penalty.item(), bound.loss.item()) == pytest.approx((1.5, -1.2))
    assert kl.grad == 3.0
    assert float(multiplier.grad) == pytest.approx(-0.4)  # type: ignore[arg-type]
