"""What gradient workers send: gradients, and the status of their collection, as a learner shows and saves it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recollect import keys
from recollect.roles import Batch, Gradients, Info
from recollect.scheme.collection.collectors.reports import WorkerReport, add_totals
from recollect.scheme.collection.worker.counts import EPISODES, NUM_STEPS, merge_states
from recollect.scheme.collection.worker.episodes import EpisodeHistory
from recollect.scheme.normaliser_sums import Sums


class Gradient(NamedTuple):
    """Gradients, None if the algorithm has them already; their info; and whether they have been applied."""

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
    num_stored, capacity, num_bytes : int
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
    capacity: int
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
        sum(status.capacity for status in statuses),
        sum(status.num_bytes for status in statuses),
        sum(status.num_env_failures for status in statuses),
        tuple(report for status in statuses for report in status.reports),
    )


@dataclass(frozen=True)
class GradientReply:
    """What a gradient worker sends to the one that applies updates.

    Attributes
    ----------
    row : float32 array or None
        The gradients of one batch, see `FlatGradients`; None if there was no batch.
    info : dict
        Numbers that algorithm and storage report.
    version : int
        Version of the weights that the gradients are of.
    increments : dict of arrays
        What the normalisers have seen since the worker was last given weights.
    status : GradientStatus or None
        How the collection stands, once the update stage is over.
    failure, batch
        Why there is no gradient, and for which batch, where the loss was not finite.
    num_counted : int
        Steps that allow for updates and came in since the last reply that said so, if a stage has just begun.
    """

    row: np.ndarray | None
    info: Info
    version: int
    increments: Sums = field(default_factory=dict)
    status: GradientStatus | None = None
    failure: str | None = None
    batch: Batch | None = None
    num_counted: int = 0


@dataclass(frozen=True)
class ResumePoint:
    """Where a worker resumes from.

    Attributes
    ----------
    state : dict
        Of the algorithm and its actor, see `read_state`.
    collection : dict
        How its collection stood.
    storage : (Path, str) or None
        Folder that its storage was last written to, if it was, and the snapshot's name there.
    is_restart : bool
        Whether it was restarted, and finds its storage in the journal.
    """

    state: dict[str, Any]
    collection: dict[str, Any]
    storage: tuple[Path, str] | None = None
    is_restart: bool = False


def numbers_of(info: Mapping[str, Any]) -> Info:
    """The plain numbers that algorithm and storage report, which are worth sending."""
    return {
        part: {name: float(value) for name, value in info[part].items() if name != keys.ERRORS}
        for part in (keys.ALGORITHM, keys.STORAGE)
        if part in info
    }
