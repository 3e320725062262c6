"""Peers that are lost are waited for; peers that are all there and never come together end the run."""

from typing import Any

import pytest

from recollect.errors import WorkerError
from recollect.scheme.gradients.status import GradientStatus
from recollect.scheme.updates.all_reduce import StageReport
from recollect.scheme.updates.peer_group import Rendezvous
from recollect.scheme.updates.peers import PeerGradientSource
from recollect.scheme.weights import read_state
from tests.schemes import make_scheme
from tests.unit.scheme.gradients.fakes import WorkersHere

NO_INTERFACE = "the peers did not all come together: Unable to find address for: nosuch0"


class Peer:
    """Comes together with others, and completes its stages, unless there is a reason why not."""

    def __init__(self, scheme: Any) -> None:
        self._status = scheme.status()
        self._learned = read_state(scheme.algo)
        self.reasons: list[str] = []
        self.stage_reasons: list[str] = []
        self.num_joined = 0

    def adopt(self, state: Any) -> None: ...

    def status(self) -> GradientStatus:
        return self._status

    def resume(self, resume_point: Any) -> None: ...

    def learner_state(self) -> dict[str, Any]:
        return self._learned

    def node_address(self) -> str:
        return "10.0.0.1"

    def open_rendezvous(self, host: str, num_peers: int) -> Rendezvous:
        return Rendezvous(host, 1, num_peers)

    def join(self, meeting: Rendezvous, rank: int, timeout_s: float) -> str | None:
        self.num_joined += 1
        return self.reasons.pop(0) if self.reasons else None

    def run_stage(self) -> StageReport:
        reason = self.stage_reasons.pop(0) if self.stage_reasons else None
        return StageReport(0, self._status, reason=reason)


@pytest.fixture
def gradients() -> Any:
    scheme = make_scheme()
    peers: Any = [Peer(scheme) for _ in range(2)]
    return PeerGradientSource(scheme.col_worker, WorkersHere(peers))  # type: ignore[arg-type]


def test_peers_that_never_come_together_end_the_run_with_the_reason(
    gradients: Any, caplog: pytest.LogCaptureFixture
) -> None:
    first = gradients.workers.workers[0]
    first.reasons = [NO_INTERFACE] * 100
    with pytest.raises(WorkerError, match=r"3 times in a row.*though none of them was lost.*find address for: nosuch0"):
        gradients.run_stage()
    assert first.num_joined == 3
    assert [record.levelname for record in caplog.records if NO_INTERFACE in record.message] == ["WARNING"] * 2


def test_peers_that_never_complete_a_stage_end_the_run_with_the_reason(gradients: Any) -> None:
    gradients.workers.workers[1].stage_reasons = ["gradients cannot be averaged"] * 100
    for _ in range(2):
        gradients.run_stage()
    with pytest.raises(WorkerError, match="gradients cannot be averaged"):
        gradients.run_stage()


def test_failures_before_a_stage_that_went_well_do_not_count(gradients: Any) -> None:
    first = gradients.workers.workers[0]
    for _ in range(3):
        first.reasons = [NO_INTERFACE] * 2
        gradients.load_state(gradients.state())
        gradients.run_stage()
    assert first.num_joined == 9


def test_a_peer_that_was_lost_is_met_again_as_often_as_it_takes(gradients: Any) -> None:
    for _ in range(5):
        gradients.workers.workers[0].stage_reasons = ["a peer is lost"]
        gradients.workers.dying.add(1)
        gradients.run_stage()
    for _ in range(2):
        gradients.run_stage()
    assert gradients.workers.workers[0].num_joined == 6, "once at the beginning, and after each loss"
    assert gradients.report().num_restarts == 5
