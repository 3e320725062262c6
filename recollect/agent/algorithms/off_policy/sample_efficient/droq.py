"""`DroQ`: REDQ with two critics and dropout in place of many."""

from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from recollect.agent.actors.plan import ActorPlan, Layers
from recollect.agent.algorithms.config import critic_count
from recollect.agent.algorithms.off_policy.actor_critic import target_critic_count
from recollect.agent.algorithms.off_policy.sample_efficient.redq import REDQ, REDQConfig
from recollect.options import number, option


@dataclass(frozen=True, kw_only=True)
class DroQConfig(REDQConfig):
    """Options of `DroQ`."""

    num_critics: int = critic_count(2)
    num_target_critics: int | None = target_critic_count(None)
    dropout: float = option(0.01, "Share of the critics' hidden layers that is dropped in learning.", number(0.0, 0.99))

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        return replace(super().plan(action_space), critic_layers=Layers(layer_norm=True, dropout=self.dropout))


class DroQ(REDQ):
    """Dropout Q-functions (Hiraoka et al., 2021, https://arxiv.org/abs/2110.02034).

    Critics and their targets have dropout and layer norms. Everything else is as in `REDQ`.

    Examples
    --------
    >>> DroQ.create_factory(dropout=0.1)
    AlgorithmFactory(DroQ, dropout=0.1)
    """

    config_class = DroQConfig
    config: DroQConfig
    title = "DroQ"
