"""`SyncCollector`: workers that wait for each other, with stragglers cut short."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from recollect.errors import StorageError, WorkerError
from recollect.scheme.base import engine
from recollect.scheme.base.member import Call
from recollect.scheme.base.worker_set import WorkerSet
from recollect.scheme.collection.agent_worker import AgentWorker
from recollect.scheme.collection.collectors.remote_collector import RemoteCollector
from recollect.scheme.collection.collectors.sent_piece import SentPiece
from recollect.scheme.collection.worker.acting import GAP
from recollect.scheme.collection.worker.rows import Rows
from recollect.scheme.overlap import Overlap
from recollect.scheme.weights import Version

_PLACES: Final = "workers"


class SyncCollector(RemoteCollector):
    """All workers collect with the same weights, and the update stage waits for all of them.

    Once a share `fraction_workers` has finished, the others are signalled to stop; each does so as soon as it has a
    share `fraction_samples` of its steps. What they have is kept.

    Parameters
    ----------
    fraction_workers : float
        Share of workers that must have finished before the others are signalled to stop.
    is_elastic : bool
        Whether all workers act as one, so that what is collected does not depend on how many there are.
    """

    def __init__(
        self,
        worker: AgentWorker,
        workers: WorkerSet,
        num_parents: int = 1,
        *,
        fraction_workers: float = 1.0,
        is_elastic: bool = False,
    ) -> None:
        super().__init__(worker, workers, num_parents)
        self._fraction_workers = fraction_workers
        self._is_elastic = is_elastic
        self._num_stages = 0
        # Of the stage under way, which outlives an interrupt.
        self._pending: set[Call] = set()
        self._pieces: dict[int, SentPiece] = {}
        worker.elsewhere = self

    @contextmanager
    def beside(self, overlap: Overlap) -> Iterator[None]:
        """Collect for a stage while the block runs, and store the steps after it."""
        version = self._begin_stage()
        self._call_all(version)
        try:
            yield
        finally:
            self._finish(version)
            self._forget_departed()

    def episodes_state(self) -> dict[str, Any]:
        """Where each worker stands; only why episodes cannot be continued, if they cannot."""
        if self._pending or self._pieces:
            return {GAP: "a stage was interrupted"}
        try:
            answers = self._workers.wait_all([self._workers.call(index, "place") for index in self._workers.indices])
        except WorkerError as error:
            return {GAP: str(error)}
        places: list[dict[str, Any]] = [
            answer.value if answer.error is None else {GAP: engine.one_line(answer.error)} for answer in answers
        ]
        return next((place for place in places if GAP in place), {_PLACES: places})

    def load_episodes(self, state: Mapping[str, Any]) -> None:
        """Have workers continue from where those of `episodes_state` stood; `StorageError` if they cannot."""
        places = state.get(_PLACES, ())
        if len(places) != self._workers.num_workers:
            had = f"the run had {len(places)} workers and now has {self._workers.num_workers}"
            raise StorageError(state.get(GAP, had))
        calls = [
            self._workers.call(index, "take_place", place)
            for index, place in zip(self._workers.indices, places, strict=True)
        ]
        for answer in self._workers.wait_all(calls):
            if answer.error is not None:
                raise StorageError(engine.one_line(answer.error))

    def _collect(self, version: Version) -> None:
        self._call_all(version)
        self._finish(version)

    def _call_all(self, version: Version) -> None:
        """Have all workers collect, but for those that are busy with a stage that was interrupted."""
        self._num_stages += 1
        busy = self._pieces.keys() | {call.worker for call in self._pending}
        self._pending |= {self._call_one(index, version) for index in self._workers.indices if index not in busy}

    def _call_one(self, index: int, version: Version) -> Call:
        return self._call(index, version, [self._signal], self._rows_of(index))

    @property
    def _signal(self) -> str:
        """What tells workers to stop; of its own for every stage, so that one that comes too late stops no other."""
        return f"stop {self._num_stages}"

    def _rows_of(self, index: int) -> Rows | None:
        """Place of a worker's environments among all, if workers act as one."""
        if not self._is_elastic:
            return None
        num_envs, indices = self.worker.envs_train.num_envs, self._workers.indices
        return Rows(indices.index(index) * num_envs, len(indices) * num_envs)

    def _finish(self, version: Version) -> None:
        """Wait for the stage of all workers, and take it in."""
        num_enough = math.ceil(self._fraction_workers * self._workers.num_workers)
        signalled: set[Call] = set()
        while self._pending:
            for answer in self._workers.wait(self._pending):
                self._pending.remove(answer.call)
                if answer.error is None:
                    self._pieces[answer.call.worker] = answer.value
                else:
                    self._pending.add(self._call_one(answer.call.worker, version))
            if len(self._pieces) >= num_enough:
                for call in self._pending - signalled:
                    self._workers.tell(call.worker, "signal", self._signal)
                signalled |= self._pending
        # In the order of workers, so that a run does not depend on who is faster.
        for index in sorted(self._pieces):
            self._take_in(self._pieces.pop(index))
        self._inbox.add_episodes()

    def _let_go(self, index: int) -> None:
        """Do nothing: between stages everything that was collected is stored."""
