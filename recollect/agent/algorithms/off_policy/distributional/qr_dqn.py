"""`QRDQN`: Q-learning by quantile regression."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from torch import Tensor

from recollect.agent.actors.plan import ActorPlan
from recollect.agent.algorithms.losses.distributional import quantile_huber
from recollect.agent.algorithms.losses.targets import td_target
from recollect.agent.algorithms.off_policy.ddqn import DDQNConfig
from recollect.agent.algorithms.off_policy.distributional.distributional_dqn import DistributionalDQN
from recollect.agent.algorithms.transitions import Transitions
from recollect.checks import check_count
from recollect.errors import ConfigError
from recollect.options import option


def several(name: str, value: object) -> int:
    """Check a number of atoms."""
    if check_count(name, value) < 2:
        raise ConfigError(f"{name} must be at least 2, got {value!r}; ddqn learns the mean alone")
    return int(str(value))


@dataclass(frozen=True, kw_only=True)
class QRDQNConfig(DDQNConfig):
    """Options of `QRDQN`."""

    num_quantiles: int = option(200, "Quantiles of the return that are learned for each action.", several)

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        return ActorPlan(policy=None, critic="q_values", num_atoms=self.num_quantiles)


class QRDQN(DistributionalDQN):
    """Quantile regression DQN (Dabney et al., 2017, https://arxiv.org/abs/1710.10044).

    Unlike in the paper, the online network chooses the action of a target, as in double Q-learning. The TD error that
    priorities go by is that of the means.

    Examples
    --------
    >>> QRDQN.create_factory(num_quantiles=50)
    AlgorithmFactory(QRDQN, num_quantiles=50)
    """

    config_class = QRDQNConfig
    config: QRDQNConfig
    title = "QR-DQN"

    def _mean(self, atoms: Tensor) -> Tensor:
        return atoms.mean(-1)

    def _compare(self, atoms: Tensor, steps: Transitions, next_atoms: Tensor) -> tuple[Tensor, Tensor]:
        target = td_target(steps.reward, steps.discount, next_atoms)  # [rows, num_quantiles]
        losses = quantile_huber(atoms, target, self.config.huber_delta).sum(-1, keepdim=True)
        return target.mean(-1, keepdim=True) - atoms.mean(-1, keepdim=True), losses
