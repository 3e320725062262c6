"""`Scheme`: builds the workers that train an agent together."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from recollect.scheme.collection.c_worker import CWorker
from recollect.scheme.gradients.g_worker import GWorker
from recollect.scheme.updates.u_worker import UWorker

Factory = Callable[..., Any]


class Scheme:
    """The workers of a training: one that collects, one that computes gradients, one that applies them.

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
        algo_factory: Factory,
        actor_factory: Factory,
        storage_factory: Factory,
        train_envs_factory: Factory,
        test_envs_factory: Factory | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self.col_worker = CWorker(
            0,
            0,
            algo_factory,
            actor_factory,
            storage_factory,
            train_envs_factory=train_envs_factory,
            test_envs_factory=test_envs_factory,
            device=device,
        )
        self.grad_worker = GWorker(0, self.col_worker)
        self.update_worker = UWorker(0, self.grad_worker)

    @property
    def actor(self) -> Any:
        """The actor that learns."""
        return self.col_worker.actor

    @property
    def algo(self) -> Any:
        """The algorithm."""
        return self.col_worker.algo

    @property
    def storage(self) -> Any:
        """The storage that batches come from."""
        return self.col_worker.storage

    @property
    def num_envs(self) -> int:
        """Train environments."""
        return int(self.col_worker.envs_train.num_envs)

    @property
    def num_steps(self) -> int:
        """Transitions collected."""
        return self.col_worker.num_steps

    @property
    def num_updates(self) -> int:
        """Updates applied."""
        return self.update_worker.num_updates

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs beside the actor's weights and the storage."""
        return {
            "collection": self.col_worker.state(),
            "updates": self.update_worker.state(),
            "generator": self.actor.generator.get_state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`, with new episodes."""
        self.col_worker.load_state(state["collection"])
        self.update_worker.load_state(state["updates"])
        self.actor.generator.set_state(state["generator"])

    def stop(self) -> None:
        """Close the environments."""
        self.update_worker.stop()
