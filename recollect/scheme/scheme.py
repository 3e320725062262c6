"""`Scheme`: builds the workers that train an agent together."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recollect import keys
from recollect.checks import check_count
from recollect.roles import (
    ActorFactory,
    AlgorithmFactory,
    ComponentFactory,
    Device,
    EnvsFactory,
    GradientSource,
    StorageFactory,
)
from recollect.scheme.base import engine
from recollect.scheme.base.commands import (
    ReplaceComponent,
    SetAlgorithmParameter,
    SetNumCollectors,
    SetStorageParameter,
)
from recollect.scheme.base.resources import Demand
from recollect.scheme.collection.agent_worker import AgentWorker, SharedComponents
from recollect.scheme.collection.c_worker import CWorker
from recollect.scheme.collection.c_worker_set import CWorkerSet, CWorkerSetFactory
from recollect.scheme.collection.collectors.collector import check_num_workers
from recollect.scheme.collection.worker.acting import GAP
from recollect.scheme.collection.worker.components import Factories
from recollect.scheme.config import SchemeConfig
from recollect.scheme.gradients.async_source import AsyncGradientSource
from recollect.scheme.gradients.g_worker import GWorker
from recollect.scheme.gradients.g_worker_set import GWorkerSet
from recollect.scheme.gradients.status import GradientStatus
from recollect.scheme.gradients.sync_source import SyncGradientSource
from recollect.scheme.stages import check_compatibility
from recollect.scheme.updates.all_reduce import PeerWorker
from recollect.scheme.updates.peers import PeerGradientSource
from recollect.scheme.updates.u_worker import UWorker


class Scheme(SharedComponents):
    """The workers of a training: those that collect, those that compute gradients, and one that applies them.

    By default there is one of each, all in this process. Each kind can run elsewhere, on Ray, and the agent is
    the same wherever they are.

    Parameters
    ----------
    algo_factory : callable
        Creates the algorithm: `algo_factory(device, actor, envs)`.
    actor_factory : callable
        Creates the actor: `actor_factory(device)`.
    storage_factory : callable
        Creates the storage: `storage_factory(device, actor, algo, envs)`.
    train_envs_factory : callable
        Creates the environments to learn in: `train_envs_factory(device, index_worker, index_parent)`.
    test_envs_factory : callable, optional
        Creates those to evaluate in, called with `"test"` as well.
    device : torch.device or str, optional
        Where to compute; by default a GPU if there is one.
    **options
        Which workers there are and where, see `SchemeConfig`.

    Attributes
    ----------
    config : SchemeConfig
        The options.
    factories : Factories
        As given.
    gradients : GradientSource
        The gradient workers, here or elsewhere.
    update_worker : UWorker
        The worker that applies updates.
    num_col_workers : int
        Remote workers that collect for each gradient worker now.

    Examples
    --------
    >>> from recollect import OffPolicyActor, PERBuffer, SAC, VecEnv
    >>> envs, action_space, obs_space = VecEnv.create_factory("Pendulum-v1")
    >>> scheme = Scheme(
    ...     SAC.create_factory(start_steps=100, update_every=4),
    ...     OffPolicyActor.create_factory(obs_space, action_space, SAC),
    ...     PERBuffer.create_factory(1000, n_step=3, alpha=0.6),
    ...     envs,
    ...     device="cpu",
    ... )
    >>> scheme.update_worker.step()
    >>> scheme.num_steps, scheme.num_updates
    (4, 0)
    """

    def __init__(
        self,
        algo_factory: AlgorithmFactory,
        actor_factory: ActorFactory,
        storage_factory: StorageFactory,
        train_envs_factory: EnvsFactory,
        test_envs_factory: EnvsFactory | None = None,
        device: Device | None = None,
        **options: object,
    ) -> None:
        self.config = SchemeConfig.of("a scheme", options, others=("device",))
        check_compatibility(self.config, algo_factory, storage_factory)
        factories = Factories(algo_factory, actor_factory, storage_factory, train_envs_factory, test_envs_factory)
        self.factories = factories
        # Has the actor and the algorithm that gradients from elsewhere are applied to.
        learner = AgentWorker(0, 0, factories, device=device) if self.config.num_grad_workers else None
        col_workers = _col_workers_factory(self.config, factories)
        self._has_joined = self.config.is_remote and engine.connect(self.config.ray_address, self.config.runtime_env)
        try:
            self.gradients: GradientSource = (
                GWorker(0, col_workers, device, replay_ratio=self.config.replay_ratio, overlap=self.config.overlap)
                if learner is None
                else _remote_gradients(self.config, learner, col_workers, device)
            )
        except BaseException:
            self._leave()
            raise
        self.col_worker = self.gradients.col_worker
        self.update_worker = UWorker(0, self.gradients)
        self.num_col_workers = self.config.num_col_workers

    def __repr__(self) -> str:
        parts = f"{type(self.algo).__name__}, {type(self.storage).__name__}, num_envs={self.num_envs}"
        shown = (parts, self.config.summary(), f"num_steps={self.num_steps}")
        return f"Scheme({', '.join(filter(None, shown))})"

    @property
    def num_envs(self) -> int:
        """Train environments of each worker that collects."""
        return int(self.col_worker.envs_train.num_envs)

    @property
    def num_steps(self) -> int:
        """Transitions collected, over all workers."""
        return self.gradients.num_steps

    @property
    def num_updates(self) -> int:
        """Updates applied."""
        return self.update_worker.num_updates

    def status(self) -> GradientStatus:
        """How the collection stands, over all workers."""
        return self.gradients.status()

    @property
    def resume_gap(self) -> str | None:
        """Why a run that is resumed begins new episodes; None if it continues those that it was saved in."""
        return _gap_in(self.col_worker.episodes_state())

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs beside the actor's weights and the storage."""
        return {
            "collection": self.gradients.state(),
            "episodes": self.col_worker.episodes_state(),
            "updates": self.update_worker.state(),
            "generator": self.actor.generator.get_state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from `state`; the actor must have its weights by now."""
        self.update_worker.load_state(state["updates"])
        self.gradients.load_state(state["collection"])
        self.col_worker.load_episodes(state["episodes"])
        self.actor.generator.set_state(state["generator"])

    def save_storage(self, folder: Path, name: str = "") -> None:
        """Write what is stored into a folder under a name, each time only what is new.

        Gradient workers elsewhere write theirs from where they are, so that the folder must be on a file
        system that they share.
        """
        self.capture_storage(folder, name)()

    def capture_storage(self, folder: Path, name: str = "") -> Callable[[], None]:
        """Copy what `save_storage` would write, and return the function that writes it, for any thread to call.

        Gradient workers elsewhere have written theirs by then: they do not wait for this process.
        """
        return self.gradients.capture_storage(folder, name)

    def load_storage(self, folder: Path, name: str = "") -> None:
        """Read what was stored under a name; where there is nothing, learning waits for `start_steps` new steps."""
        self.gradients.load_storage(folder, name)

    def update_algorithm_parameter(self, parameter_name: str, new_parameter_value: object) -> None:
        """Change a parameter of the algorithm on all workers; returns when all have."""
        self.update_worker.execute(SetAlgorithmParameter(parameter_name, new_parameter_value))

    def update_storage_parameter(self, parameter_name: str, new_parameter_value: object) -> None:
        """Change a parameter of the storage on all workers; returns when all have."""
        self.update_worker.execute(SetStorageParameter(parameter_name, new_parameter_value))

    def replace_agent_component(self, component_name: str, new_component_factory: ComponentFactory) -> None:
        """Replace a component on all workers, see `CWorker.replace_agent_component`; returns when all have."""
        self.update_worker.execute(ReplaceComponent(component_name, new_component_factory))

    def add_col_workers(self, num_workers: int = 1) -> None:
        """Add remote workers that collect for each gradient worker."""
        self._set_num_col_workers(self.num_col_workers + check_count("num_workers", num_workers))

    def remove_col_workers(self, num_workers: int = 1) -> None:
        """Remove remote workers that collect for each gradient worker; one must stay."""
        self._set_num_col_workers(self.num_col_workers - check_count("num_workers", num_workers))

    def stop(self) -> None:
        """Close the environments and end all remote workers; a Ray cluster of the scheme's own ends too."""
        self.update_worker.stop()
        self._leave()

    def _set_num_col_workers(self, num_workers: int) -> None:
        check_num_workers(num_workers, self.num_col_workers)
        self.update_worker.execute(SetNumCollectors(num_workers))
        self.num_col_workers = num_workers

    def _leave(self) -> None:
        if self._has_joined:
            self._has_joined = False
            engine.disconnect()


def resume_gap(state: Mapping[str, Any]) -> str | None:
    """Why a run that is resumed from `Scheme.state` begins new episodes, see `Scheme.resume_gap`."""
    return _gap_in(state["episodes"])


def _gap_in(episodes: Mapping[str, Any]) -> str | None:
    gap: str | None = episodes[keys.TRAIN].get(GAP)
    return gap


def _col_workers_factory(config: SchemeConfig, factories: Factories) -> CWorkerSetFactory:
    return CWorkerSet.create_factory(
        config.num_col_workers,
        factories.algo,
        factories.actor,
        factories.storage,
        None if config.num_grad_workers else factories.envs_test,
        factories.envs_train,
        config.num_grad_workers,
        config.fraction_samples,
        config.compress,
        config.col_resources,
        fraction_workers=config.fraction_workers,
        mode=config.col_mode,
        max_policy_lag=config.max_policy_lag,
        supervision=config.supervision,
        placement=config.placement,
        parent_resources=config.grad_resources,
        elastic=config.elastic,
    )


def _remote_gradients(
    config: SchemeConfig, learner: AgentWorker, col_workers_factory: CWorkerSetFactory, device: Device | None
) -> GradientSource:
    is_decentralised = config.update_mode == keys.DECENTRALISED
    # Updates that are made here, of the gradients of all workers, are counted here.
    is_averaged = not is_decentralised and config.grad_mode == keys.SYNC
    # What Ray refuses is refused here, and not in each of the gradient workers.
    CWorker.as_remote(**(config.col_resources or {}))
    workers = GWorkerSet(
        config.num_grad_workers,
        col_workers_factory,
        device,
        worker_class=PeerWorker if is_decentralised else GWorker,
        replay_ratio=None if is_averaged else config.replay_ratio,
        journal_folder=config.journal_folder,
        worker_remote_config=config.grad_resources,
        supervision=config.supervision,
        placement=config.placement,
        beside=(Demand(config.num_grad_workers * config.num_col_workers, config.col_resources),),
    )
    if is_decentralised:
        return PeerGradientSource(learner, workers)
    if config.grad_mode == keys.ASYNC:
        return AsyncGradientSource(learner, workers, config.max_policy_lag)
    return SyncGradientSource(learner, workers, config.replay_ratio)
