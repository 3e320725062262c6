"""`CWorker`: acts in environments, stores what happens, and evaluates."""

import time
from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from recollect import keys
from recollect.agent.actors.spaces import as_tensor, map_observation
from recollect.agent.storages.experience.store.outbox import Outbox
from recollect.errors import StorageError, WorkerError
from recollect.roles import (
    ActorFactory,
    AlgorithmFactory,
    ComponentFactory,
    Device,
    EnvsFactory,
    Info,
    Observation,
    Storage,
    StorageFactory,
    Weights,
)
from recollect.scheme.collection.agent_worker import AgentWorker, tell_of_new_episodes
from recollect.scheme.collection.collectors.sent_piece import SentPiece, contents
from recollect.scheme.collection.worker.acting import GAP, Acting, StepSink
from recollect.scheme.collection.worker.components import Factories
from recollect.scheme.collection.worker.deferred_collection import DeferredCollection
from recollect.scheme.collection.worker.rows import Rows
from recollect.scheme.collection.worker.step_list import StepList
from recollect.scheme.normaliser_sums import take_statistics
from recollect.scheme.weights import unpack_weights

# Entries of a worker's place.
_EPISODES: Final = "episodes"
_SENT: Final = "sent"
_ALGO: Final = "algo"
_GENERATOR: Final = "generator"
_NUM_STEPS: Final = "num_steps"
_NUM_ELSEWHERE: Final = "num_steps_elsewhere"


class CWorker(AgentWorker):
    """Worker that collects data: an actor, a storage, train and test environments.

    Parameters
    ----------
    index_worker : int
        Index of this worker.
    index_parent : int
        Index of the gradient worker that it collects for.
    algo_factory, actor_factory, storage_factory : callable
        Create the algorithm, the actor and the storage.
    fraction_samples : float
        Share of the steps asked for after which collection may be stopped from outside.
    compress_data_to_send : bool
        Whether data are to be compressed where they go to another process.
    train_envs_factory, test_envs_factory : callable, optional
        Create the environments. Without train environments the worker only evaluates, and the other
        way round.
    initial_weights : dict of tensors, optional
        Weights of the actor to begin with, or a reference to them in Ray's object store.
    device : torch.device or str, optional
        Where to compute; by default a GPU if there is one.
    epoch : int
        How often the worker with this index was restarted.
    is_elastic : bool
        Whether what it collects depends on the place of its environments among all, and not on who holds them.
    """

    acts = True

    def __init__(
        self,
        index_worker: int,
        index_parent: int,
        algo_factory: AlgorithmFactory,
        actor_factory: ActorFactory,
        storage_factory: StorageFactory,
        fraction_samples: float = 1.0,
        compress_data_to_send: bool = False,
        train_envs_factory: EnvsFactory | None = None,
        test_envs_factory: EnvsFactory | None = None,
        initial_weights: Weights | None = None,
        device: Device | None = None,
        *,
        epoch: int = 0,
        is_elastic: bool = False,
    ) -> None:
        factories = Factories(algo_factory, actor_factory, storage_factory, train_envs_factory, test_envs_factory)
        super().__init__(index_worker, index_parent, factories, initial_weights, device, is_elastic=is_elastic)
        self.fraction_samples = fraction_samples
        self.compress_data_to_send = compress_data_to_send
        self.epoch = epoch
        self._version: int | None = None
        self._outbox: Outbox | None = None
        self._outbox_of: Storage | None = None
        self._acting = Acting(self, self.counts, self.tick) if self.has_train_envs else None
        self._deferred = DeferredCollection(self, self._acting, self.counts) if self._acting is not None else None

    @property
    def acting(self) -> Acting:
        """Acts in the train environments."""
        if self._acting is None:
            raise WorkerError(f"worker {self.index_worker} has no train environments; give train_envs_factory")
        return self._acting

    @property
    def deferred(self) -> DeferredCollection:
        """Collects during updates, and stores the steps after them."""
        if self._deferred is None:
            raise WorkerError(f"worker {self.index_worker} has no train environments; give train_envs_factory")
        if self.acting.is_mid_step:
            self._rebuild_envs()
        return self._deferred

    @property
    def iter(self) -> int:
        """Number of times that data were collected."""
        return self.counts.iter

    @property
    def obs(self) -> Observation:
        """Latest observations as (nested) tensors `[num_envs, ...]` on the worker's device."""
        return map_observation(lambda array: torch.tensor(array, device=self.device), self.acting.latest_obs)

    @property
    def rhs(self) -> Tensor:
        """Latest hidden states `[num_envs, R]`."""
        return self.acting.rhs

    @property
    def done(self) -> Tensor:
        """Whether the latest observations begin an episode `[num_envs, 1]`."""
        return self.acting.done

    def collect_data(self, listen_to: Collection[str] = (), data_to_cpu: bool = True) -> tuple[dict[str, Any], Info]:
        """Collect for one update stage and hand the data over; the storage is not touched.

        Parameters
        ----------
        listen_to : collection of str
            Signals that end the collection early.
        data_to_cpu : bool
            Hand the data over in CPU memory, not on the worker's device.

        Returns
        -------
        data : dict
            Steps collected, (nested) tensors `[time, num_envs, ...]`.
        info : dict
            The time spent, the episodes that ended, and how often an env has failed so far.
        """
        steps = StepList()
        info = self._collect_into(steps, listen_to)
        device = torch.device("cpu") if data_to_cpu else self.device
        return map_observation(lambda array: as_tensor(array, device), steps.arrays()), info

    def collect_piece(
        self,
        weights: Mapping[str, np.ndarray],
        version: int,
        num_run_steps: int,
        listen_to: Collection[str] = (),
        rows: Rows | None = None,
    ) -> SentPiece:
        """Collect for one update stage, as a worker of a set does, into a small store whose newest piece is sent.

        It acts with these weights, of this version; `num_run_steps` is what the run has collected, over all workers,
        and `rows` says which of all environments are its own, if they act as one.
        """
        if version != self._version:
            self.set_weights(unpack_weights(weights))
            self._version = self.counts.actor_version = version
        self.acting.follow_run(num_run_steps, rows)
        outbox, before = self._ready_outbox(), take_statistics(self.actor)
        info = self._collect_into(outbox, listen_to)
        return SentPiece(
            (self.index_parent, self.index_worker),
            self.epoch,
            version,
            info,
            (before, take_statistics(self.actor)),
            **contents(outbox, is_compressed=self.compress_data_to_send),
        )

    def collect_train_data(self, num_steps: int | None = None, listen_to: Collection[str] = ()) -> tuple[float, float]:
        """Step the train environments and store what happens.

        Parameters
        ----------
        num_steps : int, optional
            Steps of every environment; by default `update_every`.
        listen_to : collection of str
            Signals that end the collection, though not before `fraction_samples` of it.

        Returns
        -------
        col_time : float
            Seconds spent.
        train_perf : float
            Mean return of recent episodes, NaN before the first one ends.
        """
        begin = time.perf_counter()
        self._take_steps(self.storage, self.update_every if num_steps is None else num_steps, listen_to)
        return time.perf_counter() - begin, self.episodes.mean_return

    def signal(self, name: str) -> None:
        """Receive a signal; a collection that listens to it ends early."""
        self.acting.signal(name)

    def replace_agent_component(self, component_name: str, new_component_factory: ComponentFactory) -> None:
        super().replace_agent_component(component_name, new_component_factory)
        if component_name in (keys.ACTOR_COMPONENT, keys.ENVS_TRAIN_COMPONENT):
            with self.building():
                self.acting.begin_episodes()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from `state`, with new episodes that are not those of the beginning once more."""
        super().load_state(state)
        self._begin_others()

    def load_episodes(self, state: Mapping[str, Any]) -> None:
        super().load_episodes(state)
        episodes = state[keys.TRAIN]
        try:
            if GAP in episodes:
                raise StorageError(episodes[GAP])
            self.acting.load_state(episodes)
            self.continues_episodes = True
        except StorageError as reason:
            tell_of_new_episodes(reason)
            self._begin_others()

    def place(self) -> dict[str, Any]:
        """Where it stands, so that another worker can continue in its place; only why not, if none can."""
        episodes = {GAP: "a worker was restarted"} if self.epoch else self._train_state()
        if GAP in episodes:
            return episodes
        outbox, algo = self._ready_outbox(), self.algo.state()
        return {
            _EPISODES: episodes,
            _SENT: outbox.num_sent,
            # The learner has the others.
            _ALGO: {name: value for name, value in algo.items() if not name.startswith(keys.OPTIMISER_PREFIX)},
            _GENERATOR: self.actor.generator.get_state(),
            _NUM_STEPS: self.num_steps,
            _NUM_ELSEWHERE: self.acting.num_steps_elsewhere,
        }

    def take_place(self, place: Mapping[str, Any]) -> None:
        """Continue from where another worker stood, see `place`."""
        self.acting.load_state(place[_EPISODES])
        self._ready_outbox().continue_after(np.asarray(place[_SENT]))
        self.algo.load_state({**self.algo.state(), **place[_ALGO]})
        self.actor.generator.set_state(place[_GENERATOR])
        self.counts.num_steps = int(place[_NUM_STEPS])
        self.acting.num_steps_elsewhere = int(place[_NUM_ELSEWHERE])

    def _begin_others(self) -> None:
        """Begin episodes that are not those of the beginning once more."""
        self.envs_train.reseed(self.num_steps)
        self.acting.begin_episodes()

    def _train_state(self) -> dict[str, Any]:
        if self._acting is None or self._deferred is None:
            return super()._train_state()
        # The environments are ahead of the storage then, and no stream may run over that gap.
        return {GAP: "a stage was interrupted"} if self._deferred.has_unstored else self._acting.state()

    def _take_steps(self, into: StepSink, num_steps: int, listen_to: Collection[str]) -> None:
        if self.acting.is_mid_step:
            self._rebuild_envs()
        self.acting.take_steps(into, num_steps, listen_to, self.fraction_samples)
        self.counts.iter += 1

    def _rebuild_envs(self) -> None:
        """Replace the environments after a step was interrupted: nobody knows how far it came."""
        factory = self.factories.envs_train
        assert factory is not None
        self.replace_agent_component(keys.ENVS_TRAIN_COMPONENT, factory)
        self._begin_others()

    def _ready_outbox(self) -> Outbox:
        """The store of steps to send, of the present storage's kind and with room for one stage."""
        if self._outbox is None or self._outbox_of is not self.storage:
            self._outbox, self._outbox_of = self.storage.make_outbox(self.update_every, self._outbox), self.storage
        self._outbox.expect(self.update_every)
        return self._outbox

    def _collect_into(self, target: Outbox | StepList, listen_to: Collection[str]) -> Info:
        """Collect for one update stage, and say what else there is to know of it."""
        begin = time.perf_counter()
        self._take_steps(target, self.update_every, listen_to)
        elapsed_s = time.perf_counter() - begin
        episodes, numbers = self.acting.placed(self.episodes.take_new())
        return {
            keys.COLLECTION: {keys.TIME_S: elapsed_s},
            keys.EPISODES: {keys.TRAIN_REWARD: [episode.total_reward for episode in episodes]},
            keys.ENDED: episodes,
            keys.ENDED_AT: numbers,
            keys.ENV_FAILURES: self.envs_train.num_failures,
        }
