"""`RemoteCollector`: what sync and async collection share: weights out, pieces in, restarts."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from recollect.scheme.base.member import Call
from recollect.scheme.base.worker_set import WorkerSet
from recollect.scheme.collection.agent_worker import AgentWorker
from recollect.scheme.collection.collectors.collector import CollectorBase, check_num_workers
from recollect.scheme.collection.collectors.inbox import Inbox, Incarnation
from recollect.scheme.collection.collectors.reports import Receipt, WorkerRecord, WorkerReport
from recollect.scheme.collection.collectors.sent_piece import SentPiece
from recollect.scheme.collection.worker.rows import Rows
from recollect.scheme.weights import PublishedWeights, Version


class RemoteCollector(CollectorBase, ABC):
    """Remote `workers` collect, and the learner's `worker` stores what they send."""

    def __init__(self, worker: AgentWorker, workers: WorkerSet, num_parents: int = 1) -> None:
        super().__init__(worker, num_parents)
        self._workers = workers
        workers.on_loss = self._on_loss
        self._inbox = Inbox(worker)
        self._weights = PublishedWeights()
        self._records = {index: WorkerRecord(worker.index_parent, index) for index in workers.indices}
        self._departed: list[Incarnation] = []
        self._receipts: list[Receipt] = []
        self._num_received = 0

    def collect(self) -> int:
        """Collect for one update stage."""
        self._collect(self._begin_stage())
        self._forget_departed()
        return sum(receipt.num_steps for receipt in self._receipts)

    def reports(self) -> tuple[WorkerReport, ...]:
        """How each remote worker has fared."""
        restarts = self._workers.restarts
        return tuple(record.report(restarts.get(index, 0)) for index, record in self._records.items())

    def set_num_workers(self, num_workers: int) -> None:
        """Set the number of workers; steps of those that leave are kept."""
        num_present = self._workers.num_workers
        check_num_workers(num_workers, num_present)
        for index in self._workers.add(num_workers - num_present) if num_workers > num_present else ():
            self._records[index] = WorkerRecord(self.worker.index_parent, index)
        for index in self._workers.indices[num_workers:]:
            self._let_go(index)
            self._departed.append(self._incarnation(index, self._workers.epoch(index)))
            self._workers.remove(index)
            del self._records[index]
        self._forget_departed()

    @property
    def num_env_failures(self) -> int:
        """How often an environment failed so far."""
        return sum(report.env_failures for report in self.reports())

    def progress(self) -> int:
        """Return a number that moves with every piece, and with every heartbeat of a worker."""
        return self._num_received + self._workers.progress

    def _begin_stage(self) -> Version:
        """Begin a stage of collection; returns the weights to act with."""
        self._receipts = []
        self._inbox.begin_stage()
        return self._weights.publish(self.worker.actor, self.worker.actor_version)

    @abstractmethod
    def _collect(self, version: Version) -> None:
        """Collect with the newest weights, and store the data of one stage."""

    @abstractmethod
    def _let_go(self, index: int) -> None:
        """Wait for what a worker that leaves has collected."""

    def _is_expected(self, incarnation: Incarnation) -> bool:
        """Whether something of a worker that has left is still to be stored."""
        return False

    def _call(self, index: int, version: Version, listen_to: Iterable[str] = (), rows: Rows | None = None) -> Call:
        args = version.reference, version.number, self.num_run_steps, tuple(listen_to), rows
        return self._workers.call(index, "collect_piece", *args)

    def _incarnation(self, index: int, epoch: int) -> Incarnation:
        return (self.worker.index_parent, index, epoch)

    def _on_loss(self, index: int, epoch: int) -> None:
        """Follow the end of an incarnation of a worker."""
        self._departed.append(self._incarnation(index, epoch))
        self._forget_departed()
        if index in self._records:
            self._records[index].restart()

    def _forget_departed(self) -> None:
        """Let others take the lanes of those that left, once all of their steps are stored."""
        for incarnation in self._departed:
            if not self._is_expected(incarnation):
                self._inbox.forget(incarnation)
        self._departed = [each for each in self._departed if self._is_expected(each)]

    def _take_in(self, new: SentPiece) -> None:
        receipt = self._inbox.insert(new, self._weights.number)
        self._num_received += 1
        self._receipts.append(receipt)
        record = self._records.get(new.source[1])
        if record is not None:
            record.add(receipt)
