"""`AsyncCollector`: workers that never wait for each other."""

import math
from collections import Counter, deque
from typing import Final

from recollect.scheme.base.member import Answer, Call
from recollect.scheme.base.worker_set import WorkerSet
from recollect.scheme.collection.agent_worker import AgentWorker
from recollect.scheme.collection.collectors.inbox import Incarnation
from recollect.scheme.collection.collectors.remote_collector import RemoteCollector
from recollect.scheme.collection.collectors.sent_piece import SentPiece
from recollect.scheme.weights import Version

# Calls that a worker has at most: while the result of one is on its way, it is busy with the next.
_MAX_CALLS: Final = 2


class AsyncCollector(RemoteCollector):
    """Workers collect all the time, and what has come in is learned from.

    A stage stores what has arrived, and waits for at least one piece; an on-policy one waits for as many pieces as
    there are workers. Workers act with the newest weights at the time of each call. If that is
    more than `max_policy_lag` versions ago, the piece is waited for before the next update.

    Parameters
    ----------
    max_policy_lag : int, optional
        Most versions that the policy of a piece may be behind; a stage has one version, however many updates were
        made before it.
    """

    def __init__(
        self, worker: AgentWorker, workers: WorkerSet, num_parents: int = 1, *, max_policy_lag: int | None = None
    ) -> None:
        super().__init__(worker, workers, num_parents)
        worker.stages.check_asynchronous(type(worker.storage))
        self._max_lag = math.inf if max_policy_lag is None else max_policy_lag
        self._num_calls = int(min(_MAX_CALLS, self._max_lag))
        self._pending: dict[Call, int] = {}
        self._waiting: deque[SentPiece] = deque()

    def _collect(self, version: Version) -> None:
        num_enough = self.worker.stages.num_messages(self._workers.num_workers)
        self._store_waiting()
        self._call_all(version)
        while len(self._receipts) < num_enough:
            self._receive(list(self._pending), version)
        while laggards := self._laggards(version):
            self._receive(laggards, version)

    def _laggards(self, version: Version) -> list[Call]:
        """Calls whose steps would be too old after the next update."""
        return [call for call, number in self._pending.items() if version.number + 1 - number > self._max_lag]

    def _receive(self, calls: list[Call], version: Version) -> None:
        """Wait for at least one of the calls, store what has come, and keep the workers busy."""
        for answer in self._workers.wait(calls):
            self._note(answer)
        self._store_waiting()
        self._call_all(version)

    def _note(self, answer: Answer) -> None:
        del self._pending[answer.call]
        if answer.error is None:
            self._waiting.append(answer.value)

    def _call_all(self, version: Version) -> None:
        """Give workers something to do, though not more than they may be ahead of the storage."""
        busy = Counter([call.worker for call in self._pending] + [new.source[1] for new in self._waiting])
        for index in self._workers.indices:
            for _ in range(self._num_calls - busy[index]):
                self._pending[self._call(index, version)] = version.number

    def _store_waiting(self) -> None:
        """Store the pieces for which there is room, each worker's in the order in which it sent them."""
        kept: deque[SentPiece] = deque()
        for new in self._waiting:
            if any(other.source == new.source for other in kept) or not self._inbox.has_room(new):
                kept.append(new)
            else:
                self._take_in(new)
                self._inbox.add_episodes()
        self._waiting = kept
        self._forget_departed()

    def _is_expected(self, incarnation: Incarnation) -> bool:
        """What a worker has sent before its end may be on its way still."""
        return any((*new.source, new.epoch) == incarnation for new in self._waiting) or any(
            self._incarnation(call.worker, call.epoch) == incarnation for call in self._pending
        )

    def _let_go(self, index: int) -> None:
        """Wait for what a worker that leaves has collected; an on-policy storage takes it in the next stage."""
        for answer in self._workers.wait_all([call for call in self._pending if call.worker == index]):
            self._note(answer)
        if self.worker.stages.keeps_experience:
            self._store_waiting()
