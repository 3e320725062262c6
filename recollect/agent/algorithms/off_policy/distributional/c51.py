"""`C51`: Q-learning with the probabilities of returns on a fixed grid."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from recollect.agent.actors.plan import ActorPlan
from recollect.agent.algorithms.losses.distributional import projected
from recollect.agent.algorithms.losses.targets import td_target
from recollect.agent.algorithms.off_policy.ddqn import DDQNConfig
from recollect.agent.algorithms.off_policy.distributional.distributional_dqn import DistributionalDQN
from recollect.agent.algorithms.off_policy.distributional.qr_dqn import several
from recollect.agent.algorithms.transitions import Transitions
from recollect.errors import ConfigError
from recollect.options import number, option


@dataclass(frozen=True, kw_only=True)
class C51Config(DDQNConfig):
    """Options of `C51`."""

    num_atoms: int = option(51, "Returns on the grid.", several)
    lowest_return: float = option(-10.0, "Lowest discounted return on the grid.", number(-float("inf")))
    highest_return: float = option(10.0, "Highest discounted return on the grid.", number(-float("inf")))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lowest_return >= self.highest_return:
            raise ConfigError(
                f"lowest_return must be below highest_return, got {self.lowest_return} and {self.highest_return}; "
                "give the range of discounted returns of your task"
            )

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        return ActorPlan(policy=None, critic="q_values", num_atoms=self.num_atoms)


class C51(DistributionalDQN):
    """Categorical DQN (Bellemare et al., 2017, https://arxiv.org/abs/1707.06887).

    Unlike in the paper, the online network chooses the action of a target, as in double Q-learning. Priorities go by
    the KL divergence between target and estimate, as in Rainbow. Returns beyond the grid count as its ends, so
    `lowest_return` and `highest_return` must fit the task.

    Examples
    --------
    >>> C51.create_factory(lowest_return=0.0, highest_return=100.0)
    AlgorithmFactory(C51, lowest_return=0.0, highest_return=100.0)
    """

    config_class = C51Config
    config: C51Config
    title = "C51"

    def _configure(self) -> None:
        super()._configure()
        config = self.config
        ends = config.lowest_return, config.highest_return
        self._support = torch.linspace(*ends, config.num_atoms, device=self.device)

    def _mean(self, atoms: Tensor) -> Tensor:
        # No matrix product, which a lower precision would round until neighbouring actions are worth the same.
        return (atoms.softmax(-1) * self._support).sum(-1)

    def _compare(self, atoms: Tensor, steps: Transitions, next_atoms: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            returns = td_target(steps.reward, steps.discount, self._support.expand_as(next_atoms))
            target = projected(next_atoms.softmax(-1), returns, self._support)
        losses = -(target * atoms.log_softmax(-1)).sum(-1, keepdim=True)  # [1, rows, 1]
        entropy = -torch.special.xlogy(target, target).sum(-1, keepdim=True)
        return losses.detach() - entropy, losses
