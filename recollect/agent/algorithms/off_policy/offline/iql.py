"""`IQL`: implicit Q-learning, which never evaluates actions outside the data."""

from dataclasses import dataclass
from typing import Any, Final

import gymnasium as gym
import torch
from torch import Tensor, nn

from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.critics import build_critics
from recollect.agent.actors.networks.distributions import Gaussian
from recollect.agent.actors.networks.heads import GaussianHead
from recollect.agent.actors.networks.mlp.composed import build_single, critic_layers, critic_sizes, policy_layers
from recollect.agent.actors.plan import ActorPlan
from recollect.agent.algorithms.learning import Losses
from recollect.agent.algorithms.losses.targets import advantage_weights, expectile_losses, td_target
from recollect.agent.algorithms.off_policy.actor_critic import ContinuousActorCritic, ContinuousConfig, no_start_steps
from recollect.agent.algorithms.transitions import Transitions
from recollect.agent.algorithms.utils import backward
from recollect.options import number, option
from recollect.roles import Batch

_LOG_STD_RANGE: Final = (-5.0, 2.0)


class BoundedGaussianHead(GaussianHead):
    """A Gaussian whose mean lies in (-1, 1), and whose deviation is a parameter of its own."""

    def forward(self, features: Tensor) -> Gaussian:
        return Gaussian(self.network(features).tanh(), self.log_std.clamp(*_LOG_STD_RANGE).exp())


def bounded_gaussian(num_features: int, space: gym.Space[Any], config: ActorConfig) -> nn.Module:
    """Build the policy of `IQL`."""
    assert isinstance(space, gym.spaces.Box)
    plan = ActorPlan(policy="gaussian", critic="q_action")
    return BoundedGaussianHead(num_features, space, config, policy_layers(plan, config))


class ValuedCritics(nn.Module):
    """Values of given actions, one per critic, and beside them the value of a state."""

    def __init__(self, plan: ActorPlan, num_features: int, space: gym.Space[Any], config: ActorConfig) -> None:
        super().__init__()
        self.critics = build_critics(plan, num_features, space, config)
        self.state_value = build_single((num_features, *critic_sizes(config), 1), config, critic_layers(plan, config))

    def forward(self, features: Tensor, action: Tensor) -> Tensor:
        """Features `[batch, num_features]`, actions `[batch, action]` -> values `[num, batch, 1]`."""
        values: Tensor = self.critics(features, action)
        return values


@dataclass(frozen=True)
class BuildsValuedCritics:
    """Builds the critics of `IQL`."""

    num_critics: int

    def __call__(self, num_features: int, space: gym.Space[Any], config: ActorConfig) -> nn.Module:
        plan = ActorPlan(policy="gaussian", critic="q_action", num_critics=self.num_critics)
        return ValuedCritics(plan, num_features, space, config)


@dataclass(frozen=True, kw_only=True)
class IQLConfig(ContinuousConfig):
    """Options of `IQL`."""

    start_steps: int = no_start_steps()
    expectile: float = option(0.7, "Which expectile of the actions' values a state is worth: 1 for the best.",
                              number(0.5, 1.0))  # fmt: skip
    advantage_scale: float = option(3.0, "How much the policy prefers actions that are better.", number(0.0))
    largest_weight: float = option(100.0, "Most that one action counts for the policy.", number(0.0, above_low=True))

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        critics = BuildsValuedCritics(self.num_critics)
        return ActorPlan(policy=bounded_gaussian, critic=critics, num_critics=self.num_critics)


class IQL(ContinuousActorCritic):
    """Implicit Q-learning (Kostrikov et al., 2021, https://arxiv.org/abs/2110.06169), for data that are given.

    Values, critics and policy descend together, where the authors' code updates one after the other. Without data it
    learns online, from actions of its own from the first step on.

    Examples
    --------
    >>> IQL.create_factory(expectile=0.9)
    AlgorithmFactory(IQL, expectile=0.9)
    """

    config_class = IQLConfig
    config: IQLConfig
    title = "IQL"

    def _backward(self, batch: Batch) -> Losses:
        steps = self._read(batch)
        with torch.no_grad():
            # The trained value, which has no target network: the target critics that it regresses on move slowly.
            v_tp1 = self.critics.state_value(steps.next_features(target=False))
            target = td_target(steps.reward, steps.discount, v_tp1)
            q_t = self._lowest(self.target_critics(steps.target_features(), steps.action))
        fit = self._regress(steps, self.critics(steps.features, steps.action), target)
        advantage = q_t - self.critics.state_value(steps.features)
        loss_v = steps.mean(expectile_losses(advantage, self.config.expectile))
        losses = {"loss_q": fit.loss + loss_v, "loss_pi": self._policy_loss(steps, advantage.detach())}
        backward(*losses.values())
        return Losses(losses | {"loss_v": loss_v}, fit.sizes)

    def _policy_loss(self, steps: Transitions, advantage: Tensor) -> Tensor:
        """Behaviour cloning, in which good actions count more."""
        log_prob = self.policy(steps.features.detach()).log_prob(steps.action)
        return -steps.mean(
            advantage_weights(advantage, self.config.advantage_scale, self.config.largest_weight) * log_prob
        )

    def _act(
        self, features: Tensor, done: Tensor, deterministic: bool, mask: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        action, other = super()._act(features, done, deterministic, mask)
        return action.clamp(-1.0, 1.0), other
