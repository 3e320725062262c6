"""Gradients of workers in other processes: what synchronous and asynchronous ones share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from recollect import keys
from recollect.errors import NotFiniteError
from recollect.roles import Batch
from recollect.scheme import normaliser_sums
from recollect.scheme.base import engine
from recollect.scheme.base.commands import BeginJournal, Command, ReplaceComponent
from recollect.scheme.base.member import Answer, Call
from recollect.scheme.collection.agent_worker import AgentWorker, SharedComponents
from recollect.scheme.collection.collectors.reports import Receipt, WorkerRecord
from recollect.scheme.collection.worker.counts import share_state
from recollect.scheme.gradients.flat import FlatGradients
from recollect.scheme.gradients.g_worker_set import GWorkerSet
from recollect.scheme.gradients.status import (
    Gradient,
    GradientReply,
    GradientReport,
    GradientStatus,
    ResumePoint,
    add_incarnations,
    merge,
)
from recollect.scheme.gradients.worker_journal import folder_of
from recollect.scheme.stages import check_own_storage
from recollect.scheme.weights import read_state, read_weights

_WORKERS: Final = "workers"


class RemoteGradientSource(SharedComponents, ABC):
    """Gradients of workers in other processes, each with a storage and a collection of its own.

    A worker that dies is restarted. It resumes from the present weights and from its journal: every step that is
    counted here is there again. Without the journal, because its machine is gone too, it resumes from its storage as
    of the last checkpoint.

    Parameters
    ----------
    col_worker : CWorker
        Has the actor and the algorithm that learn, and evaluates; it does not collect.
    workers : GWorkerSet
        The workers.
    """

    def __init__(self, col_worker: AgentWorker, workers: GWorkerSet) -> None:
        self.col_worker = col_worker
        self.workers = workers
        # Once they are stopped the set is empty, but what they did still counts.
        self._indices = tuple(workers.indices)
        self.offending_batch: Batch | None = None
        self._statuses: dict[int, GradientStatus] = {}
        self._incarnations: dict[int, dict[int, GradientStatus]] = {index: {} for index in workers.indices}
        self._lost: set[int] = set()
        self._published: tuple[int, object] | None = None
        self._num_learners = workers.num_workers
        self._records = {index: WorkerRecord(0, index) for index in workers.indices}
        self._saved_in: tuple[Path, str] | None = None
        self._num_journals = 0
        workers.on_loss = self._lose

    @abstractmethod
    def stage(self) -> Generator[Gradient, None, None]: ...

    @property
    def num_steps(self) -> int:
        return sum(self.status_of(index).num_steps for index in self._indices)

    def status(self) -> GradientStatus:
        return merge([self.status_of(index) for index in self._indices])

    def status_of(self, index: int) -> GradientStatus:
        """The last report of a worker; nothing is stored before the first."""
        if index in self._statuses:
            return self._statuses[index]
        return GradientStatus(self.col_worker.state(), 0, self.storage.capacity, 0, 0)

    def report(self) -> GradientReport:
        restarts = self.workers.restarts
        reports = tuple(record.report(restarts.get(index, 0)) for index, record in self._records.items())
        return GradientReport(self.workers.num_workers, self.workers.num_restarts, reports=reports)

    def state(self) -> dict[str, Any]:
        collections = [self.status_of(index).collection for index in self._indices]
        return {**self.status().collection, _WORKERS: collections}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._forget()
        of_algo = read_state(self.algo)
        shares = dict(zip(self.workers.indices, _shares(state, self.workers.num_workers), strict=True))
        # A worker that is lost meanwhile resumes from there too.
        self._statuses = {index: replace(self.status_of(index), collection=shares[index]) for index in shares}
        self._lost.clear()
        self._have_all("resume", lambda index: (ResumePoint(of_algo, shares[index]),))
        self._ask_statuses()

    def save_storage(self, folder: Path, name: str) -> None:
        """Have every worker write its own; what is then known of them is what they have written."""
        self._resume_lost()
        self._share_folder("save_storage", folder, name)

    def capture_storage(self, folder: Path, name: str) -> Callable[[], None]:
        """Have every worker write its own now, so that nothing is left to write."""
        self.save_storage(folder, name)
        return _write_nothing

    def load_storage(self, folder: Path, name: str) -> None:
        self._share_folder("load_storage", folder, name)

    def execute(self, command: Command) -> None:
        if isinstance(command, ReplaceComponent):
            self._replace(command)
        else:
            self.col_worker.execute(command)
            self.workers.broadcast(command)

    def stop(self) -> None:
        self.workers.stop()
        self.col_worker.stop()

    def _replace(self, command: ReplaceComponent) -> None:
        """Have a component replaced; what was computed with the old one is of no use."""
        if command.component == keys.ENVS_TEST_COMPONENT:
            # Tests are run here alone.
            self.col_worker.execute(command)
            return
        is_storage = command.component == keys.STORAGE_COMPONENT
        if is_storage:
            check_own_storage(command.factory)
        self._forget()
        self.col_worker.execute(command)
        self.workers.broadcast(command)
        if is_storage:
            self._saved_in = None
            self._num_journals += 1
            self.workers.broadcast(BeginJournal(self._num_journals))

    def _advance(self, index: int, method: str = "advance", *args: object) -> Call:
        """Ask a worker for its next gradient with the present weights, which are sent once for all.

        With the method `begin_stage` it only collects for a stage.
        """
        self.algo.num_collectors = max(1, len(self.status_of(index).reports))
        self.algo.num_learners = self._num_learners
        if self._published is None or self._published[0] != self.algo.num_updates:
            version = int(self.algo.num_updates)
            self._published = version, engine.put(read_weights(self.algo, version))
        resume_point = self._resume_point(index) if index in self._lost else None
        self._lost.discard(index)
        return self.workers.call(index, method, self._published[1], resume_point, *args)

    def _note(self, index: int, reply: GradientReply) -> None:
        """Take in what a worker tells beside its gradient."""
        self._check_finite(index, reply.failure, reply.batch)
        lag, num_bytes = int(self.algo.num_updates) - reply.version, 0 if reply.row is None else reply.row.nbytes
        self._record_status(index, reply.status, lag, num_bytes)

    def _follow(self, replies: Sequence[GradientReply]) -> None:
        """Let the normalisers see what those of workers have seen; of one update, with a batch of each."""
        increments = [reply.increments for reply in replies if reply.increments]
        if increments:
            actor, num_batches = self.algo.actor, sum(reply.row is not None for reply in replies)
            total = {name: np.sum([each[name] for each in increments], axis=0) for name in increments[0]}
            normaliser_sums.put_sums(actor, normaliser_sums.take_sums(actor), total, max(1, num_batches))
            self._published = None

    def _check_finite(self, index: int, failure: str | None, batch: Batch | None) -> None:
        """End the run if a worker's loss was not finite, and keep the batch."""
        if failure is not None:
            self.offending_batch = batch
            raise NotFiniteError(f"{failure} (gradient worker {index})")

    def _record_status(self, index: int, status: GradientStatus | None, lag: int, num_bytes: int) -> None:
        """Note what a worker has sent, and the status of its collection if it came with one."""
        num_before = self.status_of(index).num_steps
        if status is not None and status.num_steps >= num_before:
            self._know(index, status)
        record, num_new = self._records[index], self.status_of(index).num_steps - num_before
        record.add(Receipt(num_new, record.idle_s, lag, num_bytes, codec_s=0.0, env_failures=0))

    def _gradient(self, replies: Sequence[GradientReply]) -> Gradient | None:
        """The mean of gradients, and of the numbers on them; None if there are none."""
        rows = [
            torch.from_numpy(reply.row) if reply.row.flags.writeable else torch.tensor(reply.row)
            for reply in replies
            if reply.row is not None
        ]
        if not rows:
            return None
        flat = FlatGradients(self.algo.optimiser.parameters)
        return Gradient(flat.mean(torch.stack(rows).sum(0)), mean_info([reply.info for reply in replies if reply.info]))

    def _resume_lost(self) -> None:
        """Have restarted workers resume now, before they are asked for a gradient."""
        lost, self._lost = sorted(self._lost), set()
        self.workers.wait_all([self.workers.call(index, "resume", self._resume_point(index)) for index in lost])

    def _resume_point(self, index: int) -> ResumePoint:
        """Where a restarted worker resumes from."""
        saved = None if self._saved_in is None else (folder_of(self._saved_in[0], index), self._saved_in[1])
        return ResumePoint(read_state(self.algo), self.status_of(index).collection, saved, is_restart=True)

    def _know(self, index: int, status: GradientStatus) -> None:
        known = self._incarnations[index]
        known[status.epoch] = status
        earlier = [each for epoch, each in known.items() if epoch != status.epoch]
        self._statuses[index] = add_incarnations(status, earlier)

    def _share_folder(self, method: str, folder: Path, name: str) -> None:
        """Have every worker write its storage into a folder of its own below this one, or read it."""
        self._have_all(method, lambda index: (folder_of(folder, index), name))
        self._saved_in = folder, name
        self._ask_statuses()

    def _ask_statuses(self) -> None:
        for answer in self._have_all("status"):
            if answer.error is None:
                self._know(answer.call.worker, answer.value)

    def _lose(self, index: int, epoch: int) -> None:
        """Follow the end of a worker, and with it of what it had stored."""
        self._lost.add(index)
        self._records[index].restart()
        status = self.status_of(index)
        # Its collectors go with it.
        reports = tuple(replace(report, is_alive=False) for report in status.reports)
        self._statuses[index] = replace(status, num_stored=0, num_bytes=0, reports=reports)

    def _have_all(self, method: str, arguments: Callable[[int], tuple[object, ...]] = lambda _: ()) -> list[Answer]:
        """Have every worker do something, and wait; not those that were restarted and have not resumed yet."""
        present = [index for index in self.workers.indices if index not in self._lost]
        return self.workers.wait_all([self.workers.call(index, method, *arguments(index)) for index in present])

    def _forget(self) -> None:
        """Let go of what was computed from, or sent with, weights that are no longer these."""
        self._published = None


def _write_nothing() -> None:
    """What is left to write of storages that their own workers have written."""


def mean_info(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means of the numbers that several workers report, by part and name."""
    values: dict[str, dict[str, list[float]]] = {}
    for info in infos:
        for part, numbers in info.items():
            for name, value in numbers.items():
                values.setdefault(part, {}).setdefault(name, []).append(value)
    return {
        part: {name: sum(found) / len(found) for name, found in numbers.items()} for part, numbers in values.items()
    }


def _shares(state: Mapping[str, Any], num_workers: int) -> list[dict[str, Any]]:
    """The collection of each worker, as it was saved, or an equal share where there were more or fewer."""
    saved: list[dict[str, Any]] = state.get(_WORKERS, [])
    return saved if len(saved) == num_workers else share_state(state, num_workers)
