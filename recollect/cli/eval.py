"""`recollect eval`: evaluate a trained agent, and record videos of it."""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from recollect import keys
from recollect.cli.parsing import CommandParser, count, whole_number
from recollect.cli.summary import free_path
from recollect.config import RunConfig, build
from recollect.config.parts import ENV
from recollect.errors import ConfigError

if TYPE_CHECKING:
    import gymnasium as gym

    from recollect.scheme.scheme import Scheme

_EXAMPLES: Final = """\
  recollect eval runs/pendulum-sac-1                  100 episodes without exploration
  recollect eval runs/pendulum-sac-1 --episodes 20 --seed 7
  recollect eval runs/pendulum-sac-1 --record 3       three episodes as videos in runs/pendulum-sac-1/videos"""
_VIDEOS: Final = "videos"
_FRAMES: Final = "rgb_array"
_EXTRA: Final = "need the extra 'video': pip install \"recollect[video]\""


def make_parser() -> CommandParser:
    """Make the parser of `recollect eval`."""
    parser = CommandParser("eval", "Evaluate a trained agent, and record videos of it.", _EXAMPLES)
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--episodes", type=count, default=100, metavar="N", help="episodes to evaluate over (100)")
    parser.add_argument("--seed", type=whole_number, metavar="N", help="seed of the environments (that of the run)")
    parser.add_argument("--record", type=count, nargs="?", const=1, metavar="N", help="record N episodes as videos (1)")
    return parser


def run(options: argparse.Namespace) -> int:
    """Evaluate the newest checkpoint of a run."""
    from recollect.runs.checkpoints import read_checkpoint
    from recollect.runs.directory import RunDirectory

    directory = RunDirectory.open(options.run)
    checkpoint = directory.checkpoints.newest()
    config = RunConfig.from_document(directory.config)
    config = config if options.seed is None else replace(config, seed=options.seed)
    scheme = build(replace(config, scheme_options={}))
    try:
        read_checkpoint(checkpoint, scheme.actor)
        print(f"evaluation: {scheme.col_worker.evaluate_episodes(options.episodes)}")
        if options.record:
            print(f"videos: {_record(scheme, config, directory.path, options.record)}")
    finally:
        scheme.stop()
    return 0


def _record(scheme: "Scheme", config: RunConfig, folder: Path, num_episodes: int) -> Path:
    """Run episodes in an environment that records them, and return the folder of the videos."""
    from recollect.agent.envs import VecEnv
    from recollect.agent.envs.factory import VecEnvFactory
    from recollect.scheme.collection.worker.evaluation import evaluate

    # Frames are rendered into memory; without a screen, SDL would fail to open one.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    _check_renders(config)
    folder = free_path(folder, _VIDEOS)
    kwargs = {"config": config, "folder": str(folder), "num_episodes": num_episodes}
    factory = VecEnvFactory(vec_env_class=VecEnv, env_fn=_recorded, env_kwargs=kwargs, seed=config.seed)
    envs = factory(scheme.col_worker.device, mode=keys.TEST)
    try:
        evaluate(scheme.algo, scheme.actor, envs, num_episodes)
    finally:
        envs.close()
    return folder


def _check_renders(config: RunConfig) -> None:
    """Render one frame, so that a missing dependency shows now and not in the middle of an episode."""
    from gymnasium.error import DependencyNotInstalled

    from recollect.agent.envs.catalog import make_env

    env = make_env(config.env, **config.options(ENV))
    modes = env.metadata.get("render_modes", [])
    env.close()
    if _FRAMES not in modes:
        raise ConfigError(f"{config.env} cannot be recorded: it has no render mode {_FRAMES!r}, only {modes}")
    env = make_env(config.env, **_rendering(config))
    try:
        env.reset()
        env.render()
    except DependencyNotInstalled as error:
        # Gymnasium names an extra of its own; our extra for videos has what renders most of its environments.
        reason = f"frames {_EXTRA}" if "pygame" in str(error) else str(error)
        raise ConfigError(f"{config.env} cannot be recorded: {reason}") from error
    finally:
        env.close()


def _rendering(config: RunConfig) -> dict[str, Any]:
    """Options of an environment that renders frames, whatever it was trained with."""
    return config.options(ENV) | {"render_mode": _FRAMES}


def _recorded(config: RunConfig, folder: str, num_episodes: int) -> "gym.Env[Any, Any]":
    """Make an environment that records its first episodes."""
    from gymnasium.error import DependencyNotInstalled
    from gymnasium.wrappers import RecordVideo

    from recollect.agent.envs.catalog import make_env

    env = make_env(config.env, **_rendering(config))
    try:
        return RecordVideo(env, folder, episode_trigger=lambda number: number < num_episodes)
    except DependencyNotInstalled as error:
        env.close()
        raise ConfigError(f"videos {_EXTRA}") from error
