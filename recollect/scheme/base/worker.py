"""What all workers have in common."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recollect.errors import ConfigError
from recollect.scheme.base import engine
from recollect.scheme.base.commands import Command


class Worker(ABC):
    """Base class of all workers: plain objects that do one part of training, told apart by their index."""

    def __init__(self, index_worker: int) -> None:
        self.index_worker = index_worker
        self._num_ticks = 0
        self._is_building = False

    @classmethod
    def as_remote(cls, **options: object) -> Any:
        """Return the class as a Ray actor, whose instances are processes of their own.

        An instance is built by its method `build`, so that it answers `progress` as soon as its process runs. Calls
        are run one after the other, but for those of the concurrency group "control", which reach a worker while it
        is busy.

        Parameters
        ----------
        **options
            Ray's options of an actor: `num_cpus`, `num_gpus`, `memory`, `resources`, ...
        """
        ray = engine.require_ray()
        groups = {engine.CONTROL_GROUP: 1}
        try:
            remote = ray.remote(max_restarts=0, max_task_retries=0, concurrency_groups=groups, **options)
            return remote(_built_later(cls))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"Ray does not take {options} as resources of a worker: {error}") from error

    def process(self) -> tuple[int, str]:
        """Where the worker runs: id of its process, and Ray's name of the node."""
        return os.getpid(), engine.node_id()

    def progress(self) -> int | None:
        """Return a number that moves while the worker does something, its heartbeat; None while it builds."""
        return None if self._is_building else self._num_ticks

    @contextmanager
    def building(self) -> Iterator[None]:
        """Say that something is built, environments perhaps, which may take as long as to build the worker."""
        self._is_building = True
        try:
            yield
        finally:
            self._is_building = False

    def tick(self) -> None:
        """Move the heartbeat on."""
        self._num_ticks += 1

    @abstractmethod
    def execute(self, command: Command) -> None:
        """Make a change that is sent to all workers, here and in the workers below."""

    @abstractmethod
    def stop(self) -> None:
        """Release what the worker holds: environments and their processes."""


def _built_later(worker_class: type[Worker]) -> type[Worker]:
    """The class with a constructor that only notes its arguments, and a method `build` that does the work."""

    class BuiltOnRequest(worker_class):  # type: ignore[valid-type, misc]
        def __init__(self, **params: object) -> None:
            self._params = params
            self._is_built = False

        def build(self) -> None:
            super().__init__(**self._params)
            self._is_built = True

        def progress(self) -> int | None:
            return super().progress() if self._is_built else None

        def stop(self) -> None:
            if self._is_built:
                super().stop()

    BuiltOnRequest.__name__ = worker_class.__name__
    BuiltOnRequest.__qualname__ = worker_class.__qualname__
    return BuiltOnRequest
