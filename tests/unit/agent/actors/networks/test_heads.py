from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from torch import Generator, Tensor, nn

from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.distributions import (
    Bernoulli,
    Categorical,
    Deterministic,
    Gaussian,
    SquashedGaussian,
)
from recollect.agent.actors.networks.heads import build_policy
from recollect.agent.actors.plan import ActorPlan
from recollect.errors import ConfigError

FEATURES, ROWS = 3, 200
BOX = Box(-1, 1, (2, 2))


def plan_with(kind: Any) -> ActorPlan:
    return ActorPlan(policy=kind, critic="value")


def _distribution(kind: Any, space: Any, *, scale: float = 1.0) -> Any:
    head = build_policy(plan_with(kind), FEATURES, space, ActorConfig(hidden_sizes=(8,)))
    assert head is not None
    return head(scale * torch.randn(ROWS, FEATURES))


@pytest.mark.parametrize(
    ("kind", "space", "width", "distribution_class"),
    [
        ("deterministic", BOX, 4, Deterministic),
        ("squashed_gaussian", BOX, 4, SquashedGaussian),
        ("gaussian", BOX, 4, Gaussian),
        ("categorical", Discrete(5), 1, Categorical),
        ("categorical", MultiBinary((2, 3)), 6, Bernoulli),
    ],
)
def test_each_kind_gives_its_distribution(kind: str, space: Any, width: int, distribution_class: type) -> None:
    distribution = _distribution(kind, space)
    assert type(distribution) is distribution_class
    assert distribution.sample(Generator()).shape == (ROWS, width)
    assert distribution.mode().shape == (ROWS, width)


@pytest.mark.parametrize("kind", ["deterministic", "squashed_gaussian"])
def test_squashed_actions_stay_in_policy_units(kind: str) -> None:
    assert _distribution(kind, BOX, scale=100.0).sample(Generator()).abs().max() <= 1


def test_a_gaussian_begins_with_a_deviation_of_1_in_every_state() -> None:
    gaussian = _distribution("gaussian", BOX, scale=100.0)
    assert torch.equal(gaussian.std, torch.ones(4))
    assert gaussian.mean.abs().max() > 1


def test_a_squashed_gaussians_deviation_is_limited() -> None:
    std = _distribution("squashed_gaussian", BOX, scale=1e6).std
    torch.testing.assert_close(std.max().log(), torch.tensor(2.0))
    torch.testing.assert_close(std.min().log(), torch.tensor(-20.0))


@pytest.mark.parametrize("counts", [[2, 3, 4], [3, 3]])
def test_several_choices_never_take_an_action_that_a_choice_lacks(counts: list[int]) -> None:
    distribution = _distribution("categorical", MultiDiscrete(counts), scale=0.1)
    drawn = distribution.sample(Generator())
    assert drawn.max(0).values.tolist() == [count - 1 for count in counts]
    assert distribution.entropy().isfinite().all()
    totals = torch.stack([distribution.probs[:, i, :count].sum(-1) for i, count in enumerate(counts)])
    torch.testing.assert_close(totals, torch.ones_like(totals))


@pytest.mark.parametrize("kind", ["deterministic", "squashed_gaussian", "gaussian"])
def test_a_continuous_policy_needs_a_box(kind: Any) -> None:
    with pytest.raises(ConfigError, match=r"cannot act in Discrete\(2\); it needs Box"):
        build_policy(plan_with(kind), FEATURES, Discrete(2), ActorConfig())


def test_a_categorical_policy_needs_choices() -> None:
    with pytest.raises(ConfigError, match=r"cannot act in Box.* it needs Discrete"):
        build_policy(plan_with("categorical"), FEATURES, BOX, ActorConfig())


class FourNumbers(nn.Linear):
    """A policy head of a user, made for another action space."""

    is_continuous = False

    def __init__(self, num_features: int, space: Any, config: ActorConfig) -> None:
        super().__init__(num_features, 4)

    def forward(self, features: Tensor) -> Any:
        logits = super().forward(features)
        return Gaussian(logits, torch.ones(4)) if self.is_continuous else Categorical(logits)


class FourMeans(FourNumbers):
    is_continuous = True


@pytest.mark.parametrize(
    ("head", "space", "message"),
    [
        (FourNumbers, Discrete(3), r"gives 4 logits a row, expected 3 for Discrete\(3\)"),
        (FourMeans, Box(-1, 1, (2,)), r"gives actions of shape \(2, 4\) of two rows, expected \(2, 2\) for Box"),
        (FourMeans, Discrete(4), r"gives actions of shape \(2, 4\) of two rows, expected \(2, 1\)"),
    ],
)
def test_heads_of_ones_own_that_do_not_fit_the_actions_are_refused(head: Any, space: Any, message: str) -> None:
    kind: Any = "gaussian" if isinstance(space, Box) else "categorical"
    assert build_policy(plan_with(kind), FEATURES, Discrete(4), ActorConfig(policy_head=FourNumbers)) is not None
    with pytest.raises(ConfigError, match=message):
        build_policy(plan_with(kind), FEATURES, space, ActorConfig(policy_head=head))
