"""`AbsentEnvs`: stands for train environments that other workers act in."""

from collections.abc import Callable, Sequence
from typing import Any, Self

from recollect.agent.envs.factory import VecEnvFactory
from recollect.errors import WorkerError


class AbsentEnvs:
    """What a learner must know of environments that run elsewhere: how many each worker has, and what makes one.

    Parameters
    ----------
    num_envs : int
        Environments of one worker.
    env_fns : sequence of callable
        What makes each of them; storages ask one for its goals.
    """

    def __init__(self, num_envs: int, env_fns: Sequence[Callable[[], Any]] = ()) -> None:
        self.num_envs = num_envs
        self.env_fns = list(env_fns)
        self.num_failures = 0

    @classmethod
    def of(cls, factory: Callable[..., Any], *args: Any) -> Self:
        """Stand for the environments that `factory(*args)` would make, without making them if it can tell."""
        if isinstance(factory, VecEnvFactory):
            return cls(factory.vec_env_size, factory.env_fns())
        envs = factory(*args)
        found = cls(envs.num_envs, getattr(envs, "env_fns", ()))
        envs.close()
        return found

    def reset(self) -> Any:
        """Refuse: nobody acts here."""
        raise WorkerError("the train environments are in other workers; collect through the collection, not here")

    def reseed(self, number: int) -> None:
        """Do nothing: the workers that have the environments are told."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
