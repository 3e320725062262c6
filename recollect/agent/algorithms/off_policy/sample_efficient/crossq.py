"""`CrossQ`: soft actor-critic without target networks, by batch renormalisation."""

from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from recollect.agent.actors.networks.mlp.layers import running_statistics
from recollect.agent.actors.plan import ActorPlan, Layers
from recollect.agent.algorithms.config import learning_rate
from recollect.agent.algorithms.losses.targets import soft_value, td_target
from recollect.agent.algorithms.off_policy.sac import SAC, SACConfig
from recollect.agent.algorithms.off_policy.soft import policy_delay
from recollect.agent.algorithms.transitions import Transitions


@dataclass(frozen=True, kw_only=True)
class CrossQConfig(SACConfig):
    """Options of `CrossQ`."""

    policy_lr: float = learning_rate(1e-3, "Learning rate of the policy.")
    critic_lr: float = learning_rate(1e-3, "Learning rate of the critics.")
    temperature_lr: float = learning_rate(1e-3, "Learning rate of the temperature.")
    policy_delay: int = policy_delay(3)

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        renorm = Layers(batch_renorm=True)
        plan = super().plan(action_space)
        return replace(plan, target_critics=False, policy_layers=renorm, critic_layers=renorm)


class CrossQ(SAC):
    """CrossQ (Bhatt et al., 2024, https://arxiv.org/abs/1902.05605).

    Critics see the steps and what follows them as one batch, whose statistics normalise both. The paper's critics are
    2,048 wide (`critic_hidden_sizes=[2048, 2048]`) and its Adam has `optimiser_kwargs={"betas": [0.5, 0.999]}`;
    both are for the user to choose, since wide critics take ten times as long on a CPU.

    Examples
    --------
    >>> CrossQ.create_factory(policy_delay=1)
    AlgorithmFactory(CrossQ, policy_delay=1)
    """

    config_class = CrossQConfig
    config: CrossQConfig
    title = "CrossQ"

    def _fit_critics(self, steps: Transitions, temperature: Tensor) -> tuple[Tensor, Tensor]:
        following = steps.next_features(target=False)
        with torch.no_grad(), running_statistics(self.policy):
            action, log_prob = self.policy(following).sample_with_log_prob(self.generator)
        features, actions = torch.cat([steps.features, following]), torch.cat([steps.action, action])
        q_t, q_tp1 = self.critics(features, actions).chunk(2, 1)  # [num_critics, rows, 1]
        value = soft_value(self._lowest(q_tp1.detach()), log_prob, temperature)
        fit = self._regress(steps, q_t, td_target(steps.reward, steps.discount, value))
        return fit.loss, fit.sizes

    def _policy_losses(self, steps: Transitions, temperature: Tensor) -> tuple[Tensor, Tensor]:
        with running_statistics(self.critics):
            return super()._policy_losses(steps, temperature)
