"""What is known by the same name in a scheme, its gradients and a gradient worker."""

from typing import Any


class SharedComponents:
    """Has at hand the components of the worker that collects: they are shared, nothing is copied.

    Attributes
    ----------
    col_worker : CWorker
        The worker in this process that collects, or stands for those that do, and that evaluates.
    """

    col_worker: Any

    @property
    def actor(self) -> Any:
        """The actor that learns."""
        return self.col_worker.actor

    @property
    def algo(self) -> Any:
        """The algorithm."""
        return self.col_worker.algo

    @property
    def storage(self) -> Any:
        """The storage that batches come from; gradient workers elsewhere have their own."""
        return self.col_worker.storage
