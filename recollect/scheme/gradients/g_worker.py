"""`GWorker`: turns what was collected into gradients."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from recollect import keys
from recollect.agent.storages.base import gradient_hooks
from recollect.errors import NotFiniteError, StorageError
from recollect.roles import Batch, Device, Info, Weights
from recollect.scheme.base.commands import Command
from recollect.scheme.base.worker import Worker
from recollect.scheme.collection.agent_worker import SharedComponents
from recollect.scheme.collection.c_worker_set import CWorkerSetFactory
from recollect.scheme.gradients.flat import FlatGradients
from recollect.scheme.gradients.kept_storage import KeptStorage
from recollect.scheme.gradients.status import (
    Gradient,
    GradientReply,
    GradientReport,
    GradientStatus,
    ResumePoint,
    numbers_of,
)
from recollect.scheme.limiter import ReplayRatio
from recollect.scheme.normaliser_sums import Sums, increment, take_sums
from recollect.scheme.overlap import Overlap
from recollect.scheme.weights import VersionedWeights, apply_state, apply_weights


class GWorker(SharedComponents, Worker):
    """Worker that draws batches and computes gradients; in the learner's own process it is the source of them all.

    It shares actor, algorithm and storage with its local worker of the collection: nothing is copied.

    Parameters
    ----------
    index_worker : int
        Index of this worker.
    col_workers_factory : callable
        Creates the workers that collect for it: `col_workers_factory(device, initial_weights, index_parent)`.
    device : torch.device or str, optional
        Where to compute.
    initial_weights : dict of tensors, optional
        Weights of the actor to begin with.
    num_peers : int
        Gradient workers of the training, this one included; each has its share of the `start_steps`.
    replay_ratio : float, optional
        Updates for each step that is collected for this worker, if they are its own to say; by default as many as
        the algorithm says in each stage.
    overlap : bool, optional
        Whether this process collects beside updates; None where that is faster.
    journal_folder : Path, optional
        Where it notes what it has stored, so that it can resume if it is killed.
    epoch : int
        How often the worker was rebuilt.

    Attributes
    ----------
    offending_batch : dict or None
        The batch whose loss was not finite, if there was one.
    """

    def __init__(
        self,
        index_worker: int,
        col_workers_factory: CWorkerSetFactory,
        device: Device | None = None,
        initial_weights: Weights | None = None,
        *,
        num_peers: int = 1,
        replay_ratio: float | None = None,
        overlap: bool | None = False,
        journal_folder: Path | None = None,
        epoch: int = 0,
    ) -> None:
        super().__init__(index_worker)
        self.col_workers = col_workers_factory(device, initial_weights, index_worker)
        self.col_worker = self.col_workers.local_worker()
        self.num_peers = num_peers
        self.epoch = epoch
        self.offending_batch: Batch | None = None
        self.overlap = Overlap(overlap)
        self._limiter = ReplayRatio(replay_ratio)
        self._stage: Iterator[Info] | None = None
        self._num_uncounted = 0
        self._num_left = 0
        self._num_computed = 0
        self._seen: Sums = {}
        is_journalled = self.col_worker.stages.keeps_experience
        self._kept = KeptStorage(self.col_worker, journal_folder if is_journalled else None, index_worker)

    @property
    def num_steps(self) -> int:
        """Transitions collected."""
        return self.col_worker.counts.num_steps

    def stage(self) -> Generator[Gradient, None, None]:
        """Have data collected for one update stage, and yield one gradient after the other.

        Each is to be applied before the next one is asked for. Off-policy gradients are of what was stored before
        the stage, as soon as there is enough, so that they can be computed while the next data are collected here.
        """
        num_updates = 0
        with self._collecting():
            for info in self.compute_gradients():
                yield Gradient(None, info)
                num_updates += 1
        self.algo.end_stages(num_updates)

    def offline_stage(self, num_batches: int) -> Iterator[Gradient]:
        """Yield the gradients of `num_batches` stored batches, without collecting anything."""
        if not len(self.storage):
            raise StorageError("the storage is empty: there is nothing to learn from; give it data first")
        for info in self._infos(num_batches):
            yield Gradient(None, info)

    def collect(self) -> None:
        """Have the data of one update stage collected.

        Steps that an on-policy algorithm has used are dropped first, and so is what is left of a stage
        that was interrupted.
        """
        self.algo.num_collectors = max(1, self.col_workers.num_workers)
        self.col_worker.stages.begin(self.storage)
        with self._taking_in():
            self.col_workers.collector.collect()

    def compute_gradients(self, num_batches: int | None = None) -> Iterator[Info]:
        """Return what computes the gradients of one batch after the other, and yields the info of each.

        They are the algorithm's to apply before the next batch is asked for. There are none before the
        storage has seen `start_steps` steps.

        Parameters
        ----------
        num_batches : int, optional
            How many; by default what the replay ratio allows, or else what the algorithm says.
        """
        return self._infos(num_batches) if self._may_learn() else iter(())

    def _infos(self, num_batches: int | None) -> Iterator[Info]:
        """Yield the info of each batch; its gradients are computed on request."""
        before_gradients, after_gradients = gradient_hooks(self.storage)
        before_gradients()
        episodes = self._new_episodes()
        for batch in self._batches(num_batches):
            info = self._gradients_of(batch) | episodes
            episodes = {}
            self._count_update()
            yield after_gradients(batch, info)

    def begin_stage(self, weights: VersionedWeights, resume_point: ResumePoint | None = None) -> GradientReply:
        """Collect for a stage with the given weights; how many batches it has is said when they are asked for."""
        self._continue_from(weights, resume_point)
        self._stage = None
        self.collect()
        increments = increment(self._seen, take_sums(self.algo.actor))
        num_counted, self._num_uncounted = self._num_uncounted, 0
        return GradientReply(None, {}, weights.version, increments, self.status(), num_counted=num_counted)

    def advance(
        self, weights: VersionedWeights, resume_point: ResumePoint | None = None, num_batches: int | None = None
    ) -> GradientReply:
        """Compute the gradients of the next batch with the given weights; collects first if a stage begins.

        Parameters
        ----------
        weights : VersionedWeights
            The weights.
        resume_point : ResumePoint, optional
            Where to resume from first, if the worker was restarted.
        num_batches : int, optional
            Batches of a stage that has been collected for before, see `begin_stage`.
        """
        self._continue_from(weights, resume_point)
        try:
            row, info = self._next_row(num_batches)
        except NotFiniteError as error:
            self._stage = None
            return GradientReply(None, {}, weights.version, failure=str(error), batch=self.offending_batch)
        increments = increment(self._seen, take_sums(self.algo.actor))
        status = self.status() if self._stage is None else None
        return GradientReply(row, info, weights.version, increments, status)

    def status(self) -> GradientStatus:
        """How the collection stands."""
        storage = self.storage
        return GradientStatus(
            self.state(),
            len(storage),
            storage.capacity,
            storage.num_bytes,
            self.col_workers.collector.num_env_failures,
            tuple(self.col_workers.collector.reports()),
            self.epoch,
        )

    def report(self) -> GradientReport:
        """The report of remote gradient workers: there are none."""
        return GradientReport()

    def state(self) -> dict[str, Any]:
        """What it takes to resume the collection, and updates in step with it."""
        return {**self.col_worker.state(), **self._limiter.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from `state`."""
        self.col_worker.load_state(state)
        self._limiter.load_state(state, self.num_steps)

    def progress(self) -> int | None:
        """A number that grows while the worker makes progress; None while its environments are built."""
        own, collected = super().progress(), self.col_workers.collector.progress()
        return None if own is None or collected is None else own + self._num_computed + collected

    def resume(self, resume_point: ResumePoint) -> None:
        """Resume from where this worker stood before it was restarted, or another one."""
        apply_state(self.algo, resume_point.state, with_chance=False)
        self.load_state(resume_point.collection)
        self._stage = None
        self._kept.recover(resume_point)

    def save_storage(self, folder: Path, name: str) -> None:
        """Write the storage into a folder under a name, each time only what is new."""
        self.capture_storage(folder, name)()

    def capture_storage(self, folder: Path, name: str) -> Callable[[], None]:
        """Copy what is new in the storage, and return the function that writes it, for any thread to call."""
        return self._kept.capture(folder, name)

    def load_storage(self, folder: Path, name: str) -> None:
        """Fill the storage with a snapshot, if there is one; else learning waits for `start_steps` new steps."""
        self._kept.load(folder, name)

    def execute(self, command: Command) -> None:
        """Make a change that is sent to all workers, here and where data are collected."""
        command.apply_to_learner(self)

    def abandon_stage(self) -> None:
        """Leave an update stage that was begun: its batches are of components that are replaced."""
        self._stage = None

    def begin_journal(self, number: int) -> None:
        """Begin a journal of that number, because the storage is another."""
        self._kept.journal.begin(number)

    def set_num_collectors(self, num_workers: int) -> None:
        """Set the number of remote workers; what those that leave have sent is stored."""
        with self._taking_in():
            self.col_workers.collector.set_num_workers(num_workers)

    def stop(self) -> None:
        """Stop the workers that collect, and remove what was noted."""
        self.overlap.close()
        self.col_workers.stop()
        self._kept.journal.remove()

    def _learns_from_before(self) -> bool:
        """Whether gradients are of what was stored before a stage; a replay ratio counts the steps of the stage."""
        if self._limiter.updates_per_step is not None or not self._may_learn():
            return False
        return self.col_worker.stages.keeps_experience and len(self.storage) > 0

    def _may_learn(self) -> bool:
        counts = self.col_worker.counts
        num_seen = counts.num_steps - counts.num_steps_lost
        return num_seen * self.num_peers >= self.col_worker.algo.start_steps

    def _learn_here(self) -> Generator[Info, None, None]:
        """Collect for one stage, and compute its gradients."""
        with self._collecting():
            yield from self.compute_gradients()

    @contextmanager
    def _collecting(self) -> Iterator[None]:
        """Collect for a stage, before the block; if there is enough to learn from, that is stored after it."""
        beside = self.col_workers.collector.beside(self.overlap) if self._learns_from_before() else None
        if beside is None:
            self.collect()
            yield
            return
        self.algo.num_collectors = max(1, self.col_workers.num_workers)
        with self._taking_in(), beside:
            yield

    @contextmanager
    def _taking_in(self) -> Iterator[None]:
        """Count and note the steps that come in meanwhile; those of the beginning allow for no updates."""
        num_before, counts = self.num_steps, self._may_learn()
        yield
        if counts:
            self._count_steps(self.num_steps - num_before)
        self._kept.note()

    def _count_steps(self, num_steps: int) -> None:
        """Take steps that were collected into account for how many updates there may be, here or elsewhere."""
        if self._limiter.updates_per_step is None:
            self._num_uncounted += num_steps
        else:
            self._limiter.collected(num_steps)

    def _count_update(self) -> None:
        """Take a gradient of this worker's into account for how many more there may be."""
        self._limiter.updated()

    def _batches(self, num_batches: int | None) -> Iterator[Batch]:
        algo = self.algo
        num_mini_batch, num_epochs = algo.num_mini_batch, algo.num_epochs
        if num_batches is None:
            num_batches = self._limiter.due
        if num_batches is not None:
            num_mini_batch, num_epochs = num_batches, 1
        self._num_left = num_mini_batch * num_epochs
        if not self._num_left:
            return iter(())
        return self.storage.generate_batches(num_mini_batch, algo.mini_batch_size, num_epochs)

    def _continue_from(self, weights: VersionedWeights, resume_point: ResumePoint | None) -> None:
        if resume_point is not None:
            self.resume(resume_point)
        apply_weights(self.algo, weights)
        self.col_worker.counts.actor_version = weights.version
        self._seen = take_sums(self.algo.actor)

    def _next_row(self, num_batches: int | None) -> tuple[np.ndarray | None, Info]:
        """Gradients of the next batch of the stage, None if there is none; `_stage` is None after the last one."""
        if self._stage is None:
            self._stage = self._learn_here() if num_batches is None else self.compute_gradients(num_batches)
        info = next(self._stage, None)
        if info is None:
            self._stage = None
            return None, {}
        if self._num_left == 0:
            next(self._stage, None)  # what was collected is stored
            self._stage = None
        parameters = self.algo.optimiser.parameters
        row = FlatGradients(parameters).pack([parameter.grad for parameter in parameters])
        return row.numpy(), numbers_of(info)

    def _gradients_of(self, batch: Batch) -> Info:
        try:
            _, info = self.algo.compute_gradients(batch, grads_to_cpu=False)
        except NotFiniteError:
            self.offending_batch = batch
            raise
        self._num_left -= 1
        self._num_computed += 1
        return info

    def _new_episodes(self) -> Info:
        """Returns of the episodes that ended since the last stage, which some storages learn from."""
        returns = [episode.total_reward for episode in self.col_worker.episodes.take_new()]
        return {keys.EPISODES: {keys.TRAIN_REWARD: returns}} if returns else {}
