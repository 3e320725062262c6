"""`SyncGradientSource`: the mean over all gradient workers, batch by batch."""

from collections.abc import Generator, Mapping
from typing import Any

from recollect.scheme.collection.agent_worker import AgentWorker
from recollect.scheme.gradients.g_worker_set import GWorkerSet
from recollect.scheme.gradients.remote_source import RemoteGradientSource
from recollect.scheme.gradients.status import Gradient, GradientReply
from recollect.scheme.limiter import ReplayRatio


class SyncGradientSource(RemoteGradientSource):
    """Every gradient is the mean of one batch of each worker, all computed with the same weights.

    A worker whose stage is over, or that is lost, is left out until the next stage. With a replay ratio all of them
    collect first, because what all have collected says how many updates they make together.

    Parameters
    ----------
    replay_ratio : float, optional
        Updates for each step that any worker collects; by default as many as the algorithm says in each stage.
    """

    def __init__(self, col_worker: AgentWorker, workers: GWorkerSet, replay_ratio: float | None = None) -> None:
        super().__init__(col_worker, workers)
        self._limiter = ReplayRatio(replay_ratio)

    def stage(self) -> Generator[Gradient, None, None]:
        learning, num_updates = self.workers.indices, 0
        num_batches = self._collect()
        while learning and num_batches != 0:
            replies = self._round(learning, "advance", num_batches)
            learning = [index for index, reply in replies.items() if reply.status is None]
            gradient = self._gradient(list(replies.values()))
            if gradient is not None:
                self._limiter.updated()
                yield gradient
                num_updates += 1
        self.algo.end_stages(num_updates)

    def state(self) -> dict[str, Any]:
        return {**super().state(), **self._limiter.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self._limiter.load_state(state, self.num_steps)

    def _collect(self) -> int | None:
        """With a replay ratio, have all workers collect for a stage; returns how many updates it has."""
        if self._limiter.updates_per_step is not None:
            replies = self._round(self.workers.indices, "begin_stage")
            self._limiter.collected(sum(reply.num_counted for reply in replies.values()))
        return self._limiter.due

    def _round(self, indices: list[int], method: str, *args: object) -> dict[int, GradientReply]:
        """One reply of each worker that is still there."""
        replies: dict[int, GradientReply] = {}
        for answer in self.workers.wait_all([self._advance(index, method, *args) for index in indices]):
            if answer.error is None:
                self._note(answer.call.worker, answer.value)
                replies[answer.call.worker] = answer.value
        self._follow(list(replies.values()))
        return replies
