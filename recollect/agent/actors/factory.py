"""The object that builds an actor where it is needed, and what an algorithm asks of it."""

import os
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch

from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.plan import ActorPlan
from recollect.agent.registry import find_algorithm
from recollect.errors import ConfigError


@dataclass(frozen=True)
class ActorFactory:
    """Creates actors of one class and configuration, here or in a worker that it was sent to.

    Parameters
    ----------
    actor_class : type
        Class of the actors.
    obs_space, action_space : gymnasium.Space
        Spaces of one environment.
    plan : ActorPlan
        What the algorithm needs.
    config : ActorConfig
        Sizes and kinds of the networks.
    seed : int
        Seed of the first weights and of the actor's generator.
    restart_model : path, optional
        File of weights to begin with.
    """

    actor_class: type[Any]
    obs_space: gym.Space[Any]
    action_space: gym.Space[Any]
    plan: ActorPlan
    config: ActorConfig
    seed: int = 0
    restart_model: str | os.PathLike[str] | None = None

    def __call__(self, device: torch.device | str) -> Any:
        """Create an actor on a device. Its first weights depend on nothing but the seed."""
        # Modules draw their first weights from the global generator: it is lent to them and then restored.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            actor = self.actor_class(self.obs_space, self.action_space, self.plan, self.config)
        if self.restart_model is not None:
            actor.load(self.restart_model)
        actor.place(device)
        actor.seed(self.seed)
        return actor

    def __repr__(self) -> str:
        options = self.config.changed() | {"seed": self.seed}
        if self.restart_model is not None:
            options["restart_model"] = os.fspath(self.restart_model)
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        return f"ActorFactory({self.actor_class.__name__}, {self.obs_space}, {self.action_space}, {self.plan}, {given})"


def plan_of(algorithm: Any, action_space: gym.Space[Any]) -> ActorPlan:
    """Find out what an algorithm needs: its class, its plan or its name in the registry says it."""
    if isinstance(algorithm, ActorPlan):
        return algorithm
    if isinstance(algorithm, str):
        algorithm = find_algorithm(algorithm)
    if not hasattr(algorithm, "plan"):
        raise ConfigError(f"algorithm must be an algorithm's class, its name or an ActorPlan, got {algorithm!r}")
    plan: ActorPlan = algorithm.plan(action_space)
    return plan
