"""What all workers have in common."""

from abc import ABC, abstractmethod


class Worker(ABC):
    """Base class of all workers: plain objects that do one part of training.

    Parameters
    ----------
    index_worker : int
        Tells the worker from others of its kind.
    """

    def __init__(self, index_worker: int) -> None:
        self.index_worker = index_worker

    @abstractmethod
    def stop(self) -> None:
        """Release what the worker holds: environments and their processes."""
