"""`GWorker`: turns what was collected into gradients."""

from collections.abc import Iterator
from typing import Any

from recollect import keys
from recollect.errors import NotFiniteError
from recollect.scheme.base.worker import Worker
from recollect.scheme.collection.c_worker import CWorker

Info = dict[str, Any]


class GWorker(Worker):
    """Worker that draws batches and computes gradients.

    In one process it shares algorithm and storage with the worker that collects: nothing is copied.

    Parameters
    ----------
    index_worker : int
        Index of this worker.
    col_worker : CWorker
        The worker that collects for it.

    Attributes
    ----------
    offending_batch : dict or None
        The batch whose loss was not finite, if there was one.
    """

    def __init__(self, index_worker: int, col_worker: CWorker) -> None:
        super().__init__(index_worker)
        self.col_worker = col_worker
        self.offending_batch: dict[str, Any] | None = None

    @property
    def algo(self) -> Any:
        """The algorithm."""
        return self.col_worker.algo

    @property
    def storage(self) -> Any:
        """The storage."""
        return self.col_worker.storage

    def collect(self) -> float:
        """Have the data of one update stage collected; returns the seconds that it took.

        What an on-policy algorithm has learned from is let go first, and so is what is left of a stage
        that was interrupted.
        """
        if self.algo.is_on_policy:
            self.storage.reset()
        return self.col_worker.collect_train_data()[0]

    def compute_gradients(self) -> Iterator[Info]:
        """Compute the gradients of one batch after the other, and yield what is known of each.

        They are the algorithm's to apply before the next batch is asked for. There are none before the
        storage has seen `start_steps` steps.
        """
        algo, storage = self.algo, self.storage
        if self.col_worker.num_steps - self.col_worker.num_steps_lost < algo.start_steps:
            return
        storage.before_gradients()
        news = self._news()
        for batch in storage.generate_batches(algo.num_mini_batch, algo.mini_batch_size, algo.num_epochs):
            info = self._gradients_of(batch) | news
            news = {}
            yield storage.after_gradients(batch, info)

    def stop(self) -> None:
        """Stop the worker that collects."""
        self.col_worker.stop()

    def _gradients_of(self, batch: dict[str, Any]) -> Info:
        try:
            _, info = self.algo.compute_gradients(batch, grads_to_cpu=False)
        except NotFiniteError:
            self.offending_batch = batch
            raise
        found: Info = info
        return found

    def _news(self) -> Info:
        """Returns of the episodes that ended since the last stage, which some storages learn from."""
        returns = [episode.total_reward for episode in self.col_worker.episodes.take_new()]
        return {keys.EPISODES: {keys.TRAIN_REWARD: returns}} if returns else {}
