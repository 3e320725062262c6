"""Videos of episodes, recorded by an environment that renders every frame."""

import inspect
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
from gymnasium.error import DependencyNotInstalled
from gymnasium.wrappers import RecordVideo

from recollect import keys
from recollect.agent.envs.factory import VecEnvFactory
from recollect.agent.envs.rendering import choose_renderer
from recollect.errors import ConfigError
from recollect.extras import the_extra
from recollect.scheme.collection.worker.evaluation import Evaluation, evaluate
from recollect.scheme.scheme import Scheme

_FRAMES: Final = "rgb_array"
_NEED: Final = f"need {the_extra('video')}"


def record_videos(scheme: Scheme, folder: Path, num_episodes: int) -> Evaluation:
    """Act without exploration for some episodes, in an environment that records them in a folder."""
    check_renders(scheme)
    # A new environment for each recording: its seed is the same, whatever was recorded before.
    kwargs = {"factory": _test_envs(scheme), "folder": str(folder), "num_episodes": num_episodes}
    factory = replace(
        _test_envs(scheme), env_fn=_recorded, env_kwargs=kwargs, vec_env_size=1, kind=keys.SYNC, wrappers=()
    )
    envs = factory(scheme.col_worker.device, mode=keys.TEST)
    try:
        return evaluate(scheme.algo, scheme.actor, envs, num_episodes)
    finally:
        envs.close()


def check_renders(scheme: Scheme) -> None:
    """Render one frame, so that a missing dependency shows now and not in the middle of an episode."""
    # Frames are rendered into memory; without a screen, SDL would fail to open one.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    factory = _test_envs(scheme)
    name = factory.env_fn if isinstance(factory.env_fn, str) else getattr(factory.env_fn, "__name__", "the environment")
    if not _takes_render_mode(factory.env_fn):
        raise ConfigError(
            f"{name} cannot be recorded: it takes no render_mode; let it take one and give it to the environment that "
            "it makes"
        )
    env = _make(factory)
    modes = env.metadata.get("render_modes", [])
    env.close()
    if _FRAMES not in modes:
        raise ConfigError(f"{name} cannot be recorded: it has no render mode {_FRAMES!r}, only {modes}")
    choose_renderer(env)
    env = _make(factory, render_mode=_FRAMES)
    try:
        env.reset()
        env.render()
    except DependencyNotInstalled as error:
        # Gymnasium names an extra of its own; our extra for videos has what renders most of its environments.
        reason = f"frames {_NEED}" if "pygame" in str(error) else str(error)
        raise ConfigError(f"{name} cannot be recorded: {reason}") from error
    finally:
        env.close()


def _takes_render_mode(env_fn: object) -> bool:
    """Whether an environment can be asked how to render; of a function without a signature, it shows when called."""
    if not callable(env_fn):
        return True
    try:
        inspect.signature(env_fn).bind_partial(render_mode=_FRAMES)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _test_envs(scheme: Scheme) -> VecEnvFactory:
    factory = scheme.col_worker.factories.envs_test
    if not isinstance(factory, VecEnvFactory):
        raise ConfigError(f"videos need test environments of VecEnv.create_factory, got {factory!r}")
    return factory


def _make(factory: VecEnvFactory, **options: object) -> gym.Env[Any, Any]:
    """One environment of a factory, with some other options."""
    single = replace(factory, env_kwargs={**factory.env_kwargs, **options}, kind=keys.SYNC)
    return single.build_one(is_training=False)()


def _recorded(factory: VecEnvFactory, folder: str, num_episodes: int) -> gym.Env[Any, Any]:
    """Make an environment that records its first episodes."""
    env = _make(factory, render_mode=_FRAMES)
    try:
        return RecordVideo(env, folder, episode_trigger=lambda number: number < num_episodes)
    except DependencyNotInstalled as error:
        env.close()
        raise ConfigError(f"videos {_NEED}") from error
