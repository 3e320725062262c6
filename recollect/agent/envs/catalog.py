"""Ready factories: envs by id, from Gymnasium and the packages that register theirs with it."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import gymnasium as gym
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from recollect.agent.envs.step import VectorEnv
from recollect.errors import ConfigError, closest

_ATARI_PREFIX: Final = "ALE/"
_ROBOTICS_PREFIXES: Final = ("Fetch", "Hand", "AntMaze", "PointMaze", "Adroit", "Franka")

# Modules that envs need, by the extra that brings them; the first one registers envs with Gymnasium.
_MODULES: Final = {
    "atari": ("ale_py", "cv2"),
    "robotics": ("gymnasium_robotics", "mujoco"),
    "mujoco": ("mujoco",),
    "box2d": ("Box2D",),
    "envpool": ("envpool",),
}
# Parts of Gymnasium's own entry points that tell which extra an env needs.
_ENTRY_POINTS: Final = {"gymnasium.envs.mujoco": "mujoco", "gymnasium.envs.box2d": "box2d"}


def make_env(env_id: str, **options: Any) -> gym.Env[Any, Any]:
    """Make one env by its id, with what such envs usually need.

    Atari games (`ALE/...`) get the standard preprocessing, see `make_atari`. Gymnasium-Robotics tasks are
    registered when one is asked for.

    Parameters
    ----------
    env_id : str
        For instance "CartPole-v1", "HalfCheetah-v5", "ALE/Pong-v5", "FetchReach-v4"; or "module:id" of a
        module that registers its envs when it is imported.
    **options
        Handed to `gymnasium.make`, for instance `render_mode`.

    Raises
    ------
    ConfigError
        If there is no such env, or the extra that it needs is not installed.
    """
    if env_id.startswith(_ATARI_PREFIX):
        return make_atari(env_id, **options)
    find_env(env_id)
    return _make(env_id, options)


def make_atari(
    env_id: str,
    *,
    frame_skip: int = 4,
    screen_size: int = 84,
    stack_size: int = 4,
    noop_max: int = 30,
    terminal_on_life_loss: bool = False,
    **options: Any,
) -> gym.Env[Any, Any]:
    """Make an Atari game as Mnih et al. (2015) prepare it: uint8 `[stack_size, screen_size, screen_size]`.

    Parameters
    ----------
    env_id : str
        For instance "ALE/Pong-v5".
    frame_skip, screen_size, noop_max, terminal_on_life_loss
        As in `gymnasium.wrappers.AtariPreprocessing`.
    stack_size : int
        How many frames one observation has, the newest last.
    **options
        Handed to `gymnasium.make`.
    """
    find_env(env_id)
    game = _make(env_id, {**options, "frameskip": 1})
    screen = AtariPreprocessing(
        game,
        noop_max=noop_max,
        frame_skip=frame_skip,
        screen_size=screen_size,
        terminal_on_life_loss=terminal_on_life_loss,
    )
    return FrameStackObservation(screen, stack_size)


def make_native(env_id: str, *, num_envs: int, **options: Any) -> VectorEnv:
    """Make the vector env that a task brings itself, where it has one."""
    if find_env(env_id).vector_entry_point is None:
        raise ConfigError(f"{env_id} has no vector env of its own; use the kind 'sync' or 'async'")
    return gym.make_vec(env_id, num_envs, vectorization_mode="vector_entry_point", **options)


def make_pool(task_id: str, *, num_envs: int, seed: list[int], **options: Any) -> Any:
    """Make a pool of EnvPool's envs."""
    _require(task_id, "envpool")
    envpool = import_module("envpool")
    known = envpool.list_all_envs()
    if task_id not in known:
        raise ConfigError(f"EnvPool has no env {task_id!r}; {_hint(task_id, known)}")
    return envpool.make_gymnasium(task_id, num_envs=num_envs, seed=seed, **options)


def find_env(env_id: str) -> gym.envs.registration.EnvSpec:
    """Find an env in Gymnasium's registry, after loading what registers it.

    Raises
    ------
    ConfigError
        If there is no such env, or the extra that it needs is not installed.
    """
    module, _, name = env_id.rpartition(":")
    extra = _extra_by_name(name)
    if extra is not None:
        _require(env_id, extra)
        module = module or _MODULES[extra][0]
    try:
        if module:
            gym.register_envs(import_module(module))
        spec = gym.spec(name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{env_id!r} names a module that cannot be imported: {error}") from error
    except gym.error.Error:
        raise ConfigError(f"there is no env {env_id!r}; {_hint(env_id, gym.registry)}") from None
    for prefix, needed in _ENTRY_POINTS.items():
        if str(spec.entry_point).startswith(prefix):
            _require(env_id, needed)
    return spec


def _make(env_id: str, options: dict[str, Any]) -> gym.Env[Any, Any]:
    # Gymnasium's checker looks at every step; VecEnv and storages check what they take.
    try:
        return gym.make(env_id, **{"disable_env_checker": True, **options})
    except TypeError as error:
        # Gymnasium says behind this once more which options these were.
        reason = str(error).partition(" was raised from")[0]
        raise ConfigError(f"{env_id} does not take the options {options}: {reason}") from error
    except gym.error.DependencyNotInstalled as error:
        raise ConfigError(f"{env_id} needs a package that is not installed: {error}") from error


def _extra_by_name(env_id: str) -> str | None:
    """The extra whose package registers an env of this name; None if Gymnasium or the user does."""
    if env_id.startswith(_ATARI_PREFIX):
        return "atari"
    if env_id not in gym.registry and env_id.startswith(_ROBOTICS_PREFIXES):
        return "robotics"
    return None


def _require(env_id: str, extra: str) -> None:
    if any(find_spec(module) is None for module in _MODULES[extra]):
        raise ConfigError(f"{env_id} needs the extra '{extra}': pip install \"recollect[{extra}]\"")


def _hint(name: str, known: Any) -> str:
    hint = closest(name, known)
    return hint if hint.startswith("did you mean") else "`gymnasium.pprint_registry()` shows those that there are"
