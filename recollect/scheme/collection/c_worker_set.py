"""`CWorkerSet`: the workers that collect for one learner."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from recollect import keys
from recollect.agent.actors.spaces import is_vector
from recollect.errors import ConfigError
from recollect.roles import ActorFactory, AlgorithmFactory, Collector, Device, EnvsFactory, StorageFactory, Weights
from recollect.scheme.base.commands import Command, ReplaceComponent, SetAlgorithmParameter, SetStorageParameter
from recollect.scheme.base.resources import DEFAULT, Demand, Resources
from recollect.scheme.base.supervision import Supervision
from recollect.scheme.base.worker_set import WorkerSet
from recollect.scheme.collection.agent_worker import AgentWorker
from recollect.scheme.collection.c_worker import CWorker
from recollect.scheme.collection.collectors.async_collector import AsyncCollector
from recollect.scheme.collection.collectors.collector import LocalCollector
from recollect.scheme.collection.collectors.sync_collector import SyncCollector
from recollect.scheme.collection.worker.components import Factories

# Rows that a network of a few hundred units takes little longer for than for one.
_MAX_ROWS: Final = 256
# Which parameter of a remote worker makes which component; tests are run by the local worker alone.
_FACTORIES: Final = {
    keys.ACTOR_COMPONENT: "actor_factory",
    keys.ALGO_COMPONENT: "algo_factory",
    keys.STORAGE_COMPONENT: "storage_factory",
    keys.ENVS_TRAIN_COMPONENT: "train_envs_factory",
}
# Commands that a replaced component knows nothing of: a new algorithm is made with a new actor.
_COMMANDS_OF: Final[dict[str, type[Command]]] = {
    keys.ACTOR_COMPONENT: SetAlgorithmParameter,
    keys.ALGO_COMPONENT: SetAlgorithmParameter,
    keys.STORAGE_COMPONENT: SetStorageParameter,
}


class CWorkerSet(WorkerSet):
    """Workers that collect, and the learner's worker that receives what they send.

    Without remote workers the local one collects itself.

    Parameters
    ----------
    num_workers : int
        Remote workers; 0 collects in this process.
    index_parent : int
        Index of the gradient worker that they collect for.
    algo_factory, actor_factory, storage_factory : callable
        Create algorithm, actor and storage.
    local_device : torch.device or str, optional
        Where the local worker computes.
    total_parent_workers : int
        Gradient workers of the training.
    initial_weights, fraction_samples, compress_data_to_send, train_envs_factory, test_envs_factory
        As in `CWorker`. Tests are run in this process.
    worker_remote_config : mapping, optional
        Ray's resource options of one worker, passed on as they are; by default an equal share of what the cluster
        has, at most a core, a fifth of a GPU, 5 GiB of memory and 2 GiB of object store.
    mode : {"sync", "async"}
        Whether remote workers wait for each other.
    fraction_workers : float
        Share of workers that must have finished before slow ones are stopped; of synchronous ones.
    max_policy_lag : int, optional
        Most versions that the acting policy may be behind, of asynchronous workers. Weights have a new version in each
        stage of collection before which they were updated, however often.
    supervision, placement
        As in `WorkerSet`.
    parent_resources : mapping, optional
        Ray's resource options of a gradient worker of the training, which the default leaves to it; by default
        an equal share too.
    elastic : bool, optional
        Whether synchronous workers act as one, so that a run does not depend on how many there are; by default where
        observations are vectors and environments are not too many. Never where slow workers are stopped.

    Attributes
    ----------
    collector : Collector
        Has data collected.
    """

    def __init__(
        self,
        num_workers: int,
        index_parent: int,
        algo_factory: AlgorithmFactory,
        actor_factory: ActorFactory,
        storage_factory: StorageFactory,
        local_device: Device | None = None,
        initial_weights: Weights | None = None,
        fraction_samples: float = 1.0,
        total_parent_workers: int = 0,
        compress_data_to_send: bool = False,
        train_envs_factory: EnvsFactory | None = None,
        test_envs_factory: EnvsFactory | None = None,
        worker_remote_config: Resources | None = None,
        *,
        mode: str = keys.SYNC,
        fraction_workers: float = 1.0,
        max_policy_lag: int | None = None,
        supervision: Supervision | None = None,
        placement: str = DEFAULT,
        parent_resources: Resources | None = None,
        elastic: bool | None = None,
    ) -> None:
        params: dict[str, Any] = {
            "index_parent": index_parent,
            "algo_factory": algo_factory,
            "actor_factory": actor_factory,
            "storage_factory": storage_factory,
            "fraction_samples": fraction_samples,
            "compress_data_to_send": compress_data_to_send,
            "train_envs_factory": train_envs_factory,
            "initial_weights": initial_weights,
        }
        self._num_parents = max(1, total_parent_workers)
        self._acting_worker: CWorker | None = None
        if num_workers == 0:
            self._acting_worker = CWorker(0, **params, test_envs_factory=test_envs_factory, device=local_device)
        factories = Factories(algo_factory, actor_factory, storage_factory, train_envs_factory, test_envs_factory)
        self._local_worker = self._acting_worker or AgentWorker(
            0, index_parent, factories, initial_weights, local_device
        )
        if num_workers > 0:
            self._check_takes_pieces()
        can_act_as_one = num_workers > 0 and mode == keys.SYNC and fraction_workers == 1.0
        self._is_elastic = can_act_as_one and self._acts_as_one(elastic, num_workers)
        if self._is_elastic:
            params["is_elastic"] = True
        super().__init__(
            CWorker,
            params,
            worker_remote_config,
            num_workers,
            supervision=supervision,
            placement=placement,
            beside=(
                Demand(total_parent_workers, parent_resources),
                Demand((self._num_parents - 1) * num_workers, worker_remote_config),
            ),
        )
        self.collector = self._make_collector(mode, fraction_workers, max_policy_lag)

    @classmethod
    def create_factory(
        cls,
        num_workers: int,
        algo_factory: AlgorithmFactory,
        actor_factory: ActorFactory,
        storage_factory: StorageFactory,
        test_envs_factory: EnvsFactory | None,
        train_envs_factory: EnvsFactory | None,
        total_parent_workers: int = 0,
        col_fraction_samples: float = 1.0,
        compress_data_to_send: bool = False,
        col_worker_resources: Resources | None = None,
        *,
        mode: str = keys.SYNC,
        fraction_workers: float = 1.0,
        max_policy_lag: int | None = None,
        supervision: Supervision | None = None,
        placement: str = DEFAULT,
        parent_resources: Resources | None = None,
        elastic: bool | None = None,
    ) -> "CWorkerSetFactory":
        """Return a function that creates `CWorkerSet` instances, here or in a gradient worker.

        The parameters are those of the class, but for `col_fraction_samples`, its `fraction_samples`, and
        `col_worker_resources`, its `worker_remote_config`.
        """
        parameters = {
            "algo_factory": algo_factory,
            "actor_factory": actor_factory,
            "storage_factory": storage_factory,
            "fraction_samples": col_fraction_samples,
            "total_parent_workers": total_parent_workers,
            "compress_data_to_send": compress_data_to_send,
            "train_envs_factory": train_envs_factory,
            "test_envs_factory": test_envs_factory,
            "worker_remote_config": None if col_worker_resources is None else dict(col_worker_resources),
            "mode": mode,
            "fraction_workers": fraction_workers,
            "max_policy_lag": max_policy_lag,
            "supervision": supervision,
            "placement": placement,
            "parent_resources": parent_resources,
            "elastic": elastic,
        }
        return CWorkerSetFactory(num_workers, parameters)

    def local_worker(self) -> AgentWorker:
        """Return the learner's worker, a `CWorker` if it collects itself."""
        return self._local_worker

    def broadcast(self, command: Command) -> None:
        """Execute a command here, then in all remote workers."""
        self._local_worker.execute(command)
        if not (isinstance(command, ReplaceComponent) and command.component not in _FACTORIES):
            super().broadcast(command)

    def stop(self) -> None:
        """End all workers, and close the environments here."""
        super().stop()
        self._local_worker.stop()

    def _keep(self, command: Command) -> None:
        """Have workers that start later execute a command; those have a new component from the start."""
        if not isinstance(command, ReplaceComponent):
            super()._keep(command)
            return
        self.worker_params[_FACTORIES[command.component]] = command.factory
        outdated = _COMMANDS_OF.get(command.component)
        self._commands = {key: each for key, each in self._commands.items() if type(each) is not outdated}

    def _make_collector(self, mode: str, fraction_workers: float, max_policy_lag: int | None) -> Collector:
        if self._acting_worker is not None:
            return LocalCollector(self._acting_worker, self._num_parents)
        if mode == keys.ASYNC:
            return AsyncCollector(self._local_worker, self, self._num_parents, max_policy_lag=max_policy_lag)
        return SyncCollector(
            self._local_worker,
            self,
            self._num_parents,
            fraction_workers=fraction_workers,
            is_elastic=self._is_elastic,
        )

    def _check_takes_pieces(self) -> None:
        """Refuse a storage of the user's own that knows nothing of what workers in other processes send."""
        worker = self._local_worker
        if worker.has_train_envs and not hasattr(worker.storage, "append_piece"):
            worker.stop()
            raise ConfigError(
                f"{type(worker.storage).__name__} cannot be filled from other processes; derive it from ReplayBuffer, "
                "or another storage of the library, or leave num_col_workers at 0"
            )

    def _acts_as_one(self, elastic: bool | None, num_workers: int) -> bool:
        """Whether each worker computes actions on as many rows as all have environments, which costs little here."""
        if elastic is not None:
            return elastic
        space = getattr(self._local_worker.actor, "obs_space", None)
        num_rows = num_workers * self._local_worker.envs_train.num_envs
        return space is not None and is_vector(space) and num_rows <= _MAX_ROWS


@dataclass(frozen=True)
class CWorkerSetFactory:
    """Creates the workers that collect for one learner, in its process.

    Attributes
    ----------
    num_workers : int
        Remote workers of each set.
    parameters : mapping
        The other parameters of `CWorkerSet`.
    """

    num_workers: int
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __call__(
        self, device: Device | None = None, initial_weights: Weights | None = None, index_parent: int = 0
    ) -> CWorkerSet:
        """Create the workers of the gradient worker `index_parent`."""
        parameters = {**self.parameters, "local_device": device, "initial_weights": initial_weights}
        return CWorkerSet(self.num_workers, index_parent, **parameters)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items() if value is not None)
        return f"CWorkerSetFactory({self.num_workers}, {given})"
