"""The object that builds an actor where it is needed, and what an algorithm asks of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

import gymnasium as gym
import torch

from recollect.agent.actors.config import ActorOptions
from recollect.agent.actors.plan import ActorPlan
from recollect.agent.registry import ALGORITHMS
from recollect.errors import ConfigError
from recollect.roles import Device

if TYPE_CHECKING:
    from recollect.agent.actors.base import Actor

P = ParamSpec("P")


class HasPlan(Protocol):
    """An algorithm's class, or its factory, which knows the options too."""

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan: ...


AlgorithmLike = HasPlan | ActorPlan | str
"""What tells an actor which networks it needs: an algorithm's factory, class or name in the registry, or a plan."""


@dataclass(frozen=True, repr=False)
class ActorFactory:
    """Creates actors of one class and configuration, here or in a worker that it was sent to.

    Attributes as in `Actor.create_factory`, with the plan instead of the algorithm.
    """

    actor_class: "type[Actor]"
    obs_space: gym.Space[Any]
    action_space: gym.Space[Any]
    plan: ActorPlan
    options: ActorOptions

    def __call__(self, device: Device) -> "Actor":
        """Create an actor on a device. Its first weights depend on nothing but the seed."""
        # Modules draw their first weights from the global generator: it is lent to them and then restored.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.options.seed)
            actor = self.actor_class(self.obs_space, self.action_space, self.plan, self.options)
        if self.options.restart_model is not None:
            actor.load(self.options.restart_model)
        actor.place(device)
        actor.seed(self.options.seed)
        return actor

    def __repr__(self) -> str:
        parts = (self.actor_class.__name__, self.obs_space, self.action_space, self.plan, self.options.summary())
        return f"ActorFactory({', '.join(filter(None, map(str, parts)))})"


class Creates(Protocol[P]):
    """Signature of `Actor.create_factory`, whose keywords are the fields of the actor's `config_class`."""

    def __call__(
        self,
        obs_space: gym.Space[Any],
        action_space: gym.Space[Any],
        algorithm: AlgorithmLike,
        *args: P.args,
        **options: P.kwargs,
    ) -> ActorFactory: ...


class _HasConfig(Protocol[P]):
    @property
    def config_class(self) -> Callable[P, ActorOptions]: ...


class CreatesActors:
    """Tells type checkers the keywords of `create_factory`: those of the constructor of the `config_class`."""

    def __get__(self, instance: object, owner: type[_HasConfig[P]]) -> Creates[P]:
        raise NotImplementedError  # stands in annotations alone


def plan_of(algorithm: AlgorithmLike, action_space: gym.Space[Any]) -> ActorPlan:
    """Find out what networks an algorithm needs."""
    if isinstance(algorithm, ActorPlan):
        return algorithm
    known = ALGORITHMS.find(algorithm) if isinstance(algorithm, str) else algorithm
    if not hasattr(known, "plan"):
        raise ConfigError(
            f"algorithm must be an algorithm's factory, class or name, or an ActorPlan, got {algorithm!r}"
        )
    return known.plan(action_space)
