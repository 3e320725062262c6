"""`AgentWorker`: an agent's components in one process, and what was collected for them."""

from collections.abc import Mapping
from typing import Any

import torch

from recollect import keys
from recollect.roles import Actor, Algorithm, ComponentFactory, Device, SteppingEnvs, Storage, VectorEnvs, Weights
from recollect.scheme.base import engine
from recollect.scheme.base.commands import Command
from recollect.scheme.base.worker import Worker
from recollect.scheme.collection.worker.components import Components, Factories, Place
from recollect.scheme.collection.worker.counts import Counts
from recollect.scheme.collection.worker.episodes import EpisodeHistory
from recollect.scheme.collection.worker.evaluation import Evaluation, evaluate
from recollect.scheme.stages import Stages, stages_of


class AgentWorker(Worker):
    """Worker of a learner whose data others collect: it has the agent, counts what came in, and evaluates.

    Parameters
    ----------
    index_worker : int
        Index of this worker.
    index_parent : int
        Index of the gradient worker that it is part of.
    factories : Factories
        Make the components.
    initial_weights : dict of tensors, optional
        Weights of the actor to begin with, or a reference to them in Ray's object store.
    device : torch.device or str, optional
        Where to compute; by default a GPU if there is one.

    Attributes
    ----------
    components : Components
        Actor, algorithm, storage and environments.
    counts : Counts
        What was collected so far.
    last_evaluation : Evaluation or None
        What the latest evaluation brought.
    """

    acts = False

    def __init__(
        self,
        index_worker: int,
        index_parent: int,
        factories: Factories,
        initial_weights: Weights | None = None,
        device: Device | None = None,
    ) -> None:
        super().__init__(index_worker)
        self.index_parent = index_parent
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.counts = Counts()
        self.last_evaluation: Evaluation | None = None
        self.components = Components(Place(self.device, index_worker, index_parent), factories, acts=self.acts)
        if initial_weights is not None:
            self.set_weights(engine.fetch(initial_weights))

    @property
    def actor(self) -> Actor:
        """The actor."""
        return self.components.actor

    @property
    def algo(self) -> Algorithm:
        """The algorithm."""
        return self.components.algo

    @property
    def storage(self) -> Storage:
        """The storage."""
        return self.components.storage

    @property
    def envs_train(self) -> VectorEnvs:
        """The environments to learn in, or what stands for those of other workers."""
        return self.components.envs_train

    @property
    def envs_test(self) -> SteppingEnvs:
        """The environments to evaluate in."""
        return self.components.envs_test

    @property
    def stages(self) -> Stages:
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

    @actor_version.setter
    def actor_version(self, version: int) -> None:
        self.counts.actor_version = version

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
            self.components.replace(component_name, new_component_factory)
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

    def stop(self) -> None:
        """Close the environments."""
        self.components.close()
