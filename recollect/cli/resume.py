"""`recollect resume`: a run goes on from its newest checkpoint."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Final

from recollect.cli.parsing import CommandParser, count
from recollect.config import RunConfig
from recollect.errors import ConfigError

_EXAMPLES: Final = """\
  recollect resume runs/pendulum-sac-1                   after Ctrl-C or a crash
  recollect resume runs/pendulum-sac-1 --steps 40_000    train longer than was planned

Weights, optimisers, generators, replay and parameters that were changed on the way are as they were; the
environments begin new episodes."""


def make_parser() -> CommandParser:
    """Make the parser of `recollect resume`."""
    parser = CommandParser("resume", "Go on with a run from its newest checkpoint.", _EXAMPLES)
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--steps", type=count, metavar="N", help="train until so many steps in all (as planned)")
    parser.add_argument("--threads", type=count, metavar="N", help="threads of PyTorch (as before)")
    return parser


def run(options: argparse.Namespace) -> int:
    """Go on with a run."""
    from recollect.cli.session import EVALUATION_FILE, go_on
    from recollect.runs.directory import RunDirectory

    directory = RunDirectory.open(options.run)
    directory.checkpoints.newest()
    config = RunConfig.from_document(directory.config)
    changes = {name: getattr(options, name) for name in ("steps", "threads") if getattr(options, name) is not None}
    if "steps" not in changes and (directory.path / EVALUATION_FILE).exists():
        raise ConfigError(f"{options.run} has reached its {config.steps:,} steps; give more with --steps")
    config = replace(config, **changes)
    config.save(directory.config_file)
    return go_on(config, directory.path)
