"""`CWorker`: acts in environments, stores what happens, and evaluates."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience.store.outbox import Outbox
from recollect.errors import ConfigError, WorkerError, closest
from recollect.scheme.base import engine
from recollect.scheme.base.commands import Command
from recollect.scheme.base.worker import Worker
from recollect.scheme.collection.collectors.sent_piece import SentPiece, contents
from recollect.scheme.collection.collectors.states import EPISODES, NUM_STEPS
from recollect.scheme.collection.worker.acting import Acting
from recollect.scheme.collection.worker.components import REPLACEMENTS
from recollect.scheme.collection.worker.episodes import EpisodeHistory
from recollect.scheme.collection.worker.evaluation import Evaluation, evaluate
from recollect.scheme.collection.worker.remote_envs import RemoteEnvs
from recollect.scheme.collection.worker.step_list import StepList
from recollect.scheme.gradients.normaliser_sums import gain, take_sums
from recollect.scheme.weights import unpack_weights

Factory = Callable[..., Any]
Info = dict[str, Any]

_COUNTERS: Final = (NUM_STEPS, "num_steps_lost", "iter", "actor_version")


class CWorker(Worker):
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
        Which life of the worker with this index it is.
    collects : bool
        Whether the worker acts in train environments itself. If not, it is the learner's: other workers do,
        and its storage takes in what they send.

    Attributes
    ----------
    actor, algo, storage, envs_train, envs_test
        The components.
    iter : int
        Number of times that data were collected.
    actor_version : int
        Number of times that the actor's weights changed.
    latest_obs : (nested) arrays
        Latest observations `[num_envs, ...]` as the environments gave them; None if others act.
    rhs, done : tensors
        Hidden states `[num_envs, R]`, and whether the observations begin an episode `[num_envs, 1]`.
    num_steps : int
        Transitions collected, over all environments.
    num_steps_lost : int
        How many of them the present storage has never held.
    episodes : EpisodeHistory
        The train episodes that ended.
    last_evaluation : Evaluation or None
        What the latest evaluation brought.
    """

    def __init__(
        self,
        index_worker: int,
        index_parent: int,
        algo_factory: Factory,
        actor_factory: Factory,
        storage_factory: Factory,
        fraction_samples: float = 1.0,
        compress_data_to_send: bool = False,
        train_envs_factory: Factory | None = None,
        test_envs_factory: Factory | None = None,
        initial_weights: Any = None,
        device: torch.device | str | None = None,
        *,
        epoch: int = 0,
        collects: bool = True,
    ) -> None:
        super().__init__(index_worker)
        self.index_parent = index_parent
        self.fraction_samples = fraction_samples
        self.compress_data_to_send = compress_data_to_send
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.iter = 0
        self.actor_version = 0
        self.num_steps = 0
        self.num_steps_lost = 0
        self.episodes = EpisodeHistory()
        self.last_evaluation: Evaluation | None = None
        self.epoch = epoch
        self.collects = collects
        self.latest_obs: Any = None
        self.rhs: Any = None
        self.done: Any = None
        self._acting = Acting(self)
        self._version: int | None = None
        self._outbox: Outbox | None = None
        self._outbox_of: Any = None
        self.algo_factory = algo_factory
        self.train_envs_factory = train_envs_factory
        self.envs_train = self.make_envs(train_envs_factory)
        self.envs_test = self.make_envs(test_envs_factory, keys.TEST)
        self.actor = self.make_actor(actor_factory)
        self.algo = algo_factory(self.device, self.actor, self.envs_train or self.envs_test)
        if initial_weights is not None:
            self.set_weights(engine.fetch(initial_weights))
        self.storage: Any = None
        if self.envs_train is not None:
            self.storage = storage_factory(self.device, self.actor, self.algo, self.envs_train)
            self.begin_episodes()

    @property
    def obs(self) -> Any:
        """Latest observations as (nested) tensors `[num_envs, ...]` on the worker's device; None if others act."""
        return None if self.latest_obs is None else _to_tensors(self.latest_obs, self.device)

    @property
    def update_every(self) -> int:
        """Steps of every environment between update stages."""
        return int(self.algo.update_every)

    def collect_data(self, listen_to: Collection[str] = (), data_to_cpu: bool = True) -> tuple[dict[str, Any], Info]:
        """Collect for one update stage and hand the data over; the storage is not touched.

        Parameters
        ----------
        listen_to : collection of str
            Words that, once heard, end the collection early.
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
        return _to_tensors(steps.arrays(), device), info

    def collect_piece(
        self, weights: Mapping[str, np.ndarray], version: int, num_run_steps: int, listen_to: Collection[str] = ()
    ) -> SentPiece:
        """Collect for one update stage, as a worker of a set does, into a small store whose newest piece is sent.

        Parameters
        ----------
        weights : dict of arrays
            What to act with.
        version : int
            Which version of the weights it is.
        num_run_steps : int
            Steps that the run has collected so far, over all workers.
        listen_to : collection of str
            Words that, once heard, end the collection early.
        """
        if version != self._version:
            self.set_weights(unpack_weights(weights))
            self._version = self.actor_version = version
        self.follow_run(num_run_steps)
        outbox, seen = self._ready_outbox(), take_sums(self.actor)
        info = self._collect_into(outbox, listen_to)
        return SentPiece(
            (self.index_parent, self.index_worker),
            self.epoch,
            version,
            info,
            gain(seen, take_sums(self.actor)),
            **contents(outbox, is_compressed=self.compress_data_to_send),
        )

    def collect_train_data(self, num_steps: int | None = None, listen_to: Collection[str] = ()) -> tuple[float, float]:
        """Step the train environments and store what happens.

        Parameters
        ----------
        num_steps : int, optional
            Steps of every environment; by default `update_every`.
        listen_to : collection of str
            Words that, once heard, end the collection, though not before `fraction_samples` of it.

        Returns
        -------
        col_time : float
            Seconds spent.
        train_perf : float
            Mean return of recent episodes, NaN before the first one ends.
        """
        begin = time.perf_counter()
        self._acting.take_steps(self.storage, self.update_every if num_steps is None else num_steps, listen_to)
        return time.perf_counter() - begin, self.episodes.mean_return

    def hear(self, word: str) -> None:
        """Take in a word from outside; a collection that listens to it ends early."""
        self._acting.hear(word)

    def follow_run(self, num_run_steps: int) -> None:
        """Take into account what other workers have collected: random steps and schedules are those of the run.

        A worker that joins a run on its way does not begin with what was seen at the beginning.
        """
        self._acting.follow_run(num_run_steps)

    def evaluate(self) -> float:
        """Test the present actor, without exploration, and return the mean return; see `last_evaluation`."""
        return self.evaluate_episodes(self.algo.num_test_episodes).mean

    def evaluate_episodes(self, num_episodes: int) -> Evaluation:
        """Test the present actor over exactly `num_episodes` episodes."""
        if self.envs_test is None:
            raise WorkerError(f"worker {self.index_worker} has no test environments; give test_envs_factory")
        self.last_evaluation = evaluate(self.algo, self.actor, self.envs_test, num_episodes)
        return self.last_evaluation

    def set_weights(self, actor_weights: Mapping[str, torch.Tensor]) -> None:
        """Give the actor other weights."""
        self.algo.set_weights(actor_weights)
        self.actor_version += 1

    def execute(self, command: Command) -> None:
        """Make a change that is sent to all workers."""
        command.apply_to_agent(self)

    def update_algorithm_parameter(self, parameter_name: str, new_parameter_value: object) -> None:
        """Change a parameter of the algorithm."""
        self.algo.update_algorithm_parameter(parameter_name, new_parameter_value)

    def update_storage_parameter(self, parameter_name: str, new_parameter_value: object) -> None:
        """Change a parameter of the storage."""
        self.storage.update_storage_parameter(parameter_name, new_parameter_value)

    def replace_agent_component(self, component_name: str, new_component_factory: Factory) -> None:
        """Replace a component by one that `new_component_factory` creates; what refers to the old one follows.

        Parameters
        ----------
        component_name : {"actor", "algo", "storage", "envs_train", "envs_test"}
            Which one.
        new_component_factory : callable
            Called as the factory of such a component is.
        """
        if component_name not in REPLACEMENTS:
            raise ConfigError(f"a worker has no component {component_name!r}; {closest(component_name, REPLACEMENTS)}")
        with self.building():
            REPLACEMENTS[component_name](self, new_component_factory)

    def make_actor(self, factory: Factory) -> Any:
        """Create an actor; every worker's explores in its own way, the first one's as the factory says."""
        actor = factory(self.device)
        if self.index_worker or self.index_parent:
            self.seed_actor(actor)
        return actor

    def make_envs(self, factory: Factory | None, *mode: str) -> Any:
        """Create environments that are seeded for this worker; None without a factory."""
        if factory is None:
            return None
        place = (self.device, self.index_worker, self.index_parent, *mode)
        return factory(*place) if self.collects or mode else RemoteEnvs.of(factory, *place)

    def seed_actor(self, actor: Any, *numbers: int) -> None:
        """Let an actor explore in a way of this worker's own."""
        entropy = [actor.generator.initial_seed(), self.index_parent, self.index_worker, *numbers]
        actor.seed(int(np.random.SeedSequence(entropy).generate_state(1)[0]))

    def begin_episodes(self) -> None:
        """Begin an episode in every train environment, if they are here."""
        if self.collects:
            self._acting.begin_episodes()

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs of the collection, apart from the components."""
        return {**{name: getattr(self, name) for name in _COUNTERS}, EPISODES: self.episodes.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`, with new episodes that are not those of the beginning once more."""
        for name in _COUNTERS:
            setattr(self, name, int(state[name]))
        self.episodes.load_state(state[EPISODES])
        self.envs_train.reseed(self.num_steps)
        self.begin_episodes()

    def stop(self) -> None:
        """Close the environments."""
        for envs in (self.envs_train, self.envs_test):
            if envs is not None:
                envs.close()

    def _ready_outbox(self) -> Outbox:
        """The store of steps to send, of the present storage's kind and with room for one stage."""
        if self._outbox is None or self._outbox_of is not self.storage:
            self._outbox, self._outbox_of = self.storage.make_outbox(self.update_every, self._outbox), self.storage
        self._outbox.expect(self.update_every)
        return self._outbox

    def _collect_into(self, target: Outbox | StepList, listen_to: Collection[str]) -> Info:
        """Collect for one update stage, and say what else there is to know of it."""
        begin = time.perf_counter()
        self._acting.take_steps(target, self.update_every, listen_to)
        elapsed_s = time.perf_counter() - begin
        episodes = self.episodes.take_new()
        return {
            keys.COLLECTION: {keys.TIME_S: elapsed_s},
            keys.EPISODES: {keys.TRAIN_REWARD: [episode.total_reward for episode in episodes]},
            keys.ENDED: episodes,
            keys.ENV_FAILURES: self.envs_train.num_failures,
        }


def _to_tensors(arrays: Any, device: torch.device) -> Any:
    """The (nested) arrays as tensors on a device; on the CPU they share memory."""
    if isinstance(arrays, Mapping):
        return {key: _to_tensors(inner, device) for key, inner in arrays.items()}
    array = np.asarray(arrays)
    return torch.from_numpy(array if array.flags.writeable else array.copy()).to(device)
