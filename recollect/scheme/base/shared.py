"""What is known by the same name in a scheme, its gradients and a gradient worker."""

from typing import TYPE_CHECKING

from recollect.roles import Actor, Algorithm, Storage

if TYPE_CHECKING:
    from recollect.scheme.collection.agent_worker import AgentWorker


class SharedComponents:
    """Has at hand the components of the worker that collects: they are shared, nothing is copied.

    Attributes
    ----------
    col_worker : AgentWorker
        The worker in this process that collects, or stands for those that do, and that evaluates.
    """

    col_worker: "AgentWorker"

    @property
    def actor(self) -> Actor:
        """The actor that learns."""
        return self.col_worker.actor

    @property
    def algo(self) -> Algorithm:
        """The algorithm."""
        return self.col_worker.algo

    @property
    def storage(self) -> Storage:
        """The storage that batches come from; gradient workers elsewhere have their own."""
        return self.col_worker.storage
