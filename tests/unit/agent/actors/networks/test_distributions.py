import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Generator, Tensor
from torch import distributions as reference

from recollect.agent.actors.networks.distributions import (
    Bernoulli,
    Categorical,
    Deterministic,
    Gaussian,
    MultiCategorical,
    SquashedGaussian,
)

ROWS = 4
MEAN = torch.tensor([[0.5, -1.0], [0.0, 2.0], [3.0, 0.1], [-0.2, 0.2]])
STD = torch.tensor([[0.5, 1.0], [0.1, 2.0], [1.0, 0.3], [0.7, 0.2]])
LOGITS = torch.tensor([[1.0, 0.0, -2.0], [0.3, 0.3, 0.3], [-5.0, 5.0, 0.0], [0.0, 1.0, 2.0]])

MAKERS: list[Callable[[], object]] = [
    lambda: Gaussian(MEAN, STD),
    lambda: SquashedGaussian(MEAN, STD),
    lambda: Categorical(LOGITS),
    lambda: MultiCategorical(LOGITS.reshape(2, 2, 3)),
    lambda: Bernoulli(LOGITS),
]


def _generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


@pytest.mark.parametrize("make", MAKERS)
def test_draws_come_from_the_given_generator_alone(make: Callable[[], object]) -> None:
    state = torch.get_rng_state()
    first, second, other = (make().sample(_generator(seed)) for seed in (1, 1, 2))  # type: ignore[attr-defined]
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("make", MAKERS)
def test_a_draw_with_its_probability_is_the_same_draw(make: Callable[[], object]) -> None:
    distribution = make()
    action, log_prob = distribution.sample_with_log_prob(_generator())  # type: ignore[attr-defined]
    assert torch.equal(action, distribution.sample(_generator()))  # type: ignore[attr-defined]
    assert log_prob.shape == (len(action), 1)
    torch.testing.assert_close(log_prob, distribution.log_prob(action), rtol=1e-3, atol=1e-3)  # type: ignore[attr-defined]


def test_gaussian_against_torch() -> None:
    ours, theirs = Gaussian(MEAN, STD), reference.Independent(reference.Normal(MEAN, STD), 1)
    action = torch.randn(ROWS, 2)
    torch.testing.assert_close(ours.log_prob(action)[:, 0], theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy()[:, 0], theirs.entropy())
    assert torch.equal(ours.mode(), MEAN)


def test_a_deviation_that_all_rows_share() -> None:
    shared, repeated = Gaussian(MEAN, STD[0]), Gaussian(MEAN, STD[0].expand(ROWS, -1))
    action = torch.randn(ROWS, 2)
    torch.testing.assert_close(shared.log_prob(action), repeated.log_prob(action))
    torch.testing.assert_close(shared.entropy(), repeated.entropy())


def test_squashed_gaussian_against_torch() -> None:
    theirs = reference.Independent(
        reference.TransformedDistribution(reference.Normal(MEAN, STD), reference.TanhTransform()), 1
    )
    action, log_prob = SquashedGaussian(MEAN, STD).sample_with_log_prob(_generator())
    torch.testing.assert_close(log_prob[:, 0], theirs.log_prob(action), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(SquashedGaussian(MEAN, STD).mode(), MEAN.tanh())


def test_a_saturated_action_has_a_finite_log_probability() -> None:
    far = SquashedGaussian(torch.full((1, 1), 30.0), torch.ones(1, 1))
    action, log_prob = far.sample_with_log_prob(_generator())
    assert action.item() == 1.0
    assert log_prob.isfinite().all()
    assert far.log_prob(action).isfinite().all()


def test_gradients_pass_through_continuous_draws() -> None:
    mean, std = MEAN.clone().requires_grad_(), STD.clone().requires_grad_()
    action, log_prob = SquashedGaussian(mean, std).sample_with_log_prob(_generator())
    (action.sum() + log_prob.sum()).backward()
    assert mean.grad is not None
    assert std.grad is not None
    assert mean.grad.ne(0).all()
    assert std.grad.ne(0).all()


def test_categorical_against_torch() -> None:
    ours, theirs = Categorical(LOGITS), reference.Categorical(logits=LOGITS)
    for choice in range(3):
        action = torch.full((ROWS, 1), choice)
        torch.testing.assert_close(ours.log_prob(action)[:, 0], theirs.log_prob(action[:, 0]))
    torch.testing.assert_close(ours.entropy()[:, 0], theirs.entropy())
    torch.testing.assert_close(ours.probs, theirs.probs)
    assert ours.mode().tolist() == [[0], [0], [1], [2]]


def test_bernoulli_against_torch() -> None:
    ours, theirs = Bernoulli(LOGITS), reference.Independent(reference.Bernoulli(logits=LOGITS), 1)
    action = torch.tensor([[0, 1, 1], [1, 1, 0], [0, 0, 0], [1, 0, 1]])
    torch.testing.assert_close(ours.log_prob(action)[:, 0], theirs.log_prob(action.float()))
    torch.testing.assert_close(ours.entropy()[:, 0], theirs.entropy())
    assert ours.mode().tolist() == [[1, 0, 0], [1, 1, 1], [0, 1, 0], [0, 1, 1]]


def test_several_choices_are_independent() -> None:
    logits = torch.randn(ROWS, 2, 3)
    ours = MultiCategorical(logits)
    parts = [reference.Categorical(logits=logits[:, index]) for index in range(2)]
    action = torch.tensor([[0, 2], [1, 1], [2, 0], [0, 0]])
    expected = sum(part.log_prob(action[:, index]) for index, part in enumerate(parts))
    torch.testing.assert_close(ours.log_prob(action)[:, 0], expected)
    torch.testing.assert_close(ours.entropy()[:, 0], parts[0].entropy() + parts[1].entropy())
    assert ours.mode().shape == (ROWS, 2)


def _frequencies(action: Tensor, num: int) -> Tensor:
    return torch.bincount(action.flatten(), minlength=num) / action.numel()


def test_choices_are_drawn_as_often_as_probable() -> None:
    many = Categorical(LOGITS[:1].expand(200_000, -1)).sample(_generator())
    torch.testing.assert_close(_frequencies(many, 3), LOGITS[0].softmax(0), rtol=0.03, atol=3e-3)


def test_switches_are_drawn_as_often_as_probable() -> None:
    many = Bernoulli(LOGITS[:1].expand(200_000, -1)).sample(_generator())
    torch.testing.assert_close(many.float().mean(0), LOGITS[0].sigmoid(), rtol=0.03, atol=3e-3)


def test_gaussian_draws_have_their_moments() -> None:
    many = Gaussian(MEAN[0].expand(200_000, -1), STD[0]).sample(_generator())
    np.testing.assert_allclose(many.mean(0), MEAN[0], atol=0.01)
    np.testing.assert_allclose(many.std(0), STD[0], rtol=0.01)


def test_a_deterministic_policy_gives_its_action() -> None:
    only = Deterministic(MEAN)
    assert only.sample(_generator()) is MEAN
    assert only.mode() is MEAN


def test_entropy_of_a_fair_choice_is_log_n() -> None:
    assert Categorical(torch.zeros(1, 8)).entropy().item() == pytest.approx(math.log(8))
