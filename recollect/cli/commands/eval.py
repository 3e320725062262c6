"""`recollect eval`: evaluate a trained agent, and record videos of it."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Final

from recollect.cli.parsing import CommandParser, count, whole_number
from recollect.cli.summary import free_path
from recollect.config import build

_EXAMPLES: Final = """\
  recollect eval runs/pendulum-sac-1                  100 episodes without exploration
  recollect eval runs/pendulum-sac-1 --episodes 20 --seed 7
  recollect eval runs/pendulum-sac-1 --best           the agent with the best evaluation, not the last one
  recollect eval runs/pendulum-sac-1 --record 3       three episodes as videos in runs/pendulum-sac-1/videos"""


def make_parser() -> CommandParser:
    """Make the parser of `recollect eval`."""
    parser = CommandParser("eval", "Evaluate a trained agent, and record videos of it.", _EXAMPLES)
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--episodes", type=count, default=100, metavar="N", help="episodes to evaluate over (100)")
    parser.add_argument("--seed", type=whole_number, metavar="N", help="seed of the environments (that of the run)")
    parser.add_argument("--best", action="store_true", help="the agent with the best evaluation, not the last one")
    parser.add_argument("--record", type=count, nargs="?", const=1, metavar="N", help="record N episodes as videos (1)")
    parser.add_trust()
    return parser


def run(options: argparse.Namespace) -> int:
    """Evaluate the newest checkpoint of a run, or its best agent."""
    from recollect.runs.checkpointing.captured_agent import read_checkpoint
    from recollect.runs.directory import RunDirectory, load_config

    directory = RunDirectory.open(options.run)
    checkpoint = directory.checkpoint(best=options.best)
    config = load_config(directory, trust=options.trust)
    config = config if options.seed is None else replace(config, seed=options.seed)
    scheme = build(config)
    try:
        read_checkpoint(checkpoint, scheme.actor)
        print(f"evaluation: {scheme.col_worker.evaluate_episodes(options.episodes)}")
        if options.record:
            from recollect.runs.videos import record_videos

            folder = free_path(directory.path, directory.videos_folder.name)
            record_videos(scheme, folder, options.record)
            print(f"videos: {folder}")
    finally:
        scheme.stop()
    return 0
