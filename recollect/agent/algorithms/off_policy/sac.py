"""`SAC`: soft actor-critic for continuous actions."""

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import gymnasium as gym
from torch import Tensor

from recollect.agent.actors.plan import ActorPlan
from recollect.agent.actors.spaces import action_width
from recollect.agent.algorithms.losses.regression import Regression
from recollect.agent.algorithms.losses.targets import soft_value
from recollect.agent.algorithms.off_policy.actor_critic import ContinuousActorCritic, ContinuousConfig
from recollect.agent.algorithms.off_policy.soft import SoftActorCritic, SoftConfig
from recollect.agent.algorithms.transitions import Transitions
from recollect.options import one_of, option

PolicyCritics = Literal["lowest", "mean"]

POLICY_CRITICS_DOC: Final = "What the policy climbs: the lowest value of all critics, or their mean."


@dataclass(frozen=True, kw_only=True)
class SACConfig(SoftConfig, ContinuousConfig):
    """Options of `SAC`."""

    policy_critics: PolicyCritics = option("lowest", POLICY_CRITICS_DOC, one_of(*get_args(PolicyCritics)))

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        return ActorPlan(policy="squashed_gaussian", critic="q_action", num_critics=self.num_critics)


class SAC(ContinuousActorCritic, SoftActorCritic):
    """Soft actor-critic with automatic temperature (Haarnoja et al., 2018, https://arxiv.org/abs/1812.05905).

    Examples
    --------
    >>> SAC.create_factory(critic_lr=1e-3)
    AlgorithmFactory(SAC, critic_lr=0.001)
    """

    config_class = SACConfig
    config: SACConfig
    title = "SAC (continuous)"

    def _fit_taken(self, steps: Transitions, target: Tensor) -> Regression:
        return self._fit(steps, (steps.features, steps.action), target)

    def _next_value(self, steps: Transitions, temperature: Tensor) -> Tensor:
        action, log_prob = self.policy(steps.next_features(target=False)).sample_with_log_prob(self.generator)
        q_tp1 = self._lowest(self.target_critics(steps.next_features(target=True), action))
        return soft_value(q_tp1, log_prob, temperature)

    def _policy_losses(self, steps: Transitions, temperature: Tensor) -> tuple[Tensor, Tensor]:
        features = steps.features.detach()
        action, log_prob = self.policy(features).sample_with_log_prob(self.generator)
        with self._fixed_critics():
            q_t = self._climbed(self.critics(features, action))
        return -soft_value(q_t, log_prob, temperature), log_prob.detach().mean()

    def _climbed(self, values: Tensor) -> Tensor:
        """What the policy climbs `[rows, 1]`, of all critics' values."""
        return values.amin(0) if self.config.policy_critics == "lowest" else values.mean(0)

    def _default_target_entropy(self) -> float:
        return -float(action_width(self.actor.action_space))
