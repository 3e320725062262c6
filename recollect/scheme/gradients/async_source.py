"""`AsyncGradientSource`: every worker's gradient as it comes, none too far behind."""

from collections import deque
from collections.abc import Generator, Iterable
from typing import Final

from recollect.scheme.base.member import Answer, Call
from recollect.scheme.collection.agent_worker import AgentWorker
from recollect.scheme.gradients.g_worker_set import GWorkerSet
from recollect.scheme.gradients.remote_source import RemoteGradientSource
from recollect.scheme.gradients.status import Gradient, GradientReply, GradientReport

_NUM_RECENT: Final = 100


class AsyncGradientSource(RemoteGradientSource):
    """Gradients one by one in the order in which they arrive; a worker gets the newest weights for its next one.

    The asynchrony of a gradient is the number of updates that were applied since its weights were sent. Where
    it is bounded, a gradient that would come too late otherwise goes first, and is waited for; nothing is dropped.

    Parameters
    ----------
    max_lag : int, optional
        Most updates between a gradient and its weights; at least the number of workers less one.
    """

    def __init__(self, col_worker: AgentWorker, workers: GWorkerSet, max_lag: int | None = None) -> None:
        super().__init__(col_worker, workers)
        self.max_lag = max_lag
        self._num_learners = 1
        self._calls: dict[int, tuple[Call, int]] = {}
        self._arrived: deque[tuple[int, GradientReply]] = deque()
        self._lags: deque[int] = deque(maxlen=_NUM_RECENT)

    def stage(self) -> Generator[Gradient, None, None]:
        """Yield gradients until as many stages have ended as there are workers, of any of them."""
        num_ended = num_updates = 0
        while num_ended < self.workers.num_workers:
            index, reply = self._next()
            self._note(index, reply)
            self._follow([reply])
            gradient = self._gradient([reply])
            if gradient is not None:
                self._lags.append(self.algo.num_updates - reply.version)
                yield gradient
                num_updates += 1
            num_ended += reply.status is not None
        self.algo.end_stages(num_updates, num_ended)

    def report(self) -> GradientReport:
        return super().report()._replace(lags=tuple(self._lags))

    def _next(self) -> tuple[int, GradientReply]:
        """The reply whose turn it is: the first that came, or one that must not wait any longer."""
        self._submit_calls()
        while not self._arrived:
            self._receive()
        overdue = overdue_version(
            int(self.algo.num_updates), self._arrived[0][1].version, self._pending_versions(), self.max_lag
        )
        if overdue is None:
            return self._arrived.popleft()
        return self._take(overdue)

    def _pending_versions(self) -> list[int]:
        """Versions of all gradients to come but the first in line."""
        arrived = [reply.version for _, reply in list(self._arrived)[1:]]
        return arrived + [version for _, version in self._calls.values()]

    def _take(self, version: int) -> tuple[int, GradientReply]:
        """The first reply of a version, waited for if it has not come."""
        while True:
            for place, (index, reply) in enumerate(self._arrived):
                if reply.version == version:
                    del self._arrived[place]
                    return index, reply
            if all(sent != version for _, sent in self._calls.values()):
                return self._arrived.popleft()  # its worker was lost
            self._receive()

    def _submit_calls(self) -> None:
        """Give every worker something to do that has nothing, and whose last reply has had its turn."""
        waiting = {index for index, _ in self._arrived}
        for index in self.workers.indices:
            if index not in self._calls and index not in waiting:
                self._calls[index] = self._advance(index), int(self.algo.num_updates)

    def _receive(self) -> None:
        """Wait for at least one call to end."""
        self._submit_calls()
        self._enqueue(self.workers.wait([call for call, _ in self._calls.values()]))

    def _enqueue(self, answers: Iterable[Answer]) -> None:
        """Have calls that ended wait for their turn; of those that failed there is nothing to come."""
        for answer in answers:
            del self._calls[answer.call.worker]
            if answer.error is None:
                self._arrived.append((answer.call.worker, answer.value))

    def _forget(self) -> None:
        """Wait for all workers; gradients of older weights are dropped, their statuses are kept."""
        super()._forget()
        while self._calls:
            self._enqueue(self.workers.wait_all([call for call, _ in self._calls.values()]))
        while self._arrived:
            index, reply = self._arrived.popleft()
            self._note(index, reply)
            self._follow([reply])
        self._published = None


def overdue_version(num_updates: int, first: int, others: list[int], max_lag: int | None) -> int | None:
    """Version of the gradient that must be applied now, after `num_updates`, for none to come too late.

    None if the one that is first in line, of version `first`, may go; `others` are the versions of all others to come.

    Examples
    --------
    >>> overdue_version(3, 3, [1], max_lag=2)
    1
    >>> overdue_version(3, 3, [2], max_lag=2)
    """
    if max_lag is None:
        return None
    in_order = sorted(others)
    if all(num_updates + 1 + place - version <= max_lag for place, version in enumerate(in_order)):
        return None
    return min(first, in_order[0])
