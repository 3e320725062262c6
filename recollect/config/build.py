"""Builds the parts of an agent from a config: the one place where they are put together."""

from functools import partial
from typing import TYPE_CHECKING, Any

from recollect.checks import check_device
from recollect.config.parts import ACTOR, ALGO, CALL, ENV, MOST_TRANSITIONS, SCHEME, STORAGE, class_of, is_on_policy
from recollect.config.run_config import RunConfig
from recollect.errors import ConfigError

if TYPE_CHECKING:
    from recollect.roles import EnvFunction
    from recollect.scheme.scheme import Scheme


def name_of(env_fn: "EnvFunction") -> str:
    """Name under which a config keeps a function that makes environments, which a file cannot hold."""
    named: Any = getattr(env_fn, "func", env_fn)  # what a partial is of
    named = named if hasattr(named, "__qualname__") else type(named)
    return f"{named.__module__}.{named.__qualname__}{CALL}"


def build(config: RunConfig, env_fn: "EnvFunction | None" = None) -> "Scheme":
    """Put the parts of an agent together as the config says.

    Parameters
    ----------
    config : RunConfig
        What to build.
    env_fn : callable, optional
        `env_fn(**env_options)` makes an environment, instead of the config's id.
    """
    from recollect.agent.actors import OffPolicyActor, OnPolicyActor
    from recollect.agent.envs import VecEnv
    from recollect.scheme.scheme import Scheme

    if config.device is not None:
        check_device(config.device)
    env = config.env if env_fn is None else env_fn
    _check_env(env)
    algo_factory = class_of(ALGO, config.algo).create_factory(**config.options(ALGO))
    make_envs = partial(
        VecEnv.create_factory,
        env,
        config.options(ENV),
        kind=config.vec,
        seed=config.seed,
        max_consecutive_failures=config.max_consecutive_failures,
    )
    train_envs, action_space, obs_space = make_envs(config.num_envs)
    test_envs, _, _ = make_envs(config.num_test_envs)
    on_policy = is_on_policy(config.algo)
    actor_class = OnPolicyActor if on_policy else OffPolicyActor
    actor_factory = actor_class.create_factory(
        obs_space, action_space, algo_factory, seed=config.seed, **config.options(ACTOR)
    )
    # Where they are not given, the storage's seed and size follow from the run, its stacks from the environments.
    size = algo_factory.config.update_every if on_policy else -(-MOST_TRANSITIONS // config.num_envs)
    follow = {"seed": config.seed, "size": size, "frame_stack": train_envs.frame_stack()}
    storage_factory = class_of(STORAGE, config.storage).create_factory(**follow | config.options(STORAGE))
    return Scheme(
        algo_factory,
        actor_factory,
        storage_factory,
        train_envs,
        test_envs,
        device=config.device,
        **config.options(SCHEME),
    )


def _check_env(env: "str | EnvFunction") -> None:
    """Refuse the name of a function that was not given."""
    if isinstance(env, str) and env.endswith(CALL):
        raise ConfigError(
            f"the environment was made by the function {env}, which a file cannot hold; pass it from Python, "
            "as in Agent.load(folder, env=function)"
        )
