"""Critics: dense layers from features to values, all of an ensemble in one batched network."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.dense import MLP, EnsembleMLP
from recollect.agent.actors.plan import ActorPlan
from recollect.agent.actors.spaces import action_width
from recollect.errors import ConfigError


class ActionCritics(nn.Module):
    """Values of given actions, one per critic."""

    def __init__(self, num: int, num_features: int, width: int, config: ActorConfig) -> None:
        super().__init__()
        self.network = _ensemble(num, (num_features + width, *config.hidden_sizes, 1), config)

    def forward(self, features: Tensor, action: Tensor) -> Tensor:
        """Features `[batch, num_features]`, actions `[batch, action]` -> values `[num, batch, 1]`."""
        values: Tensor = self.network(features, action)
        return values

    def first(self, features: Tensor, action: Tensor) -> Tensor:
        """The same of the first critic alone -> values `[batch, 1]`."""
        return self.network.first(features, action)


class DuelingCritics(nn.Module):
    """Values of all actions as a state's value plus advantages that average to 0.

    Wang et al. (2016), arXiv 1511.06581. The value and the advantages split at the last hidden layer.
    """

    def __init__(self, num: int, num_features: int, num_actions: int, config: ActorConfig) -> None:
        super().__init__()
        *shared, last = (num_features, *config.hidden_sizes)
        split = shared[-1] if shared else last
        own = (split, last) if shared else (split,)
        self.trunk = _ensemble(num, shared, config, activate_output=True) if len(shared) > 1 else None
        self.value = _ensemble(num, (*own, 1), config)
        self.advantage = _ensemble(num, (*own, num_actions), config)

    def forward(self, features: Tensor) -> Tensor:
        """Features `[batch, num_features]` -> values `[num, batch, num_actions]`."""
        hidden = features if self.trunk is None else self.trunk(features)
        advantage: Tensor = self.advantage(hidden)
        value: Tensor = self.value(hidden)
        return advantage + (value - advantage.mean(-1, keepdim=True))


class OwnCritics(nn.Module):
    """Critics of the user's own, side by side: each takes what ours take, and gives one row of theirs."""

    def __init__(self, critics: Sequence[nn.Module]) -> None:
        super().__init__()
        self.critics = nn.ModuleList(critics)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Features `[batch, num_features]`, and actions where critics take them -> values `[num, batch, …]`."""
        return torch.stack([critic(*inputs) for critic in self.critics])

    def first(self, *inputs: Tensor) -> Tensor:
        """The same of the first critic alone -> values `[batch, …]`."""
        values: Tensor = self.critics[0](*inputs)
        return values


def build_critics(plan: ActorPlan, num_features: int, space: gym.Space[Any], config: ActorConfig) -> nn.Module:
    """Build the critics that a plan asks for.

    From features `[batch, num_features]` they give, of kind "value", `[batch, 1]`; of kind "q_values", of each action,
    `[num, batch, num_actions]`; and of kind "q_action", from actions too, `[num, batch, 1]`.
    """
    if callable(plan.critic):
        return plan.critic(num_features, space, config)
    if callable(config.critic_head):
        num = 1 if plan.critic == "value" else plan.num_critics
        critics = [config.critic_head(num_features, space, config) for _ in range(num)]
        return critics[0] if plan.critic == "value" else OwnCritics(critics)
    if config.dueling and plan.critic != "q_values":
        raise ConfigError(f"dueling needs a critic of kind 'q_values', got {plan.critic!r}; leave dueling out")
    sizes = (num_features, *config.hidden_sizes)
    if plan.critic == "value":
        return MLP((*sizes, 1), activation=config.activation, layer_norm=config.layer_norm)
    if plan.critic == "q_action":
        return ActionCritics(plan.num_critics, num_features, action_width(space), config)
    if not isinstance(space, gym.spaces.Discrete):
        raise ConfigError(f"a critic of kind 'q_values' needs Discrete actions, got {space}; choose another algorithm")
    if config.dueling:
        return DuelingCritics(plan.num_critics, num_features, int(space.n), config)
    return _ensemble(plan.num_critics, (*sizes, int(space.n)), config)


def _ensemble(num: int, sizes: Sequence[int], config: ActorConfig, *, activate_output: bool = False) -> EnsembleMLP:
    return EnsembleMLP(
        num, sizes, activation=config.activation, layer_norm=config.layer_norm, activate_output=activate_output
    )
