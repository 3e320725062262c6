"""The object that builds an algorithm where it is needed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch

from recollect.agent.actors.base import Actor
from recollect.agent.actors.plan import ActorPlan
from recollect.agent.algorithms.config import AlgorithmConfig

if TYPE_CHECKING:
    from recollect.agent.algorithms.learning import LearningAlgorithm


@dataclass(frozen=True)
class AlgorithmFactory:
    """Creates algorithms of one class and configuration, here or in a worker that it was sent to.

    Examples
    --------
    >>> from recollect.agent.algorithms.off_policy.sac import SAC
    >>> SAC.create_factory(gamma=0.98)
    AlgorithmFactory(SAC, gamma=0.98)
    """

    algorithm_class: "type[LearningAlgorithm]"
    config: AlgorithmConfig

    def __call__(self, device: torch.device | str, actor: Actor, envs: Any) -> "LearningAlgorithm":
        """Create an algorithm for this actor and these envs."""
        return self.algorithm_class(device, actor, envs, self.config)

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        """Networks that an actor of these algorithms needs."""
        return self.algorithm_class.plan(action_space, self.config)

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name, value in self.config.changed().items()]
        return f"AlgorithmFactory({', '.join([self.algorithm_class.__name__, *given])})"
