"""What gradient workers give and tell: gradients, and how their collection stands, as a learner shows and saves it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from recollect.roles import Gradients, Info
from recollect.scheme.collection.collectors.reports import WorkerReport, add_totals
from recollect.scheme.collection.worker.counts import EPISODES, NUM_STEPS, merge_states
from recollect.scheme.collection.worker.episodes import EpisodeHistory


class Gradient(NamedTuple):
    """Gradients, None if the algorithm has them already, what is known of them, and whether they have been applied."""

    values: Gradients | None
    info: Info
    is_applied: bool = False


class GradientReport(NamedTuple):
    """What is known of remote gradient workers: how many, restarts, how far behind recent gradients were, and each.

    The lag of a gradient is the number of updates that were applied since its weights were sent.
    """

    num_workers: int = 0
    num_restarts: int = 0
    lags: tuple[int, ...] = ()
    reports: tuple[WorkerReport, ...] = ()


@dataclass(frozen=True)
class GradientStatus:
    """What one gradient worker has so far; totals, so that hearing of it twice counts nothing twice.

    Attributes
    ----------
    collection : dict
        What it takes to resume its collection elsewhere, see `CWorker.state`.
    num_stored, num_most, num_bytes : int
        Transitions in its storage, how many there is room for, and the bytes that they take.
    num_env_failures : int
        Environments that were rebuilt after a failure.
    reports : tuple of WorkerReport
        What is known of each of its remote collectors.
    epoch : int
        Which incarnation of the worker has it. Steps are counted across restarts, reports and failures start from zero.
    """

    collection: dict[str, Any]
    num_stored: int
    num_most: int
    num_bytes: int
    num_env_failures: int
    reports: tuple[WorkerReport, ...] = ()
    epoch: int = 0

    @property
    def num_steps(self) -> int:
        """Transitions collected."""
        return int(self.collection[NUM_STEPS])

    @property
    def episodes(self) -> EpisodeHistory:
        """The episodes that ended."""
        history = EpisodeHistory()
        history.load_state(self.collection[EPISODES])
        return history


def add_incarnations(status: GradientStatus, earlier: Sequence[GradientStatus]) -> GradientStatus:
    """Add to the status of a worker the failures and the collectors' reports of its earlier incarnations."""
    reports = tuple(
        add_totals(report, [other for each in earlier for other in each.reports if _is_same(report, other)])
        for report in status.reports
    )
    num_env_failures = sum((each.num_env_failures for each in earlier), status.num_env_failures)
    return replace(status, reports=reports, num_env_failures=num_env_failures)


def _is_same(report: WorkerReport, other: WorkerReport) -> bool:
    return (report.index_parent, report.index_worker) == (other.index_parent, other.index_worker)


def merge(statuses: Sequence[GradientStatus]) -> GradientStatus:
    """Put the statuses of several workers together."""
    return GradientStatus(
        merge_states([status.collection for status in statuses]),
        sum(status.num_stored for status in statuses),
        sum(status.num_most for status in statuses),
        sum(status.num_bytes for status in statuses),
        sum(status.num_env_failures for status in statuses),
        tuple(report for status in statuses for report in status.reports),
    )
