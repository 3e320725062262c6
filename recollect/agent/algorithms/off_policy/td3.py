"""`TD3`: DDPG with twin critics, smoothed targets and a slower policy."""

from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.agent.algorithms.config import critic_count
from recollect.agent.algorithms.losses.targets import smoothed_action
from recollect.agent.algorithms.off_policy.ddpg import DDPG, DDPGConfig
from recollect.agent.algorithms.transitions import Transitions
from recollect.options import count, number, option


@dataclass(frozen=True, kw_only=True)
class TD3Config(DDPGConfig):
    """Options of `TD3`."""

    num_critics: int = critic_count(2)
    policy_delay: int = option(2, "Updates of the critics for each one of the policy and the targets.", count)
    target_noise_std: float = option(0.2, "Deviation of the noise on target actions.", number(0.0))
    target_noise_limit: float = option(0.5, "Largest noise on target actions.", number(0.0))


class TD3(DDPG):
    """Twin delayed deep deterministic policy gradients (Fujimoto et al., 2018, https://arxiv.org/abs/1802.09477).

    Examples
    --------
    >>> TD3.create_factory(policy_delay=1)
    AlgorithmFactory(TD3, policy_delay=1)
    """

    config_class = TD3Config
    config: TD3Config
    title = "TD3"

    def _next_action(self, features: Tensor) -> Tensor:
        action = super()._next_action(features)
        noise = torch.empty_like(action).normal_(std=self.config.target_noise_std, generator=self.generator)
        return smoothed_action(action, noise, self.config.target_noise_limit)

    def _policy_loss(self, steps: Transitions) -> dict[str, Tensor]:
        is_due = (self.num_computed + 1) % self.config.policy_delay == 0
        return super()._policy_loss(steps) if is_due else {}

    def _after_step(self) -> None:
        if self.num_updates % self.config.policy_delay == 0:
            super()._after_step()
