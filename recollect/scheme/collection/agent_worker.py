"""`AgentWorker`: an agent's components in one process, and what was collected for them."""

import logging
from collections.abc import Mapping
from typing import Any, Protocol, cast

import torch

from recollect import keys
from recollect.errors import StorageError
from recollect.roles import Actor, Algorithm, ComponentFactory, Device, SavableEnvs, Storage, Weights
from recollect.scheme.base import engine
from recollect.scheme.base.commands import Command
from recollect.scheme.base.worker import Worker
from recollect.scheme.collection.worker.acting import GAP, state_of
from recollect.scheme.collection.worker.components import Components, Factories
from recollect.scheme.collection.worker.counts import Counts
from recollect.scheme.collection.worker.episodes import EpisodeHistory
from recollect.scheme.collection.worker.evaluation import Evaluation, evaluate
from recollect.scheme.stages import OffPolicyStages, stages_of

_LOG = logging.getLogger(keys.RESUME_LOGGER)


class EpisodesElsewhere(Protocol):
    """Knows the episodes in progress of the workers that collect."""

    def episodes_state(self) -> dict[str, Any]: ...
    def load_episodes(self, state: Mapping[str, Any]) -> None: ...


def tell_of_new_episodes(reason: StorageError) -> None:
    """Say why a resumed run begins new episodes."""
    _LOG.warning("new episodes begin, because those of the checkpoint cannot be continued: %s", reason)


class AgentWorker(Components, Worker):
    """Worker of a learner whose data others collect: it has the agent, counts what came in, and evaluates.

    Its parameters are those of `CWorker`, with the factories in one.

    Attributes
    ----------
    counts : Counts
        What was collected so far.
    last_evaluation : Evaluation or None
        What the latest evaluation brought.
    continues_episodes : bool
        Whether the episodes in progress are those that a checkpoint was made in.
    elsewhere : EpisodesElsewhere or None
        Knows the episodes of the workers that collect, if they can be asked.
    """

    acts = False

    def __init__(
        self,
        index_worker: int,
        index_parent: int,
        factories: Factories,
        initial_weights: Weights | None = None,
        device: Device | None = None,
        *,
        is_elastic: bool = False,
    ) -> None:
        Worker.__init__(self, index_worker)
        self.counts = Counts()
        self.continues_episodes = False
        self.elsewhere: EpisodesElsewhere | None = None
        self.last_evaluation: Evaluation | None = None
        device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        Components.__init__(self, device, index_worker, index_parent, factories, is_elastic=is_elastic)
        if initial_weights is not None:
            self.set_weights(engine.fetch(initial_weights))

    @property
    def stages(self) -> OffPolicyStages:
        """How experience is treated between update stages."""
        return stages_of(self.algo)

    @property
    def num_steps(self) -> int:
        """Transitions collected, over all environments."""
        return self.counts.num_steps

    @property
    def episodes(self) -> EpisodeHistory:
        """The train episodes that ended."""
        return self.counts.episodes

    @property
    def actor_version(self) -> int:
        """Number of times that the actor's weights changed."""
        return self.counts.actor_version

    @property
    def update_every(self) -> int:
        """Steps of every environment between update stages."""
        return self.algo.update_every

    def evaluate(self) -> float:
        """Test the present actor, without exploration, and return the mean return; see `last_evaluation`."""
        return self.evaluate_episodes(self.algo.num_test_episodes).mean

    def evaluate_episodes(self, num_episodes: int) -> Evaluation:
        """Test the present actor over exactly `num_episodes` episodes."""
        self.last_evaluation = evaluate(self.algo, self.actor, self.envs_test, num_episodes)
        return self.last_evaluation

    def set_weights(self, actor_weights: Weights) -> None:
        """Give the actor other weights."""
        self.algo.set_weights(actor_weights)
        self.counts.actor_version += 1

    def execute(self, command: Command) -> None:
        """Make a change that is sent to all workers."""
        command.apply_to_agent(self)

    def update_algorithm_parameter(self, parameter_name: str, new_parameter_value: object) -> None:
        """Change a parameter of the algorithm."""
        self.algo.update_algorithm_parameter(parameter_name, new_parameter_value)

    def update_storage_parameter(self, parameter_name: str, new_parameter_value: object) -> None:
        """Change a parameter of the storage."""
        self.storage.update_storage_parameter(parameter_name, new_parameter_value)

    def replace_agent_component(self, component_name: str, new_component_factory: ComponentFactory) -> None:
        """Replace a component by one that `new_component_factory` creates; what refers to the old one follows.

        Parameters
        ----------
        component_name : {"actor", "algo", "storage", "envs_train", "envs_test"}
            Which one.
        new_component_factory : callable
            Called as the factory of such a component is.
        """
        with self.building():
            self._replace_component(component_name, new_component_factory)
        if component_name == keys.ACTOR_COMPONENT:
            self.counts.actor_version += 1
        if component_name == keys.STORAGE_COMPONENT:
            self.counts.num_steps_lost = self.counts.num_steps

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs of the collection, apart from the components."""
        return self.counts.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from `state`."""
        self.counts.load_state(state)
        self.continues_episodes = False

    def episodes_state(self) -> dict[str, Any]:
        """Where the environments are; of those to learn in only why they cannot be resumed, if they cannot."""
        test = None if self._envs_test is None else state_of(self._envs_test)
        return {keys.TRAIN: self._train_state(), keys.TEST: test}

    def load_episodes(self, state: Mapping[str, Any]) -> None:
        """Continue the episodes of `episodes_state` where it has them; after `load_state`, which begins new ones."""
        if isinstance(state[keys.TEST], Mapping):
            try:
                cast(SavableEnvs, self.envs_test).load_state(state[keys.TEST])
            except StorageError:
                # Others than those of the checkpoint; they are reset before every evaluation.
                self.envs_test.reseed(self.num_steps)

        if self.elsewhere is not None:
            try:
                self.elsewhere.load_episodes(state[keys.TRAIN])
                self.continues_episodes = True
            except StorageError as reason:
                tell_of_new_episodes(reason)

    def _train_state(self) -> dict[str, Any]:
        return {GAP: "other workers collect"} if self.elsewhere is None else self.elsewhere.episodes_state()


class SharedComponents:
    """Has at hand the components of a worker: they are shared, nothing is copied.

    Attributes
    ----------
    col_worker : AgentWorker
        The worker in this process that collects, or stands for those that do, and that evaluates.
    """

    col_worker: AgentWorker

    @property
    def actor(self) -> Actor:
        """The actor that learns."""
        return self.col_worker.actor

    @property
    def algo(self) -> Algorithm:
        """The algorithm."""
        return self.col_worker.algo

    @property
    def storage(self) -> Storage:
        """The storage that batches come from; gradient workers elsewhere have their own."""
        return self.col_worker.storage
