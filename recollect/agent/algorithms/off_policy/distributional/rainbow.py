"""`Rainbow`: categorical double Q-learning with dueling noisy networks."""

from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from recollect.agent.actors.plan import ActorPlan, Layers
from recollect.agent.algorithms.config import learning_rate
from recollect.agent.algorithms.off_policy.distributional.c51 import C51, C51Config
from recollect.options import number, option


@dataclass(frozen=True, kw_only=True)
class RainbowConfig(C51Config):
    """Options of `Rainbow`."""

    critic_lr: float = learning_rate(6.25e-5, "Learning rate of the Q network.")
    initial_epsilon: float = option(0.0, "Share of random actions at the beginning.", number(0.0, 1.0))
    final_epsilon: float = option(0.0, "Share of random actions at the end.", number(0.0, 1.0))
    noisy_std: float = option(0.5, "First deviation of the noise on weights, by which it explores.", number(0.0))

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        return replace(super().plan(action_space), dueling=True, critic_layers=Layers(noisy=self.noisy_std))


class Rainbow(C51):
    """Rainbow (Hessel et al., 2017, https://arxiv.org/abs/1710.02298): six ideas in one.

    Double, distributional, dueling and noisy are the algorithm's. Three-step returns and priorities are the storage's:
    `storage="per", n_step=3, alpha=0.5`, as presets have it. Noise is drawn once for each step of all environments.

    Examples
    --------
    >>> Rainbow.create_factory(noisy_std=0.1)
    AlgorithmFactory(Rainbow, noisy_std=0.1)
    """

    config_class = RainbowConfig
    config: RainbowConfig
    title = "Rainbow"
    optimiser_epsilon = 1.5e-4
