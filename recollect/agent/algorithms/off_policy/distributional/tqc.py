"""`TQC`: soft actor-critic with truncated quantile critics."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from recollect.agent.actors.plan import ActorPlan
from recollect.agent.algorithms.losses.distributional import quantile_huber, truncated
from recollect.agent.algorithms.losses.targets import soft_value, td_target
from recollect.agent.algorithms.off_policy.distributional.qr_dqn import several
from recollect.agent.algorithms.off_policy.sac import SAC, SACConfig
from recollect.agent.algorithms.transitions import Transitions
from recollect.errors import ConfigError
from recollect.options import count_or_zero, number, option


@dataclass(frozen=True, kw_only=True)
class TQCConfig(SACConfig):
    """Options of `TQC`."""

    num_quantiles: int = option(25, "Quantiles of each critic.", several)
    num_dropped: int = option(2, "Largest quantiles that targets leave out, for each critic.", count_or_zero)
    huber_delta: float = option(1.0, "Errors beyond it count linearly.", number(0.0, above_low=True))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_dropped >= self.num_quantiles:
            raise ConfigError(
                f"num_dropped must be below num_quantiles, which is {self.num_quantiles}, got {self.num_dropped}"
            )
        if self.num_target_critics is not None or self.policy_critics != "lowest":
            raise ConfigError(
                "TQC takes all critics together, for targets and for its policy; leave num_target_critics and "
                "policy_critics out"
            )

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        return ActorPlan(
            policy="squashed_gaussian",
            critic="q_action",
            num_critics=self.num_critics,
            num_atoms=self.num_quantiles,
        )


class TQC(SAC):
    """Truncated quantile critics (Kuznetsov et al., 2020, https://arxiv.org/abs/2005.04269).

    Two critics by default, where the paper has five. The TD error that priorities go by is that of the means.

    Examples
    --------
    >>> TQC.create_factory(num_critics=5)
    AlgorithmFactory(TQC, num_critics=5)
    """

    config_class = TQCConfig
    config: TQCConfig
    title = "TQC"

    def _fit_critics(self, steps: Transitions, temperature: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            target = td_target(steps.reward, steps.discount, self._next_value(steps, temperature))
        atoms = self.critics(steps.features, steps.action)  # [num_critics, rows, num_quantiles]
        losses = quantile_huber(atoms, target, self.config.huber_delta).mean(-1, keepdim=True)
        return self._critic_loss(steps, target.mean(-1, keepdim=True) - atoms.mean(-1, keepdim=True), losses)

    def _next_value(self, steps: Transitions, temperature: Tensor) -> Tensor:
        """Soft returns `[rows, kept]` after the windows."""
        action, log_prob = self.policy(steps.next_features(target=False)).sample_with_log_prob(self.generator)
        atoms = self.target_critics(steps.next_features(target=True), action)
        return soft_value(truncated(atoms, self.config.num_dropped), log_prob, temperature)

    def _climbed(self, values: Tensor) -> Tensor:
        return values.mean(-1, keepdim=True).mean(0)
