"""Policies: dense layers from features to a distribution over actions."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

import gymnasium as gym
import numpy as np
import torch
from torch import Generator, Tensor, nn

from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.distributions import (
    IMPOSSIBLE,
    Bernoulli,
    Categorical,
    Deterministic,
    Distribution,
    Gaussian,
    MultiCategorical,
    SquashedGaussian,
)
from recollect.agent.actors.networks.mlp.composed import build_single, policy_layers
from recollect.agent.actors.networks.mlp.dense import MLP
from recollect.agent.actors.networks.mlp.fused_stack import is_only
from recollect.agent.actors.networks.squash import LOG_STD_RANGE
from recollect.agent.actors.plan import PLAIN, ActorPlan, Layers, PolicyKind
from recollect.agent.actors.spaces import action_width
from recollect.agent.masks import choice_counts
from recollect.errors import ConfigError, OwnPart


class Head(nn.Module, ABC):
    """Base of the policies: a network with as many numbers per row as the distribution over actions needs."""

    def __init__(self, num_features: int, space: gym.Space[Any], config: ActorConfig, layers: Layers = PLAIN) -> None:
        super().__init__()
        sizes = (num_features, *config.hidden_sizes, self._num_outputs(space))
        self.network = build_single(sizes, config, layers)

    def _num_outputs(self, space: Any) -> int:
        return action_width(space)

    @abstractmethod
    def forward(self, features: Tensor) -> Distribution:
        """Features `[batch, num_features]` -> one distribution per row."""


class DeterministicHead(Head):
    """One action in (-1, 1)."""

    def forward(self, features: Tensor) -> Deterministic:
        return Deterministic(self.network(features).tanh())


class SquashedGaussianHead(Head):
    """A Gaussian whose mean and deviation depend on the state, squashed into (-1, 1) by tanh."""

    def _num_outputs(self, space: gym.spaces.Box) -> int:
        return 2 * action_width(space)

    def forward(self, features: Tensor) -> SquashedGaussian:
        return SquashedGaussian.of(self.network(features))

    def draw(self, rows: np.ndarray, generator: Generator) -> Tensor | None:
        """What `sample` of the distributions draws for float32 rows `[batch, num_features]`; None if no kernel can."""
        network: Any = self.network
        is_dense = (
            type(network) is MLP and is_only(network, MLP.forward) and is_only(self, SquashedGaussianHead.forward)
        )
        return network.draw_squashed(rows, LOG_STD_RANGE, generator) if is_dense else None


class GaussianHead(Head):
    """A Gaussian whose mean depends on the state, and whose deviation is a parameter of its own, 1 at first."""

    def __init__(self, num_features: int, space: gym.spaces.Box, config: ActorConfig, layers: Layers = PLAIN) -> None:
        super().__init__(num_features, space, config, layers)
        self.log_std = nn.Parameter(torch.zeros(action_width(space)))

    def forward(self, features: Tensor) -> Gaussian:
        return Gaussian(self.network(features), self.log_std.exp())


class CategoricalHead(Head):
    """One choice out of finitely many."""

    def _num_outputs(self, space: gym.spaces.Discrete) -> int:
        return int(space.n)

    def forward(self, features: Tensor) -> Categorical:
        return Categorical(self.network(features))


class MultiCategoricalHead(Head):
    """Several independent choices, each with its own number of actions."""

    impossible: Tensor

    def __init__(
        self, num_features: int, space: gym.spaces.MultiDiscrete, config: ActorConfig, layers: Layers = PLAIN
    ) -> None:
        super().__init__(num_features, space, config, layers)
        counts = torch.tensor(choice_counts(space))
        self._shape = (len(counts), int(counts.max()))
        self._is_complete = bool((counts == counts.max()).all())
        self.register_buffer("impossible", torch.arange(self._shape[1]) >= counts[:, None], persistent=False)

    def _num_outputs(self, space: gym.spaces.MultiDiscrete) -> int:
        counts = choice_counts(space)
        return len(counts) * max(counts)

    def forward(self, features: Tensor) -> MultiCategorical:
        logits = self.network(features).unflatten(-1, self._shape)  # [batch, num_choices, most]
        return MultiCategorical(logits if self._is_complete else logits.masked_fill(self.impossible, IMPOSSIBLE))


class BernoulliHead(Head):
    """Independent switches."""

    def forward(self, features: Tensor) -> Bernoulli:
        return Bernoulli(self.network(features))


HeadBuilder = Callable[[int, Any, ActorConfig, Layers], Head]

_HEADS: Final[dict[PolicyKind, dict[type[gym.Space[Any]], HeadBuilder]]] = {
    "categorical": {
        gym.spaces.Discrete: CategoricalHead,
        gym.spaces.MultiDiscrete: MultiCategoricalHead,
        gym.spaces.MultiBinary: BernoulliHead,
    },
    "gaussian": {gym.spaces.Box: GaussianHead},
    "squashed_gaussian": {gym.spaces.Box: SquashedGaussianHead},
    "deterministic": {gym.spaces.Box: DeterministicHead},
}


def build_policy(
    plan: ActorPlan, num_features: int, space: gym.Space[Any], config: ActorConfig, *, masks: bool = False
) -> nn.Module | None:
    """Build the policy that a plan asks for, or the user's in its place; None where the plan asks for none.

    `masks` says whether environments mask actions, so that a distribution must be able to leave some out.
    """
    if plan.policy is None:
        if config.policy_head is not None:
            raise ConfigError("the algorithm has no policy that policy_head could be of; use critic_head")
        return None
    if callable(config.policy_head):
        with OwnPart("policy_head must be made of a number of features, an action space and the actor's config"):
            own = config.policy_head(num_features, space, config)
        return _checked(own, num_features, space, masks)
    if callable(plan.policy):
        return plan.policy(num_features, space, config)
    heads = _HEADS[plan.policy]
    for kind, head in heads.items():
        if isinstance(space, kind):
            return head(num_features, space, config, policy_layers(plan, config))
    needed = " or ".join(kind.__name__ for kind in heads)
    raise ConfigError(f"a {plan.policy} policy cannot act in {space}; it needs {needed} actions")


@torch.no_grad()
def _checked(head: nn.Module, num_features: int, space: gym.Space[Any], masks: bool) -> nn.Module:
    """Refuse a policy head of the user's own that returns anything but what is asked of it, by two rows of zeros."""
    with torch.random.fork_rng(devices=[]), OwnPart(f"policy_head must take features [batch, {num_features}]"):
        given = head(torch.zeros(2, num_features))
    kind = type(given)
    expected = (2, action_width(space))
    if not isinstance(given, Distribution):
        raise ConfigError(
            f"policy_head must return a Distribution of {Distribution.__module__}, such as Gaussian or Categorical, "
            f"got {kind.__name__} of {kind.__module__}"
        )
    if masks and not hasattr(given, "masked"):
        raise ConfigError(
            f"the environment masks actions, and {kind.__name__}, which policy_head returns, has no method "
            "masked(mask); write one that returns the same distribution among allowed actions, or return a Categorical"
        )
    if (found := tuple(given.mode().shape)) != expected:
        raise ConfigError(f"policy_head gives actions of shape {found} of two rows, expected {expected} for {space}")
    if isinstance(space, gym.spaces.Discrete) and isinstance(given, Categorical) and given.logits.shape[-1] != space.n:
        raise ConfigError(f"policy_head gives {given.logits.shape[-1]} logits a row, expected {space.n} for {space}")
    return head
