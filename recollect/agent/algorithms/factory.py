"""The object that builds an algorithm where it is needed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

import gymnasium as gym

from recollect import roles
from recollect.agent.actors.base import Actor
from recollect.agent.actors.plan import ActorPlan
from recollect.agent.algorithms.config import AlgorithmConfig
from recollect.errors import ConfigError

if TYPE_CHECKING:
    from recollect.agent.algorithms.learning import LearningAlgorithm

P = ParamSpec("P")


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

    def __call__(self, device: roles.Device, actor: roles.Actor, envs: roles.VectorEnvs) -> "LearningAlgorithm":
        """Create an algorithm for this actor and these envs."""
        if not isinstance(actor, Actor):
            raise ConfigError(f"{self.algorithm_class.title} trains the networks of an Actor, got {actor!r}")
        return self.algorithm_class(device, actor, envs, self.config)

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        """Networks that an actor of these algorithms needs."""
        return self.algorithm_class.plan(action_space, self.config)

    def __iter__(self) -> Iterator[object]:
        """Refuse to be unpacked into a factory and a name, as PyTorchRL's `create_factory` is."""
        name = self.algorithm_class.__name__
        raise TypeError(
            f"create_factory returns the factory alone: algo_factory = {name}.create_factory(...); give it, or the "
            "class, where PyTorchRL takes the algorithm's name"
        )

    def __repr__(self) -> str:
        parts = (self.algorithm_class.__name__, self.config.summary())
        return f"AlgorithmFactory({', '.join(filter(None, parts))})"


class _HasConfig(Protocol[P]):
    @property
    def config_class(self) -> Callable[P, AlgorithmConfig]: ...


class CreatesAlgorithms:
    """Tells type checkers the keywords of `create_factory`: those of the constructor of the `config_class`."""

    def __get__(self, instance: object, owner: type[_HasConfig[P]]) -> Callable[P, AlgorithmFactory]:
        raise NotImplementedError  # stands in annotations alone
