"""`recollect checkpoints`: list, verify and remove the checkpoints of a run."""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from recollect import units
from recollect.cli.parsing import CommandParser, count
from recollect.errors import StorageError

if TYPE_CHECKING:
    from recollect.runs.checkpointing.checkpoints import Checkpoints

_EXAMPLES: Final = """\
  recollect checkpoints runs/pendulum-sac-1                    list them
  recollect checkpoints runs/pendulum-sac-1 --verify           read every file and compare checksums
  recollect checkpoints runs/pendulum-sac-1 --keep 1           remove all but the newest
  recollect checkpoints runs/pendulum-sac-1 --max-age-days 7   remove those that are older

The newest checkpoint is never removed."""


def make_parser() -> CommandParser:
    """Make the parser of `recollect checkpoints`."""
    parser = CommandParser("checkpoints", "List, verify and remove the checkpoints of a run.", _EXAMPLES)
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--verify", action="store_true", help="compare all files with their checksums")
    parser.add_argument("--keep", type=count, metavar="N", help="remove all but the newest N")
    parser.add_argument("--max-age-days", type=count, metavar="DAYS", help="remove those that are older")
    return parser


def run(options: argparse.Namespace) -> int:
    """List the checkpoints of a run; 1 if one of them was verified and is damaged."""
    from recollect.files.lock import FolderLock
    from recollect.runs.directory import RunDirectory

    directory = RunDirectory.open(options.run)
    checkpoints = directory.checkpoints
    if options.keep is not None or options.max_age_days is not None:
        oldest_s = None if options.max_age_days is None else options.max_age_days * units.DAY_S
        with FolderLock(directory.path):
            for path in checkpoints.prune(options.keep or len(checkpoints.paths()), oldest_s):
                print(f"removed {path.name}")
    are_whole = True
    for each in (checkpoints, directory.best):
        for path in each.paths():
            text, is_whole = _describe(each, path, verify=options.verify)
            are_whole &= is_whole
            print(f"{path.relative_to(directory.path)}  {text}")
    return 0 if are_whole else 1


def _describe(checkpoints: "Checkpoints", path: Path, *, verify: bool) -> tuple[str, bool]:
    """One line on a checkpoint, and whether it is whole as far as was looked."""
    from recollect.runs.checkpointing.commit import read_commit

    try:
        commit = checkpoints.check(path) if verify else read_commit(path)
    except StorageError as error:
        return f"damaged: {error}", False
    written = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(commit.written_at))
    replay = "no replay" if commit.replay is None else f"replay of {commit.replay.num_stored:,} transitions"
    return f"{commit.num_steps:,} steps, {written}, {replay}, {commit.promise}{', whole' if verify else ''}", True
