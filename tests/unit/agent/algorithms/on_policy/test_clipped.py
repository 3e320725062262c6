"""The loss of PPO as one step of autograd, compared with its equations."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import booleans, integers, sampled_from
from torch import Tensor

from recollect import keys
from recollect.agent.actors.networks.distributions import Categorical, Gaussian
from recollect.agent.algorithms.on_policy.clipped import Clipped, Objective, clipped_loss
from recollect.agent.kernels.fusible import plain_operators
from recollect.errors import SchemaError

PLAIN = Objective(clip=0.2, value_clip=None, value_weight=0.5, entropy_weight=0.0, normalises=False)


def _columns(rows: int, scale: float = 0.3) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Log-probabilities, entropies and values, and what was noted of the steps."""
    noted = {key: torch.randn(rows, 1) for key in (keys.LOG_PROB, keys.ADVANTAGE, keys.VALUE, keys.RETURN)}
    log_prob, values = (noted[key] + scale * torch.randn(rows, 1) for key in (keys.LOG_PROB, keys.VALUE))
    return [each.requires_grad_() for each in (log_prob, torch.rand(rows, 1), values)], noted


def _slopes(found: Clipped, given: list[Tensor]) -> list[Tensor]:
    slopes = torch.autograd.grad(3.0 * found.loss, given, allow_unused=True)
    return [torch.zeros_like(each) if slope is None else slope for slope, each in zip(slopes, given, strict=True)]


@settings(max_examples=40)
@given(
    rows=sampled_from((1, 2, 7, 300)),
    value_clip=sampled_from((None, 0.1)),
    entropy_weight=sampled_from((0.0, 0.01)),
    normalises=booleans(),
    seed=integers(0, 99),
)
def test_a_kernel_clips_as_the_operators_do(
    rows: int, value_clip: float | None, entropy_weight: float, normalises: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    given, noted = _columns(rows)
    objective = Objective(0.2, value_clip, 0.7, entropy_weight, normalises)
    found = clipped_loss(*given, noted, objective)
    with plain_operators():
        expected = clipped_loss(*given, noted, objective)
    assert isinstance(found.told["kl"], float), "a kernel computes it"
    torch.testing.assert_close(found.loss, expected.loss)
    torch.testing.assert_close(_slopes(found, given), _slopes(expected, given))
    assert list(found.told) == list(expected.told)
    for name, value in expected.told.items():
        assert found.told[name] == pytest.approx(torch.as_tensor(value).item(), rel=1e-4, abs=1e-6), name


def test_one_step_by_hand() -> None:
    noted = {
        keys.LOG_PROB: torch.tensor([[0.0]]),
        keys.ADVANTAGE: torch.tensor([[2.0]]),
        keys.VALUE: torch.tensor([[1.0]]),
        keys.RETURN: torch.tensor([[4.0]]),
    }
    log_prob, values = (torch.tensor([[value]], requires_grad=True) for value in (math.log(1.1), 1.5))
    found = clipped_loss(log_prob, torch.tensor([[0.6]]), values, noted, PLAIN._replace(entropy_weight=0.1))
    assert found.loss.item() == pytest.approx(-2.2 + 0.5 * 2.5**2 - 0.06)
    found.loss.backward()
    assert log_prob.grad is not None
    assert values.grad is not None
    assert log_prob.grad.item() == pytest.approx(-2.2)
    assert values.grad.item() == pytest.approx(-2.5)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e4])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("value_clip", [None, 0.1])
def test_what_is_not_finite_shows_in_the_loss(value: float, which: int, value_clip: float | None) -> None:
    given, noted = _columns(4)
    noted[keys.ADVANTAGE][1] = -1.0
    with torch.no_grad():
        given[which][1] = value
    found = clipped_loss(*given, noted, PLAIN._replace(value_clip=value_clip))
    told = [math.isfinite(each) for each in found.told.values()]
    # A ratio of e^10,000 is infinite; such an entropy or value is large, and no more.
    assert all(told) is (value == 1e4 and which > 0)


@pytest.mark.parametrize("key", [keys.LOG_PROB, keys.ADVANTAGE, keys.VALUE, keys.RETURN])
def test_what_was_noted_and_is_not_finite_shows_in_the_loss(key: str) -> None:
    given, noted = _columns(4)
    noted[key][2] = math.nan
    found = clipped_loss(*given, noted, PLAIN._replace(value_clip=0.1, normalises=True))
    assert not all(math.isfinite(each) for each in found.told.values())


def test_gradients_of_gradients_are_those_of_the_definition() -> None:
    torch.manual_seed(3)
    given, noted = _columns(5, 0.05)

    def second() -> Tensor:
        loss = clipped_loss(*given, noted, PLAIN).loss
        first = torch.autograd.grad(loss, [given[0], given[2]], create_graph=True)
        return torch.autograd.grad(sum(each.square().sum() for each in first), given[0])[0]

    found = second()
    with plain_operators():
        torch.testing.assert_close(found, second())


def _judged(logits: Tensor, action: Tensor, which: str) -> list[Tensor]:
    """Log-probabilities, entropies, and the gradient of logits through one or both."""
    logits = logits.clone().requires_grad_()
    results = Categorical(logits).log_prob_and_entropy(action)
    sums = [(result * torch.linspace(1.0, 2.0, len(result))[:, None]).sum() for result in results]
    {"log_prob": sums[0], "entropy": sums[1], "both": sums[0] + sums[1]}[which].backward()
    assert logits.grad is not None
    return [*(result.detach() for result in results), logits.grad]


@pytest.mark.parametrize("which", ["log_prob", "entropy", "both"])
@given(rows=sampled_from((0, 1, 5, 300)), width=integers(1, 9), is_masked=booleans(), seed=integers(0, 99))
def test_choices_are_judged_as_the_operators_do(which: str, rows: int, width: int, is_masked: bool, seed: int) -> None:
    torch.manual_seed(seed)
    logits, action = 3.0 * torch.randn(rows, width) + 50.0, torch.randint(width, (rows, 1))
    if is_masked and width > 1:
        logits[:, 0], action = -1e9, action.clamp(min=1)
    found = _judged(logits, action, which)
    with plain_operators():
        expected = _judged(logits, action, which)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def _judged_normally(given: list[Tensor], action: Tensor, which: str) -> list[Tensor]:
    """Log-probabilities, entropies, and the gradients of means and deviations through one or both."""
    given = [each.clone().requires_grad_() for each in given]
    results = Gaussian(*given).log_prob_and_entropy(action)
    sums = [(result * torch.linspace(1.0, 2.0, len(result))[:, None]).sum() for result in results]
    {"log_prob": sums[0], "entropy": sums[1], "both": sums[0] + sums[1]}[which].backward()
    slopes = [torch.zeros_like(each) if each.grad is None else each.grad for each in given]
    return [*(result.detach() for result in results), *slopes]


@pytest.mark.parametrize("which", ["log_prob", "entropy", "both"])
@given(rows=sampled_from((0, 1, 5, 300)), width=integers(1, 9), seed=integers(0, 99))
def test_normal_actions_are_judged_as_the_operators_do(which: str, rows: int, width: int, seed: int) -> None:
    torch.manual_seed(seed)
    given, action = [torch.randn(width, rows).T, 0.5 + torch.rand(width)], torch.randn(rows, width)
    found = _judged_normally(given, action, which)
    with plain_operators():
        expected = _judged_normally(given, action, which)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("is_normal", [False, True])
def test_what_was_judged_is_differentiated_twice(is_normal: bool) -> None:
    torch.manual_seed(4)
    given = [torch.randn(5, 3), 0.5 + torch.rand(3)] if is_normal else [torch.randn(5, 3)]
    given = [each.requires_grad_() for each in given]
    action = torch.randn(5, 3) if is_normal else torch.randint(3, (5, 1))

    def second() -> tuple[Tensor, ...]:
        results = (Gaussian if is_normal else Categorical)(*given).log_prob_and_entropy(action)
        first = torch.autograd.grad(sum(each.square().sum() for each in results), given, create_graph=True)
        return torch.autograd.grad(sum(each.square().sum() for each in first), given)

    found = second()
    with plain_operators():
        torch.testing.assert_close(found, second(), rtol=1e-3, atol=1e-3)


def test_a_choice_that_is_not_finite_is_not_hidden() -> None:
    for value in (math.nan, math.inf):
        log_prob, _ = Categorical(torch.tensor([[0.0, value]])).log_prob_and_entropy(torch.tensor([[0]]))
        assert not math.isfinite(log_prob)


@pytest.mark.parametrize("action", [-1, 2])
def test_actions_that_a_policy_does_not_have_are_refused(action: int) -> None:
    with pytest.raises(SchemaError, match=rf"{min(0, action)} to {max(0, action)}, expected 0 to 1"):
        Categorical(torch.zeros(2, 2)).log_prob_and_entropy(torch.tensor([[0], [action]]))


def test_a_distribution_with_an_entropy_of_its_own_is_asked_for_it() -> None:
    class Calm(Categorical):
        def entropy(self) -> Tensor:
            return torch.zeros(len(self.logits), 1)

    _, entropy = Calm(torch.zeros(2, 3)).log_prob_and_entropy(torch.zeros(2, 1, dtype=torch.int64))
    assert entropy.tolist() == [[0.0], [0.0]]
