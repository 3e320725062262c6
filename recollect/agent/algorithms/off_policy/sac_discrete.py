"""`SACDiscrete`: soft actor-critic for finitely many actions."""

import math
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from recollect.agent.actors.plan import ActorPlan
from recollect.agent.algorithms.losses.regression import Regression
from recollect.agent.algorithms.losses.targets import expected_soft_value
from recollect.agent.algorithms.off_policy.soft import SoftActorCritic, SoftConfig
from recollect.agent.algorithms.transitions import Transitions
from recollect.agent.masks import choice_counts
from recollect.options import number, option


@dataclass(frozen=True, kw_only=True)
class SACDiscreteConfig(SoftConfig):
    """Options of `SACDiscrete`."""

    entropy_share: float = option(
        0.5, "Target entropy as a share of the uniform policy's, where none is given.", number(0.0, 1.0)
    )

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        return ActorPlan(policy="categorical", critic="q_values", num_critics=self.num_critics)


class SACDiscrete(SoftActorCritic):
    """Soft actor-critic for discrete actions (Christodoulou, 2019, https://arxiv.org/abs/1910.07207).

    Expectations over actions are exact. The target entropy is half of the uniform policy's by default,
    where the paper has 98 %, which keeps policies close to random in tasks with few actions.
    """

    config_class = SACDiscreteConfig
    config: SACDiscreteConfig
    title = "SAC (discrete)"
    action_spaces = (gym.spaces.Discrete,)
    masks_actions = True

    def _fit_taken(self, steps: Transitions, target: Tensor) -> Regression:
        return self._fit(steps, (steps.features,), target, action=steps.action)

    def _next_value(self, steps: Transitions, temperature: Tensor) -> Tensor:
        policy = self._distribution(steps.next_features(target=False), steps.next_mask)
        q_tp1 = self._lowest(self.target_critics(steps.next_features(target=True)))
        return expected_soft_value(q_tp1, policy.logits, temperature)

    def _policy_losses(self, steps: Transitions, temperature: Tensor) -> tuple[Tensor, Tensor]:
        features = steps.features.detach()
        policy = self._distribution(features, steps.mask)
        with torch.no_grad():
            q_t = self.critics(features).amin(0)
        return -expected_soft_value(q_t, policy.logits, temperature), -policy.entropy().detach().mean()

    def _target_entropy(self, steps: Transitions) -> float | Tensor:
        """Where actions are masked, a share of what is left: a state with one allowed action has no entropy."""
        mask = steps.mask
        if mask is None or self.config.target_entropy is not None:
            return self.target_entropy
        return self.config.entropy_share * mask.sum(-1).clamp(min=1).log().mean()

    def _default_target_entropy(self) -> float:
        return self.config.entropy_share * math.log(choice_counts(self.actor.action_space)[0])
