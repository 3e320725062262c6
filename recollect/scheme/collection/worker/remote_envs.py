"""`RemoteEnvs`: a placeholder for train environments that other workers step."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

import gymnasium as gym

from recollect.agent.envs.factory import VecEnvFactory
from recollect.errors import WorkerError
from recollect.roles import Device, EnvsFactory, Observation

Spaces = tuple[gym.Space[Any] | None, gym.Space[Any] | None]
"""Of observations and actions; None where they are not known."""


class RemoteEnvs:
    """What a learner must know of environments that run elsewhere: how many, of what form, and what makes one.

    Parameters
    ----------
    num_envs : int
        Environments of one worker.
    env_fns : sequence of callable
        What makes each of them; storages ask one for its goals.
    find_spaces : callable
        Finds the spaces of observations and actions, None if they are not known; called when somebody asks.
    """

    def __init__(
        self,
        num_envs: int,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]] = (),
        find_spaces: Callable[[], Spaces] = lambda: (None, None),
    ) -> None:
        self.num_envs = num_envs
        self.env_fns = list(env_fns)
        self._find_spaces = find_spaces
        self.num_failures = 0

    @classmethod
    def of(cls, factory: EnvsFactory, device: Device, index_worker: int, index_parent: int) -> Self:
        """Stand for the environments that a factory would make, without making them if it can tell."""
        if isinstance(factory, VecEnvFactory):
            return cls(factory.vec_env_size, factory.env_fns(), factory.spaces)
        envs = factory(device, index_worker, index_parent)
        spaces = getattr(envs, "observation_space", None), getattr(envs, "action_space", None)
        found = cls(envs.num_envs, getattr(envs, "env_fns", ()), lambda: spaces)
        envs.close()
        return found

    @property
    def observation_space(self) -> Any:
        """Space of one environment's observations."""
        return self._spaces[0]

    @property
    def action_space(self) -> Any:
        """Space of one environment's actions."""
        return self._spaces[1]

    def reset(self) -> Observation:
        """Refuse: nobody acts here."""
        raise WorkerError("the train environments are in other workers; collect through the collection, not here")

    def reseed(self, number: int) -> None:
        """Do nothing: the workers that have the environments do it."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    @cached_property
    def _spaces(self) -> Spaces:
        return self._find_spaces()
