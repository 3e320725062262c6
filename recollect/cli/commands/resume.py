"""`recollect resume`: resume a run from its newest checkpoint."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Final

from recollect.cli.parsing import CommandParser, count
from recollect.config import RunConfig
from recollect.errors import ConfigError

_EXAMPLES: Final = """\
  recollect resume runs/pendulum-sac-1                   after Ctrl-C or a crash
  recollect resume runs/pendulum-sac-1 --steps 40_000    train longer than configured

Restores weights, optimisers, random generators, replay and changed parameters. Episodes in progress continue if the
state of the environments can be saved; otherwise new ones begin. `recollect checkpoints RUN` says which."""


def make_parser() -> CommandParser:
    """Make the parser of `recollect resume`."""
    parser = CommandParser("resume", "Resume a run from its newest checkpoint.", _EXAMPLES)
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--steps", type=count, metavar="N", help="train up to N steps in all (as configured)")
    parser.add_argument("--threads", type=count, metavar="N", help="PyTorch threads (as before)")
    parser.add_trust()
    return parser


def run(options: argparse.Namespace) -> int:
    """Resume a run."""
    from recollect.cli.session import EVALUATION_FILE, resume
    from recollect.runs.directory import RunDirectory

    run = RunDirectory.open(options.run)
    num_done = run.checkpoints.num_steps()
    config = RunConfig.from_document(run.config, trust=options.trust, source=str(run.config_file))
    steps = config.steps if options.steps is None else options.steps
    # A run that was stopped in its last evaluation has done all its steps, and still has to be evaluated.
    is_over = (run.path / EVALUATION_FILE).exists() and steps <= num_done
    if is_over or (options.steps is not None and steps < num_done):
        raise ConfigError(
            f"{options.run} already has {num_done:,} steps, and {steps:,} were asked for; ask for more with --steps"
        )
    threads = config.threads if options.threads is None else options.threads
    return resume(replace(config, steps=steps, threads=threads), run, trust=options.trust)
