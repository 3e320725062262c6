"""`Components`: the parts of an agent that a worker has, and how they are replaced while it runs."""

from typing import ClassVar, NamedTuple

import numpy as np
import torch

from recollect import keys
from recollect.agent.envs import VecEnv
from recollect.agent.envs.spaces import have_same_form
from recollect.errors import ConfigError, WorkerError, closest
from recollect.roles import (
    Actor,
    ActorFactory,
    AlgorithmFactory,
    ComponentFactory,
    EnvsFactory,
    SteppingEnvs,
    Storage,
    StorageFactory,
    VectorEnvs,
)
from recollect.scheme.collection.worker.remote_envs import RemoteEnvs


class Factories(NamedTuple):
    """What makes the components of a worker, by their names."""

    algo: AlgorithmFactory
    actor: ActorFactory
    storage: StorageFactory
    envs_train: EnvsFactory | None = None
    envs_test: EnvsFactory | None = None


class Components:
    """Actor, algorithm, storage and environments of a worker; what refers to a replaced one follows.

    Attributes
    ----------
    acts : bool
        Whether the worker acts in train environments. If not, something stands for them that only tells their form.
    device, index_worker, index_parent
        Where the components are: the device, and the indices of the worker and of its gradient worker.
    is_elastic : bool
        Whether the worker draws the same random numbers as all others, and takes those of its own environments.
    actor, algo
        Those that are always there. Without train environments there is no storage.
    factories : Factories
        What made the present components.
    """

    acts: ClassVar[bool]

    def __init__(
        self,
        device: torch.device,
        index_worker: int,
        index_parent: int,
        factories: Factories,
        *,
        is_elastic: bool = False,
    ) -> None:
        self.device = device
        self.is_elastic = is_elastic
        self.index_worker = index_worker
        self.index_parent = index_parent
        self.factories = factories
        self._place = device, index_worker, index_parent
        self._envs_train = None if factories.envs_train is None else self._make_envs_train(factories.envs_train)
        self._envs_test = None if factories.envs_test is None else factories.envs_test(*self._place, keys.TEST)
        self._share_failures()
        self._storage: Storage | None = None
        self.actor = self._make_actor(factories.actor)
        self.algo = factories.algo(device, self.actor, self._any_envs())
        if self._envs_train is not None:
            self._storage = factories.storage(device, self.actor, self.algo, self._envs_train)

    @property
    def envs_train(self) -> VectorEnvs:
        """The environments to learn in, or what stands for those of other workers."""
        if self._envs_train is None:
            raise WorkerError(f"worker {self.index_worker} has no train environments; give train_envs_factory")
        return self._envs_train

    @property
    def envs_test(self) -> SteppingEnvs:
        """The environments to evaluate in."""
        if self._envs_test is None:
            raise WorkerError(f"worker {self.index_worker} has no test environments; give test_envs_factory")
        return self._envs_test

    @property
    def storage(self) -> Storage:
        """Where experience goes."""
        if self._storage is None:
            raise WorkerError(
                f"worker {self.index_worker} has no train environments, and so no storage; give train_envs_factory"
            )
        return self._storage

    @property
    def has_train_envs(self) -> bool:
        """Whether there is something to learn in."""
        return self._envs_train is not None

    def seed_actor(self, *numbers: int) -> None:
        """Let the actor explore in a way of this worker's own."""
        self._seed(self.actor, self.index_worker, *numbers)

    def stop(self) -> None:
        """Close the environments."""
        for envs in (self._envs_train, self._envs_test):
            if envs is not None:
                envs.close()

    def _replace_component(self, name: str, factory: ComponentFactory) -> None:
        """Replace a component by one that `factory` makes; one that does not fit is refused, and nothing changes."""
        if name not in Factories._fields:
            raise ConfigError(f"a worker has no component {name!r}; {closest(name, Factories._fields)}")
        getattr(self, f"_replace_{name}")(factory)
        self.factories = Factories(**{**self.factories._asdict(), name: factory})

    def _replace_actor(self, factory: ActorFactory) -> None:
        """The algorithm is built again with it, because its optimisers hold the weights."""
        self.actor = self._make_actor(factory)
        self.storage.actor = self.actor
        self._replace_algo(self.factories.algo)

    def _replace_algo(self, factory: AlgorithmFactory) -> None:
        self.algo = factory(self.device, self.actor, self._any_envs())
        self.storage.algorithm = self.algo

    def _replace_storage(self, factory: StorageFactory) -> None:
        self._storage = factory(self.device, self.actor, self.algo, self.envs_train)

    def _replace_envs_train(self, factory: EnvsFactory) -> None:
        before, envs = self.envs_train, self._make_envs_train(factory)
        if envs.num_envs != before.num_envs:
            envs.close()
            raise ConfigError(
                f"the storage is made for {before.num_envs} train environments, got {envs.num_envs}; make as many"
            )
        self._check_spaces(envs)
        before.close()
        self._envs_train = self.algo.envs = self.storage.envs = envs
        self._share_failures()

    def _replace_envs_test(self, factory: EnvsFactory) -> None:
        before, envs = self._envs_test, factory(*self._place, keys.TEST)
        self._check_spaces(envs)
        if before is not None:
            before.close()
        self._envs_test = envs
        self._share_failures()

    def _share_failures(self) -> None:
        """Let one traceback do for a failure in train and in test environments."""
        if isinstance(self._envs_train, VecEnv) and isinstance(self._envs_test, VecEnv):
            self._envs_test.share_failures(self._envs_train)

    def _make_actor(self, factory: ActorFactory) -> Actor:
        """Build an actor; every worker's explores in its own way, the first one's as the factory says."""
        actor = factory(self.device)
        index_worker = 0 if self.is_elastic else self.index_worker
        if index_worker or self.index_parent:
            self._seed(actor, index_worker)
        return actor

    def _seed(self, actor: Actor, *numbers: int) -> None:
        entropy = [actor.generator.initial_seed(), self.index_parent, *numbers]
        actor.seed(int(np.random.SeedSequence(entropy).generate_state(1)[0]))

    def _make_envs_train(self, factory: EnvsFactory) -> VectorEnvs:
        """Build environments that are seeded for this worker, or what stands for them."""
        return factory(*self._place) if self.acts else RemoteEnvs.of(factory, *self._place)

    def _any_envs(self) -> VectorEnvs:
        return self.envs_test if self._envs_train is None else self._envs_train

    def _check_spaces(self, envs: VectorEnvs) -> None:
        """Close and refuse environments that the actor was not made for, where both tell their spaces."""
        for role, name, expected in (
            ("observations", "observation_space", getattr(self.actor, "obs_space", None)),
            ("actions", "action_space", getattr(self.actor, "action_space", None)),
        ):
            space = getattr(envs, name, None)
            if space is not None and expected is not None and not have_same_form(space, expected):
                envs.close()
                raise ConfigError(
                    f"the actor is made for {role} in {expected}, got environments with {space}; "
                    "make environments of that form, or a new agent"
                )
