"""Ready factories: envs by id, from Gymnasium and the packages that register theirs with it."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final, NamedTuple

import gymnasium as gym
from gymnasium.wrappers import AtariPreprocessing, ClipReward, FlattenObservation, FrameStackObservation, StickyAction

from recollect import keys
from recollect.agent.envs.failures import describe
from recollect.agent.envs.step import VectorEnv
from recollect.agent.registry import ENVS, NOT_IMPORTABLE, is_reference
from recollect.errors import ConfigError, closest
from recollect.extras import the_extra
from recollect.roles import EnvFunction

_ATARI_PREFIX: Final = "ALE/"
_ATARI_ENTRY_POINT: Final = "ale_py"
# Ids of older versions, which ale-py registers too.
_OLD_ATARI: Final = "NoFrameskip-v"
_STACK_SIZE: Final = 4
_STICKY: Final = "repeat_action_probability"
# What vector envs of Atari games call the number of frames of a stack.
_VECTOR_STACK: Final = "stack_num"
_SUITE_PREFIX: Final = "dm_control/"
_ROBOTICS_PREFIXES: Final = ("Fetch", "Hand", "AntMaze", "PointMaze", "Adroit", "Franka")


class _Aids(NamedTuple):
    """Options by which Atari games differ in training: clipped rewards, and episodes that end with a life."""

    clip: str
    life: str

    def choose(self, options: Mapping[str, Any], *, is_training: bool) -> dict[str, Any]:
        """Clip rewards in training unless the options say otherwise, and score the game as it is in tests."""
        return {self.clip: True, **options} if is_training else {**options, self.clip: False, self.life: False}


# One game has other names for them in each kind of env.
_AIDS: Final = _Aids("clip_rewards", "terminal_on_life_loss")
_NATIVE_AIDS: Final = _Aids("reward_clipping", "episodic_life")
_POOL_AIDS: Final = _Aids("reward_clip", "episodic_life")

# Modules that envs need, by the extra that brings them; the first one registers envs with Gymnasium.
_MODULES: Final = {
    "atari": ("ale_py", "cv2"),
    "robotics": ("gymnasium_robotics", "mujoco"),
    "dmc": ("shimmy", "dm_control"),
    "mujoco": ("mujoco",),
    "box2d": ("Box2D",),
    "envpool": ("envpool",),
}
# Parts of Gymnasium's own entry points that tell which extra an env needs.
_ENTRY_POINTS: Final = {"gymnasium.envs.mujoco": "mujoco", "gymnasium.envs.box2d": "box2d"}


def make_env(env_id: str, **options: Any) -> gym.Env[Any, Any]:
    """Make one env by its id, with what such envs usually need.

    Atari games get the standard preprocessing, see `make_atari`. Tasks of the DeepMind Control Suite give their
    observations as one vector. They and Gymnasium-Robotics tasks are registered when one is asked for.

    Parameters
    ----------
    env_id : str
        For instance "CartPole-v1", "HalfCheetah-v5", "ALE/Pong-v5", "FetchReach-v4", "dm_control/walker-walk-v0";
        or "module:id" of a module that registers its envs when it is imported.
    **options
        Handed to `gymnasium.make`, for instance `render_mode`.

    Raises
    ------
    ConfigError
        If there is no such env, the extra that it needs is not installed, or it cannot be made with the options.
    """
    if _is_atari(env_id):
        return make_atari(env_id, **options)
    env = _make(env_id, options)
    return FlattenObservation(env) if env_id.startswith(_SUITE_PREFIX) else env


def make_for(is_training: bool, env_id: str, **options: Any) -> gym.Env[Any, Any]:
    """Make an env to train in, or one to evaluate in: whole Atari games with their own rewards."""
    return make_env(env_id, **_AIDS.choose(options, is_training=is_training) if _is_atari(env_id) else options)


def make_atari(
    env_id: str,
    *,
    frame_skip: int = 4,
    screen_size: int = 84,
    stack_size: int = _STACK_SIZE,
    noop_max: int = 30,
    terminal_on_life_loss: bool = False,
    clip_rewards: bool = False,
    repeat_action_probability: float | None = None,
    **options: Any,
) -> gym.Env[Any, Any]:
    """Make an Atari game as Mnih et al. (2015) prepare it: uint8 `[stack_size, screen_size, screen_size]`.

    Parameters
    ----------
    env_id : str
        For instance "ALE/Pong-v5", or "PongNoFrameskip-v4".
    frame_skip, screen_size, noop_max, terminal_on_life_loss
        As in `gymnasium.wrappers.AtariPreprocessing`.
    stack_size : int
        How many frames one observation has, the newest last.
    clip_rewards : bool
        Whether rewards are clipped to [-1, 1], as usual in training; `VecEnv` does so there.
    repeat_action_probability : float, optional
        How likely a frame is played with the action of the one before (sticky actions); by default as the id says.
    **options
        Handed to `gymnasium.make`.
    """
    chance = (
        find_env(env_id).kwargs.get(_STICKY, 0.0) if repeat_action_probability is None else repeat_action_probability
    )
    # The emulator's own repetition depends on an action that its saved state lacks.
    game = _make(env_id, {**options, "frameskip": 1, _STICKY: 0.0})
    screen = AtariPreprocessing(
        StickyAction(game, chance) if chance else game,
        noop_max=noop_max,
        frame_skip=frame_skip,
        screen_size=screen_size,
        terminal_on_life_loss=terminal_on_life_loss,
    )
    return FrameStackObservation(ClipReward(screen, -1.0, 1.0) if clip_rewards else screen, stack_size)


def frame_stack_of(env_id: str, kind: str, options: Mapping[str, Any]) -> int | None:
    """How many frames observations of an env by id are stacks of, for a storage to keep each once; None if of none."""
    if kind == keys.ENVPOOL:
        depth = getattr(_envpool_of(env_id).make_spec(env_id, **options).config, _VECTOR_STACK, 1)
    elif _is_atari(env_id):
        depth = options.get(_VECTOR_STACK if kind == keys.NATIVE else "stack_size", _STACK_SIZE)
    else:
        depth = 1
    return int(depth) if depth > 1 else None


def make_native(env_id: str, *, num_envs: int, is_training: bool = True, **options: Any) -> VectorEnv:
    """Make the vector env that a task brings itself, where it has one."""
    if find_env(env_id).vector_entry_point is None:
        raise ConfigError(f"{env_id} has no vector env of its own; use the kind 'sync' or 'async'")
    if _is_atari(env_id):
        options = _NATIVE_AIDS.choose(options, is_training=is_training)
    with _explained(env_id, options):
        vector = gym.make_vec(env_id, num_envs, vectorization_mode="vector_entry_point", **options)
    shared = gym.vector.VectorEnv.metadata
    if vector.metadata is shared:
        # ale-py writes there how it begins new episodes, and those that say nothing would seem to do the same.
        vector.metadata = dict(shared)
        shared.pop(keys.AUTORESET_MODE, None)
    return vector


def make_pool(task_id: str, *, num_envs: int, seed: list[int], is_training: bool = True, **options: Any) -> Any:
    """Make a pool of EnvPool's envs."""
    envpool = _envpool_of(task_id)
    with _explained(task_id, options):
        if hasattr(envpool.make_spec(task_id, **options).config, _POOL_AIDS.clip):
            options = _POOL_AIDS.choose(options, is_training=is_training)
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
            gym.register_envs(_import(module))
        spec = _spec(name)
    except ImportError as error:
        raise ConfigError(f"{env_id!r} names a module that cannot be imported: {error}") from error
    except gym.error.Error:
        told = f": {module} neither has nor registers {name!r}" if is_reference(env_id) else ""
        raise ConfigError(f"there is no env {env_id!r}{told}; {_hint(env_id, gym.registry)}") from None
    for prefix, needed in _ENTRY_POINTS.items():
        if str(spec.entry_point).startswith(prefix):
            _require(env_id, needed)
    return spec


def find_function(env: str | EnvFunction) -> str | EnvFunction:
    """The function that a registered name, or `module:Name`, leads to; ids of Gymnasium and functions stay."""
    if not isinstance(env, str):
        return env
    if not is_reference(env):
        is_ours = ENVS.spelled(env) in ENVS or env.startswith(NOT_IMPORTABLE)
        return ENVS.find(env) if is_ours else env
    module, _, name = env.partition(":")
    try:
        is_function = hasattr(import_module(module), name.partition(".")[0]) and name not in gym.registry
    except ImportError as error:
        raise ConfigError(f"{env!r} names a module that cannot be imported: {error}") from error
    return ENVS.find(env) if is_function else env


def _import(module: str) -> ModuleType:
    """Import what registers envs; dm_control warns then of a screen that is missing, which only rendering needs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*DISPLAY environment variable")
        return import_module(module)


def _make(env_id: str, options: dict[str, Any]) -> gym.Env[Any, Any]:
    # Gymnasium's checker runs at every step; VecEnv and storages check what they take.
    with _explained(env_id, options):
        return gym.make(env_id, **{"disable_env_checker": True, **options})


@contextmanager
def _explained(env_id: str, options: Mapping[str, Any]) -> Iterator[None]:
    """Let whatever is raised in making an env say which one it was, and with which options."""
    try:
        yield
    except TypeError as error:
        # Gymnasium says behind this once more which options these were.
        reason = str(error).partition(" was raised from")[0]
        raise ConfigError(f"{env_id} does not take the options {dict(options)}: {reason}") from error
    except gym.error.DependencyNotInstalled as error:
        raise ConfigError(f"{env_id} needs a package that is not installed: {error}") from error
    except Exception as error:
        raise ConfigError(f"{env_id} cannot be made with the options {dict(options)}: {describe(error)}") from error


def _spec(name: str) -> gym.envs.registration.EnvSpec:
    """Find an env in the registry; ale-py has ids of older games that do not tell where they come from."""
    try:
        return gym.spec(name)
    except gym.error.Error:
        if find_spec(_ATARI_ENTRY_POINT) is None:
            raise
    gym.register_envs(import_module(_ATARI_ENTRY_POINT))
    return gym.spec(name)


def _is_atari(env_id: str) -> bool:
    return str(find_env(env_id).entry_point).startswith(_ATARI_ENTRY_POINT)


def _envpool_of(task_id: str) -> Any:
    """Load EnvPool; refuses an id that it does not have."""
    _require(task_id, "envpool")
    envpool = import_module("envpool")
    known = envpool.list_all_envs()
    if task_id not in known:
        raise ConfigError(f"EnvPool has no env {task_id!r}; {_hint(task_id, known)}")
    return envpool


def _extra_by_name(env_id: str) -> str | None:
    """The extra whose package registers an env of this name; None if Gymnasium or the user does."""
    if env_id.startswith(_ATARI_PREFIX) or _OLD_ATARI in env_id:
        return "atari"
    if env_id.startswith(_SUITE_PREFIX):
        return "dmc"
    if env_id not in gym.registry and env_id.startswith(_ROBOTICS_PREFIXES):
        return "robotics"
    return None


def _require(env_id: str, extra: str) -> None:
    if any(find_spec(module) is None for module in _MODULES[extra]):
        raise ConfigError(f"{env_id} needs {the_extra(extra)}")


def _hint(name: str, known: Iterable[str]) -> str:
    hint = closest(name, known)
    return hint if hint.startswith("did you mean") else "`gymnasium.pprint_registry()` shows those that there are"
