"""The config of an agent that was built from its parts: the inverse of `build`."""

from typing import TYPE_CHECKING, Any

from recollect.agent.registry import ALGORITHMS, ENVS, NAME, STORAGES
from recollect.agent.wrapping import name_wrappers
from recollect.config.files import Document, dump_document
from recollect.config.parts import ACTOR, ALGO, ENV, SCHEME, STORAGE, Option, named_value, options_of
from recollect.errors import ConfigError

if TYPE_CHECKING:
    from recollect.agent.envs import VecEnvFactory
    from recollect.options import Options
    from recollect.scheme.collection.worker.components import Factories
    from recollect.scheme.scheme import Scheme


def describe(scheme: "Scheme", steps: int) -> Document:
    """Config from which `build` makes the same parts as those of a scheme.

    Parameters
    ----------
    scheme : Scheme
        Made from what `create_factory` of our classes, or of classes derived from them, returned.
    steps : int
        Env steps to train for.

    Raises
    ------
    ConfigError
        If a config cannot say what one of the parts is.
    """
    algo, actor, storage, envs, given_test_envs = _check_factories(scheme.factories)
    test_envs = given_test_envs or envs
    document = {
        ALGO: {NAME: ALGORITHMS.name_of(algo.algorithm_class), **_changed(algo.config)},
        ENV: {NAME: ENVS.name_of(envs.env_fn), **envs.env_kwargs},
        ACTOR: {name: value for name, value in _changed(actor.options).items() if name in options_of(ACTOR)},
        STORAGE: {NAME: STORAGES.name_of(storage.storage_class), **_changed(storage.config)},
        SCHEME: _changed(scheme.config),
        "wrappers": name_wrappers(envs.wrappers),
        "seed": envs.seed,
        "steps": steps,
        "num_envs": envs.vec_env_size,
        "vec": envs.kind,
        "max_consecutive_failures": envs.max_consecutive_failures,
        **({} if envs.env_timeout_s is None else {"env_timeout_s": envs.env_timeout_s}),
        "num_test_envs": test_envs.vec_env_size,
    }
    dump_document(document)  # refuses what no file can hold
    return document


def _check_factories(factories: "Factories") -> tuple[Any, ...]:
    """Refuse factories of another make, and those that do not belong together as a config's do."""
    from recollect.agent.actors import ActorFactory, OffPolicyActor, OnPolicyActor
    from recollect.agent.algorithms.factory import AlgorithmFactory
    from recollect.agent.envs import VecEnv, VecEnvFactory
    from recollect.agent.storages import StorageFactory

    parts: tuple[Any, ...] = tuple(factories)
    algo, actor, storage, envs, test_envs = parts
    own = {
        "algo_factory": isinstance(algo, AlgorithmFactory),
        "actor_factory": isinstance(actor, ActorFactory),
        "storage_factory": isinstance(storage, StorageFactory),
        "train_envs_factory": isinstance(envs, VecEnvFactory) and envs.vec_env_class is VecEnv,
    }
    for name, is_ours in own.items():
        if not is_ours:
            raise ConfigError(f"a config cannot describe the {name}, which no create_factory of ours has made")
    if actor.actor_class is not (OnPolicyActor if algo.algorithm_class.is_on_policy else OffPolicyActor):
        raise ConfigError(f"a config cannot describe the actor class {actor.actor_class.__name__}")
    if actor.plan != algo.plan(actor.action_space):
        raise ConfigError("a config cannot describe an actor with other networks than the algorithm plans")
    if test_envs is not None and (not isinstance(test_envs, VecEnvFactory) or _task(test_envs) != _task(envs)):
        raise ConfigError("a config cannot describe test environments of another kind than the train environments")
    return parts


def _task(envs: "VecEnvFactory") -> tuple[object, ...]:
    """What is the same of environments to train and to test in."""
    return envs.vec_env_class, envs.env_fn, envs.env_kwargs, envs.kind, envs.wrappers


def _changed(options: "Options") -> Document:
    """Options that are not the default, as files have them."""
    kinds = options.kinds()
    return {name: named_value(Option(name, None, "", kinds[name]), value) for name, value in options.changed().items()}
