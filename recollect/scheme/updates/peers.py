"""`PeerGradientSource`: drives decentralised updates; it only paces them."""

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from recollect.errors import WorkerError
from recollect.roles import Info
from recollect.scheme.base.commands import ReplaceComponent
from recollect.scheme.base.engine import LOOPBACK
from recollect.scheme.base.member import Answer
from recollect.scheme.collection.agent_worker import AgentWorker
from recollect.scheme.gradients.flat import FlatGradients
from recollect.scheme.gradients.g_worker_set import GWorkerSet
from recollect.scheme.gradients.remote_source import RemoteGradientSource, mean_info
from recollect.scheme.gradients.status import Gradient
from recollect.scheme.updates.all_reduce import StageReport
from recollect.scheme.updates.peer_group import Rendezvous
from recollect.scheme.weights import apply_state, apply_weights, read_state

_LOG = logging.getLogger(__name__)

# Peers wait for the slowest one that still collects; a lost one is noticed when its connection closes.
_TIMEOUT_S: Final = 1800.0
# Peers that are all there and still do not come together will not the next time either.
_MAX_FAILURES: Final = 3


class PeerGradientSource(RemoteGradientSource):
    """Gradient workers that average gradients among themselves and apply them.

    When one of them is lost, the others give up the stage, and all meet again with the restarted one, which resumes
    from what the others have learned. When they repeatedly fail to come together though none is lost, the run ends
    with their reason.
    """

    def __init__(self, col_worker: AgentWorker, workers: GWorkerSet) -> None:
        super().__init__(col_worker, workers)
        self._have_joined = False
        self._num_failures = 0
        self._versions: dict[int, int] = {}

    def stage(self) -> Generator[Gradient, None, None]:
        """Run one update stage; nothing is left to apply."""
        return (Gradient(None, info, is_applied=True) for info in self.run_stage())

    def run_stage(self) -> list[Info]:
        """Run one update stage on all workers; returns the info of each update."""
        while not self._have_joined:
            self._meet()
        answers = self.workers.wait_all([self.workers.call(index, "run_stage") for index in self.workers.indices])
        reports = {answer.call.worker: answer.value for answer in answers if answer.error is None}
        self._have_joined = _all_well(answers) and all(report.reason is None for report in reports.values())
        if self._have_joined:
            self._num_failures = 0
        elif _all_well(answers):
            self._fail([report.reason for report in reports.values()])
        self._versions = {index: report.version for index, report in reports.items()}
        for index, report in reports.items():
            self._take(index, report)
        return _rounds(list(reports.values()))

    def fetch_state(self) -> None:
        """Bring optimisers, counters and weights of the furthest worker here, where they are saved.

        If no worker is left, what is here is what there is: the weights of the last complete stage.
        """
        with suppress(WorkerError):
            apply_state(self.algo, self._newest_state(), with_chance=True)

    def state(self) -> dict[str, Any]:
        self.fetch_state()
        return super().state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self._have_joined = False
        self._versions = {}

    def _replace(self, command: ReplaceComponent) -> None:
        self.fetch_state()
        super()._replace(command)
        self._versions = {}
        self._have_joined = False

    def _take(self, index: int, report: StageReport) -> None:
        self._check_finite(index, report.failure, report.batch)
        num_shared = len(report.infos) * FlatGradients(self.algo.optimiser.parameters).num_bytes
        self._record_status(index, report.status, 0, num_shared)
        if report.weights is not None:
            apply_weights(self.algo, report.weights)

    def _meet(self) -> None:
        """Bring all workers together, with what the one that is furthest has learned."""
        state = self._newest_state()
        restarted = {index: self._resume_point(index) for index in self._lost}
        calls = [
            self.workers.call(index, "resume", replace(restarted[index], state=state))
            if index in restarted
            else self.workers.call(index, "adopt", state)
            for index in self.workers.indices
        ]
        self._lost.clear()
        meeting = self._open_meeting() if _all_well(self.workers.wait_all(calls)) else None
        if meeting is None:
            return
        calls = [
            self.workers.call(index, "join", meeting, rank, _TIMEOUT_S)
            for rank, index in enumerate(self.workers.indices)
        ]
        answers = self.workers.wait_all(calls)
        reasons = [answer.value for answer in answers]
        self._have_joined = _all_well(answers) and not any(reasons)
        if _all_well(answers) and any(reasons):
            self._fail(reasons)

    def _fail(self, reasons: Sequence[str | None]) -> None:
        """Follow a meeting or a stage that came to nothing though all peers are there."""
        reason = next(reason for reason in reasons if reason)
        self._num_failures += 1
        if self._num_failures >= _MAX_FAILURES:
            raise WorkerError(
                f"the gradient workers failed {self._num_failures} times in a row to average their gradients, though "
                f"none of them was lost; look at the network between them (GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME, "
                f"firewalls), or use update_mode 'central'. What one of them said: {reason}"
            )
        _LOG.warning("the gradient workers form their group again (%s)", reason)

    def _lose(self, index: int, epoch: int) -> None:
        super()._lose(index, epoch)
        self._versions.pop(index, None)
        self._have_joined = False
        self._num_failures = 0

    def _newest_state(self) -> dict[str, Any]:
        """The state of the worker with the most updates; the local one if no worker is left."""
        left = dict(self._versions)
        while left:
            index = max(left, key=lambda each: left[each])
            (answer,) = self.workers.wait_all([self.workers.call(index, "learner_state")])
            if answer.error is None:
                state: dict[str, Any] = answer.value
                return state
            del left[index]
        return read_state(self.algo)

    def _open_meeting(self) -> Rendezvous | None:
        """Have the first worker open a place to meet: on this machine alone if all are on it."""
        indices = self.workers.indices
        addresses = self.workers.wait_all([self.workers.call(index, "node_address") for index in indices])
        if not _all_well(addresses):
            return None
        hosts = [answer.value for answer in addresses]
        host = LOOPBACK if len(set(hosts)) == 1 else hosts[0]
        answers = self.workers.wait_all([self.workers.call(indices[0], "open_rendezvous", host, len(indices))])
        meeting: Rendezvous | None = answers[0].value
        return meeting


def _all_well(answers: Sequence[Answer]) -> bool:
    """Whether no worker was lost."""
    return all(answer.error is None for answer in answers)


def _rounds(reports: list[StageReport]) -> list[Info]:
    """What is known of each update, as the mean over the workers that had a gradient for it."""
    num_rounds = max((len(report.infos) for report in reports), default=0)
    return [
        mean_info([report.infos[place] for report in reports if place < len(report.infos)])
        for place in range(num_rounds)
    ]
