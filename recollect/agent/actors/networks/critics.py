"""Critics: dense layers from features to values, all of an ensemble in one batched network."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.mlp.composed import build_ensemble, build_single, critic_layers, critic_sizes
from recollect.agent.actors.networks.mlp.dense import EnsembleMLP
from recollect.agent.actors.networks.mlp.fused_stack import FusedRun, is_only
from recollect.agent.actors.plan import ActorPlan
from recollect.agent.actors.spaces import action_width
from recollect.agent.masks import choice_counts
from recollect.errors import ConfigError, OwnPart


class ActionCritics(nn.Module):
    """Values of given actions, one per critic, or the atoms of each."""

    def __init__(self, plan: ActorPlan, num_features: int, width: int, config: ActorConfig) -> None:
        super().__init__()
        sizes = (num_features + width, *critic_sizes(config), plan.num_atoms)
        self.network = build_ensemble(plan.num_critics, sizes, config, critic_layers(plan, config))

    def forward(self, features: Tensor, action: Tensor) -> Tensor:
        """Features `[batch, num_features]`, actions `[batch, action]` -> values `[num, batch, num_atoms]`."""
        values: Tensor = self.network(features, action)
        return values

    def first(self, features: Tensor, action: Tensor) -> Tensor:
        """The same of the first critic alone -> values `[batch, num_atoms]`."""
        return self.network.first(features, action)

    def run_apart(self, features: Tensor, action: Tensor) -> FusedRun | None:
        """`EnsembleMLP.run_apart` of the critics; None if they are of other layers."""
        network: Any = self.network
        is_dense = isinstance(network, EnsembleMLP) and is_only(self, ActionCritics.forward)
        return network.run_apart(features, action) if is_dense else None


class ChoiceCritics(nn.Module):
    """The atoms of each action's value."""

    def __init__(self, plan: ActorPlan, num_features: int, num_actions: int, config: ActorConfig) -> None:
        super().__init__()
        self._atoms = (num_actions, plan.num_atoms)
        sizes = (num_features, *critic_sizes(config), num_actions * plan.num_atoms)
        self.network = build_ensemble(plan.num_critics, sizes, config, critic_layers(plan, config))

    def forward(self, features: Tensor) -> Tensor:
        """Features `[batch, num_features]` -> atoms `[num, batch, num_actions, num_atoms]`."""
        atoms: Tensor = self.network(features)
        return atoms.view(*atoms.shape[:2], *self._atoms)


class DuelingCritics(nn.Module):
    """Values of all actions as a state's value plus advantages that average to 0; so each atom, where there are many.

    Wang et al. (2016), arXiv 1511.06581. The value and the advantages split at the last hidden layer.
    """

    def __init__(self, plan: ActorPlan, num_features: int, num_actions: int, config: ActorConfig) -> None:
        super().__init__()
        num, layers = plan.num_critics, critic_layers(plan, config)
        *shared, last = (num_features, *critic_sizes(config))
        split = shared[-1] if shared else last
        own = (split, last) if shared else (split,)
        self._atoms = (num_actions, plan.num_atoms)
        self.trunk = build_ensemble(num, shared, config, layers, activate_output=True) if len(shared) > 1 else None
        self.value = build_ensemble(num, (*own, plan.num_atoms), config, layers)
        self.advantage = build_ensemble(num, (*own, num_actions * plan.num_atoms), config, layers)

    def forward(self, features: Tensor) -> Tensor:
        """Features `[batch, num_features]` -> values `[num, batch, num_actions]`, atoms as in `ChoiceCritics`."""
        hidden = features if self.trunk is None else self.trunk(features)
        advantage: Tensor = self.advantage(hidden)
        value: Tensor = self.value(hidden)
        if self._atoms[1] == 1:
            return advantage + (value - advantage.mean(-1, keepdim=True))
        advantage = advantage.view(*advantage.shape[:2], *self._atoms)
        return advantage + (value.unsqueeze(-2) - advantage.mean(-2, keepdim=True))


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
    `[num, batch, num_actions]`; and of kind "q_action", from actions too, `[num, batch, 1]`. With several atoms, those
    of each value along the last axis.
    """
    if callable(plan.critic):
        return plan.critic(num_features, space, config)
    if callable(config.critic_head):
        num = 1 if plan.critic == "value" else plan.num_critics
        with OwnPart("critic_head must be made of a number of features, an action space and the actor's config"):
            critics = [config.critic_head(num_features, space, config) for _ in range(num)]
        _check_values(critics[0], plan, num_features, space)
        return critics[0] if plan.critic == "value" else OwnCritics(critics)
    if config.dueling and plan.critic != "q_values":
        raise ConfigError(f"dueling needs a critic of kind 'q_values', got {plan.critic!r}; leave dueling out")
    sizes, layers = (num_features, *critic_sizes(config)), critic_layers(plan, config)
    if plan.critic == "value":
        return build_single((*sizes, 1), config, layers)
    if plan.critic == "q_action":
        return ActionCritics(plan, num_features, action_width(space), config)
    if not isinstance(space, gym.spaces.Discrete):
        raise ConfigError(f"a critic of kind 'q_values' needs Discrete actions, got {space}; choose another algorithm")
    if config.dueling or plan.dueling:
        return DuelingCritics(plan, num_features, int(space.n), config)
    if plan.num_atoms > 1:
        return ChoiceCritics(plan, num_features, int(space.n), config)
    return build_ensemble(plan.num_critics, (*sizes, int(space.n)), config, layers)


@torch.no_grad()
def _check_values(critic: nn.Module, plan: ActorPlan, num_features: int, space: gym.Space[Any]) -> None:
    """Refuse a critic head of the user's own that gives other values than are asked for, by two rows of zeros."""
    inputs = [torch.zeros(2, num_features)]
    if plan.critic == "q_action":
        inputs.append(torch.zeros(2, action_width(space)))
    what, expected = _values_asked_for(plan, space)
    wanted = f"critic_head must take {'features and action' if len(inputs) > 1 else 'features'} and give {what}"
    with torch.random.fork_rng(devices=[]), OwnPart(wanted):
        given = critic(*inputs)
    if not isinstance(given, Tensor) or given.shape != expected:
        found = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
        raise ConfigError(f"{wanted}: expected {expected} of two rows, got {found}")


def _values_asked_for(plan: ActorPlan, space: gym.Space[Any]) -> tuple[str, tuple[int, ...]]:
    """What one critic gives of two rows, in words and as a shape."""
    atoms = (plan.num_atoms,) if plan.num_atoms > 1 else ()
    in_atoms = f", in {plan.num_atoms} atoms" if atoms else ""
    if plan.critic == "value":
        return "the state's value", (2, 1)
    if plan.critic == "q_action":
        return f"the given action's value{in_atoms}", (2, *(atoms or (1,)))
    return f"every action's value{in_atoms}", (2, *choice_counts(space), *atoms)
