"""`RLPD`: REDQ with layer norms, for batches that are half data."""

from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from recollect.agent.actors.plan import ActorPlan, Layers
from recollect.agent.algorithms.off_policy.sample_efficient.redq import REDQ, REDQConfig


@dataclass(frozen=True, kw_only=True)
class RLPDConfig(REDQConfig):
    """Options of `RLPD`."""

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        return replace(super().plan(action_space), critic_layers=Layers(layer_norm=True))


class RLPD(REDQ):
    """Reinforcement learning with prior data (Ball et al., 2023, https://arxiv.org/abs/2302.02948).

    Many updates follow every step; layer norms keep the critics from overestimating actions that neither the data nor
    own experience have. Half of each batch is data: use it with `storage=mixed`, as its preset does, and `--data`.
    Everything else is as in `REDQ`.

    Examples
    --------
    >>> RLPD.create_factory(num_mini_batch=10)
    AlgorithmFactory(RLPD, num_mini_batch=10)
    """

    config_class = RLPDConfig
    config: RLPDConfig
    title = "RLPD"
