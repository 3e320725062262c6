"""`DDPG`: deterministic policy gradients."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from recollect.agent.actors.plan import ActorPlan
from recollect.agent.algorithms.config import critic_count, learning_rate
from recollect.agent.algorithms.learning import Losses
from recollect.agent.algorithms.losses.targets import td_target
from recollect.agent.algorithms.off_policy.actor_critic import (
    NOISE_DOC,
    ContinuousActorCritic,
    ContinuousConfig,
    NoiseKind,
    noise_kind,
)
from recollect.agent.algorithms.transitions import Transitions
from recollect.agent.algorithms.utils import backward
from recollect.options import option
from recollect.roles import Batch


@dataclass(frozen=True, kw_only=True)
class DDPGConfig(ContinuousConfig):
    """Options of `DDPG`."""

    policy_lr: float = learning_rate(1e-3, "Learning rate of the policy.")
    critic_lr: float = learning_rate(1e-3, "Learning rate of the critics.")
    num_critics: int = critic_count(1)
    noise: NoiseKind = option("gaussian", NOISE_DOC, noise_kind)

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        return ActorPlan(policy="deterministic", critic="q_action", num_critics=self.num_critics, target_policy=True)


class DDPG(ContinuousActorCritic):
    """Deep deterministic policy gradients (Lillicrap et al., 2015, https://arxiv.org/abs/1509.02971).

    Noise is Gaussian by default, which does as well as the paper's drifting noise; that is `noise="ou"`.

    Examples
    --------
    >>> DDPG.create_factory(noise="ou", noise_std=0.2)
    AlgorithmFactory(DDPG, noise='ou', noise_std=0.2)
    """

    config_class = DDPGConfig
    config: DDPGConfig
    title = "DDPG"

    def _backward(self, batch: Batch) -> Losses:
        steps = self._read(batch)
        target = self._target(steps)
        fit = self._fit(steps, (steps.features, steps.action), target)
        losses = {"loss_q": fit.loss} | self._policy_loss(steps)
        backward(*losses.values())
        return Losses(losses, fit.sizes)

    @torch.no_grad()
    def _target(self, steps: Transitions) -> Tensor:
        features = steps.next_features(target=True)
        q_tp1 = self._lowest(self.target_critics(features, self._next_action(features)))
        return td_target(steps.reward, steps.discount, q_tp1)

    def _next_action(self, features: Tensor) -> Tensor:
        """Actions `[rows, action]` of the target policy."""
        action: Tensor = self.target_policy(features).mode()
        return action

    def _policy_loss(self, steps: Transitions) -> dict[str, Tensor]:
        """Loss of the policy by its name, if it is due."""
        features = steps.features.detach()
        action = self.policy(features).mode()
        with self._fixed_critics():
            return {"loss_pi": -steps.mean(self.critics.first(features, action))}
