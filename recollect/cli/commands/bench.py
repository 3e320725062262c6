"""`recollect bench`: the benchmarks, which are part of a checkout and not of the package."""

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import recollect
from recollect.cli.parsing import CommandParser
from recollect.errors import ConfigError

_SUITES: Final = {
    "replay": "benchmarks.replay",
    "learn": "benchmarks.learn.command",
    "scaling": "benchmarks.scaling",
}
_ABOUT: Final = "replay: speed of storages; learn: returns that agents reach; scaling: speed with many workers"
_EXAMPLES: Final = """\
  recollect bench replay --quick     storages against those of other libraries
  recollect bench learn --jobs 2     every tuned preset with three to five seeds; completed runs are not repeated
  recollect bench scaling --quick    steps per second with 1, 2 and 4 collection workers
  recollect bench learn --help       the options of a benchmark"""


def make_parser() -> CommandParser:
    """Make the parser of `recollect bench`."""
    parser = CommandParser("bench", "Run the benchmarks of a checkout.", _EXAMPLES)
    parser.add_argument("suite", choices=_SUITES, help=_ABOUT)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="options of the benchmark")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run a benchmark with the rest of the command line."""
    root = Path(recollect.__file__).parents[1]
    if not (root / "benchmarks" / "__init__.py").is_file():
        raise ConfigError(
            "the benchmarks are not part of the installed package; "
            "clone the repository, install it with `pip install -e .` and run the command there"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    suite: Any = import_module(_SUITES[options.suite])
    return int(suite.main(options.arguments) or 0)
