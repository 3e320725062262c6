"""`SyncCollector`: workers that wait for each other, but not for ever."""

import math

from recollect.scheme.base.worker_set import Call, WorkerSet
from recollect.scheme.collection.agent_worker import AgentWorker
from recollect.scheme.collection.collectors.remote_collector import RemoteCollector
from recollect.scheme.collection.collectors.sent_piece import SentPiece
from recollect.scheme.weights import Version


class SyncCollector(RemoteCollector):
    """All workers collect with the same weights, and the update stage waits for all of them.

    Once a share `fraction_workers` has finished, the others are told to stop; each does so as soon as it has a
    share `fraction_samples` of its steps. What they have is kept.

    Parameters
    ----------
    fraction_workers : float
        Share of workers that must have finished before the others are told to stop.
    """

    def __init__(
        self, worker: AgentWorker, workers: WorkerSet, num_parents: int = 1, *, fraction_workers: float = 1.0
    ) -> None:
        super().__init__(worker, workers, num_parents)
        self._fraction_workers = fraction_workers
        self._num_stages = 0

    def _collect(self, version: Version) -> None:
        # A word of its own for every stage: one that comes too late does not stop the next.
        self._num_stages += 1
        word = f"stop {self._num_stages}"
        pending = {self._call(index, version, [word]) for index in self._workers.indices}
        num_enough = math.ceil(self._fraction_workers * len(pending))
        told: set[Call] = set()
        pieces: dict[int, SentPiece] = {}
        while pending:
            for answer in self._workers.wait(pending):
                pending.remove(answer.call)
                if answer.error is None:
                    pieces[answer.call.worker] = answer.value
                else:
                    pending.add(self._call(answer.call.worker, version, [word]))
            if len(pieces) >= num_enough:
                for call in pending - told:
                    self._workers.tell(call.worker, "hear", word)
                told |= pending
        # In the order of workers, so that a run does not depend on who is faster.
        for index in sorted(pieces):
            self._take_in(pieces[index])

    def _let_go(self, index: int) -> None:
        """Do nothing: between stages all that was collected has been taken in."""
