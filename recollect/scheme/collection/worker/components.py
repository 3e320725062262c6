"""How a worker's components are exchanged while it runs: what refers to the old one follows."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from recollect import keys
from recollect.agent.envs.spaces import have_same_form
from recollect.errors import ConfigError

if TYPE_CHECKING:
    from recollect.scheme.collection.c_worker import CWorker

Factory = Callable[..., Any]


def _replace_actor(worker: "CWorker", factory: Factory) -> None:
    """The algorithm is created anew with it, because its optimisers hold the weights."""
    worker.actor = worker.make_actor(factory)
    worker.actor_version += 1
    worker.storage.actor = worker.actor
    _replace_algo(worker, worker.algo_factory)
    worker.begin_episodes()


def _replace_algo(worker: "CWorker", factory: Factory) -> None:
    worker.algo = factory(worker.device, worker.actor, worker.envs_train)
    worker.algo_factory = factory
    worker.storage.algorithm = worker.algo


def _replace_storage(worker: "CWorker", factory: Factory) -> None:
    worker.storage = factory(worker.device, worker.actor, worker.algo, worker.envs_train)
    worker.num_steps_lost = worker.num_steps


def _replace_envs_train(worker: "CWorker", factory: Factory) -> None:
    envs = worker.make_envs(factory)
    if envs.num_envs != worker.envs_train.num_envs:
        envs.close()
        raise ConfigError(
            f"the storage is made for {worker.envs_train.num_envs} train environments, got {envs.num_envs}; "
            "make as many"
        )
    _check_spaces(worker, envs)
    worker.envs_train.close()
    worker.envs_train = worker.algo.envs = worker.storage.envs = envs
    worker.train_envs_factory = factory
    worker.begin_episodes()


def _replace_envs_test(worker: "CWorker", factory: Factory) -> None:
    envs = worker.make_envs(factory, keys.TEST)
    _check_spaces(worker, envs)
    if worker.envs_test is not None:
        worker.envs_test.close()
    worker.envs_test = envs


def _check_spaces(worker: "CWorker", envs: Any) -> None:
    """Close and refuse environments that the actor was not made for, where both tell their spaces."""
    actor = worker.actor
    for role, name, expected in (
        ("observations", "observation_space", getattr(actor, "obs_space", None)),
        ("actions", "action_space", getattr(actor, "action_space", None)),
    ):
        space = getattr(envs, name, None)
        if space is not None and expected is not None and not have_same_form(space, expected):
            envs.close()
            raise ConfigError(
                f"the actor is made for {role} in {expected}, got environments with {space}; "
                "make environments of that form, or a new agent"
            )


REPLACEMENTS: Final[dict[str, Callable[["CWorker", Factory], None]]] = {
    keys.ACTOR_COMPONENT: _replace_actor,
    keys.ALGO_COMPONENT: _replace_algo,
    keys.STORAGE_COMPONENT: _replace_storage,
    keys.ENVS_TRAIN_COMPONENT: _replace_envs_train,
    keys.ENVS_TEST_COMPONENT: _replace_envs_test,
}
