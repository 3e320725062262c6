"""Builds the parts of an agent from a config: the only place that assembles them."""

from dataclasses import replace
from typing import TYPE_CHECKING

from recollect.checks import check_device
from recollect.config.parts import (
    ACTOR,
    ALGO,
    ENV,
    MAX_TRANSITIONS,
    SCHEME,
    STORAGE,
    class_of,
    is_on_policy,
    options_of,
)
from recollect.config.run_config import RunConfig
from recollect.errors import ConfigError, MemoryExplained

if TYPE_CHECKING:
    from recollect.scheme.scheme import Scheme


def build(config: RunConfig) -> "Scheme":
    """Put the parts of an agent together as the config says."""
    with MemoryExplained("what the config asks for"):
        return _assemble(config)


def _assemble(config: RunConfig) -> "Scheme":
    from recollect.agent.actors import OffPolicyActor, OnPolicyActor
    from recollect.agent.envs import VecEnv
    from recollect.scheme.scheme import Scheme

    if config.device is not None and check_device(config.device).type == "meta":
        raise ConfigError(f"device {config.device!r} cannot be used: it holds no numbers; name another")
    algo_factory = class_of(ALGO, config.algo).create_factory(**config.options(ALGO))
    train_envs, action_space, obs_space = VecEnv.create_factory(
        config.env,
        config.options(ENV),
        config.num_envs,
        kind=config.vec,
        seed=config.seed,
        max_consecutive_failures=config.max_consecutive_failures,
        wrappers=config.wrappers,
        env_timeout_s=config.env_timeout_s,
    )
    test_envs = replace(train_envs, vec_env_size=config.num_test_envs)
    on_policy = is_on_policy(config.algo)
    actor_class = OnPolicyActor if on_policy else OffPolicyActor
    actor_factory = actor_class.create_factory(
        obs_space, action_space, algo_factory, seed=config.seed, **config.options(ACTOR)
    )
    # Where they are not given, the storage's seed and size follow from the run, its stacks from the environments.
    size = algo_factory.config.update_every if on_policy else -(-MAX_TRANSITIONS // config.num_envs)
    follow = {"seed": config.seed, "size": size, "frame_stack": train_envs.frame_stack()}
    known = options_of(STORAGE, config.storage)
    options = {name: value for name, value in follow.items() if name in known} | config.options(STORAGE)
    storage_factory = class_of(STORAGE, config.storage).create_factory(**options)
    return Scheme(
        algo_factory,
        actor_factory,
        storage_factory,
        train_envs,
        test_envs,
        device=config.device,
        **config.options(SCHEME),
    )
