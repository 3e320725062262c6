"""Policies: dense layers from features to a distribution over actions."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

import gymnasium as gym
import torch
from torch import Tensor, nn

from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.dense import MLP
from recollect.agent.actors.networks.distributions import (
    Bernoulli,
    Categorical,
    Deterministic,
    Distribution,
    Gaussian,
    MultiCategorical,
    SquashedGaussian,
)
from recollect.agent.actors.plan import ActorPlan, PolicyKind
from recollect.agent.actors.spaces import action_width, choice_counts
from recollect.errors import ConfigError

# Log-deviations outside this range only overflow; the range is that of Haarnoja et al. (2018), arXiv 1801.01290.
_LOG_STD_RANGE: Final = (-20.0, 2.0)
# Finite, so that probability times log-probability is 0 and not NaN.
_IMPOSSIBLE: Final = -1e9


class Head(nn.Module, ABC):
    """Base of the policies: an MLP with `num_outputs` numbers per row.

    Parameters
    ----------
    num_features : int
        Width of the features.
    num_outputs : int
        How many numbers the distribution needs.
    config : ActorConfig
        Hidden layers.
    """

    def __init__(self, num_features: int, num_outputs: int, config: ActorConfig) -> None:
        super().__init__()
        sizes = (num_features, *config.hidden_sizes, num_outputs)
        self.network = MLP(sizes, activation=config.activation, layer_norm=config.layer_norm)

    @abstractmethod
    def forward(self, features: Tensor) -> Distribution:
        """Features `[batch, num_features]` -> one distribution per row."""


class DeterministicHead(Head):
    """One action in (-1, 1)."""

    def __init__(self, num_features: int, space: gym.Space[Any], config: ActorConfig) -> None:
        super().__init__(num_features, action_width(space), config)

    def forward(self, features: Tensor) -> Deterministic:
        return Deterministic(self.network(features).tanh())


class SquashedGaussianHead(Head):
    """A Gaussian whose mean and deviation depend on the state, squashed into (-1, 1) by tanh."""

    def __init__(self, num_features: int, space: gym.Space[Any], config: ActorConfig) -> None:
        super().__init__(num_features, 2 * action_width(space), config)

    def forward(self, features: Tensor) -> SquashedGaussian:
        mean, log_std = self.network(features).chunk(2, -1)
        return SquashedGaussian(mean, log_std.clamp(*_LOG_STD_RANGE).exp())


class GaussianHead(Head):
    """A Gaussian whose mean depends on the state, and whose deviation is a parameter of its own, 1 at first."""

    def __init__(self, num_features: int, space: gym.Space[Any], config: ActorConfig) -> None:
        super().__init__(num_features, action_width(space), config)
        self.log_std = nn.Parameter(torch.zeros(action_width(space)))

    def forward(self, features: Tensor) -> Gaussian:
        return Gaussian(self.network(features), self.log_std.exp())


class CategoricalHead(Head):
    """One choice out of finitely many."""

    def __init__(self, num_features: int, space: gym.spaces.Discrete, config: ActorConfig) -> None:
        super().__init__(num_features, int(space.n), config)

    def forward(self, features: Tensor) -> Categorical:
        return Categorical(self.network(features))


class MultiCategoricalHead(Head):
    """Several independent choices, each with its own number of actions."""

    impossible: Tensor

    def __init__(self, num_features: int, space: gym.spaces.MultiDiscrete, config: ActorConfig) -> None:
        counts = torch.tensor(choice_counts(space))
        most = int(counts.max())
        super().__init__(num_features, len(counts) * most, config)
        self._shape = (len(counts), most)
        self._is_complete = bool((counts == most).all())
        self.register_buffer("impossible", torch.arange(most) >= counts[:, None], persistent=False)

    def forward(self, features: Tensor) -> MultiCategorical:
        logits = self.network(features).unflatten(-1, self._shape)  # [batch, num_choices, most]
        return MultiCategorical(logits if self._is_complete else logits.masked_fill(self.impossible, _IMPOSSIBLE))


class BernoulliHead(Head):
    """Independent switches."""

    def __init__(self, num_features: int, space: gym.spaces.MultiBinary, config: ActorConfig) -> None:
        super().__init__(num_features, action_width(space), config)

    def forward(self, features: Tensor) -> Bernoulli:
        return Bernoulli(self.network(features))


HeadBuilder = Callable[[int, Any, ActorConfig], Head]

_CHOICE_HEADS: Final[dict[type[gym.Space[Any]], HeadBuilder]] = {
    gym.spaces.Discrete: CategoricalHead,
    gym.spaces.MultiDiscrete: MultiCategoricalHead,
    gym.spaces.MultiBinary: BernoulliHead,
}
_BOX_HEADS: Final[dict[PolicyKind, HeadBuilder]] = {
    "gaussian": GaussianHead,
    "squashed_gaussian": SquashedGaussianHead,
    "deterministic": DeterministicHead,
}


def build_policy(plan: ActorPlan, num_features: int, space: gym.Space[Any], config: ActorConfig) -> nn.Module | None:
    """Build the policy that a plan asks for; None where it asks for none."""
    if plan.policy is None:
        return None
    build = plan.policy if callable(plan.policy) else _find_head(plan.policy, space)
    return build(num_features, space, config)


def _find_head(kind: PolicyKind, space: gym.Space[Any]) -> HeadBuilder:
    """Find the policy of a kind for an action space, or refuse it."""
    if kind == "categorical":
        for known, head in _CHOICE_HEADS.items():
            if isinstance(space, known):
                return head
        raise ConfigError(
            f"a categorical policy cannot act in {space}; it needs Discrete, MultiDiscrete or MultiBinary"
        )
    if not isinstance(space, gym.spaces.Box):
        raise ConfigError(f"a {kind} policy cannot act in {space}; it needs Box actions")
    return _BOX_HEADS[kind]
