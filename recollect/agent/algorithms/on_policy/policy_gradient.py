"""`PolicyGradient`: what on-policy algorithms share that have a policy and the critic of a state's value."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from recollect import keys
from recollect.agent.actors.base import NO_STATE
from recollect.agent.actors.plan import ActorPlan, PolicyKind
from recollect.agent.algorithms.on_policy.base import OnPolicyAlgorithm, OnPolicyConfig
from recollect.agent.algorithms.on_policy.surrogate import normalised
from recollect.options import flag, log_range, number, option
from recollect.roles import Batch, Observation


@dataclass(frozen=True, kw_only=True)
class PolicyGradientConfig(OnPolicyConfig):
    """Options of `PolicyGradient`."""

    value_weight: float = option(0.5, "Weight of the critic's loss.", number(0.0))
    entropy_weight: float = option(0.0, "Weight of the entropy bonus.", number(0.0), search=log_range(1e-5, 0.1))
    normalise_advantages: bool = option(True, "Give advantages mean 0 and deviation 1 in each mini-batch.", flag)

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        policy: PolicyKind = "gaussian" if isinstance(action_space, gym.spaces.Box) else "categorical"
        return ActorPlan(policy=policy, critic="value", target_critics=False)


class PolicyGradient(OnPolicyAlgorithm):
    """Base of the on-policy algorithms that have a policy and the critic of a state's value."""

    config: PolicyGradientConfig
    action_spaces = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)

    @torch.no_grad()
    def evaluate_actions(self, batch: Batch) -> tuple[Tensor, Tensor]:
        features, _ = self.actor.encode(batch[keys.OBS], batch.get(keys.RHS, NO_STATE), batch.get(keys.DONE, NO_STATE))
        policy = self._distribution(features, self.actor.action_mask(batch[keys.OBS]))
        return self.critics(features), policy.log_prob(batch[keys.ACTION])

    def _value(self, features: Tensor, obs: Observation) -> Tensor:
        value: Tensor = self.critics(features)
        return value

    def _act(
        self, features: Tensor, done: Tensor, deterministic: bool, mask: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        policy = self._distribution(features, mask)
        if deterministic:
            return policy.mode(), {}
        action, log_prob = policy.sample_with_log_prob(self.actor.generator)
        return action, {keys.VALUE: self.critics(features), keys.LOG_PROB: log_prob}

    def _advantages(self, rows: dict[str, Tensor]) -> Tensor:
        advantages = rows[keys.ADVANTAGE]
        return normalised(advantages) if self.config.normalise_advantages else advantages
