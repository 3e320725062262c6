"""`SyncGradients`: the mean over all gradient workers, batch by batch."""

from collections.abc import Iterator

from recollect.scheme.gradients.g_worker import GradientReply
from recollect.scheme.gradients.gradients import Gradient
from recollect.scheme.gradients.remote import RemoteGradients


class SyncGradients(RemoteGradients):
    """Every gradient is the mean of one batch of each worker, all computed with the same weights.

    A worker whose stage is over, or that is lost, is left out until the next stage.
    """

    def stage(self) -> Iterator[Gradient]:
        learning, num_updates = self.workers.indices, 0
        while learning:
            replies = self._round(learning)
            learning = [index for index, reply in replies.items() if reply.status is None]
            gradient = self._gradient(list(replies.values()))
            if gradient is not None:
                yield gradient
                num_updates += 1
        self.algo.end_stages(num_updates)

    def _round(self, indices: list[int]) -> dict[int, GradientReply]:
        """One reply of each worker that is still there."""
        replies: dict[int, GradientReply] = {}
        for answer in self.workers.wait_all([self._advance(index) for index in indices]):
            if answer.error is None:
                self._note(answer.call.worker, answer.value)
                replies[answer.call.worker] = answer.value
        return replies
