"""`recollect plot`: learning curves."""

import argparse
from pathlib import Path
from typing import Final

from recollect.cli.parsing import CommandParser
from recollect.cli.summary import say

_ABOUT: Final = """\
Draw learning curves, PNG and SVG: a panel for each environment, a curve for each algorithm and storage.
A curve is the interquartile mean over seeds, its band the 95 % bootstrap confidence interval."""
_EXAMPLES: Final = """\
  recollect plot runs/pendulum-sac-1
  recollect plot runs/lunarlander-* --by storage
  recollect plot runs/* --by storage.n_step --out figures/n_step"""


def make_parser() -> CommandParser:
    """Make the parser of `recollect plot`."""
    parser = CommandParser("plot", _ABOUT, _EXAMPLES)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs")
    parser.add_argument("--by", metavar="NAME", help="part or option that tells curves apart: algo, storage.alpha, ...")
    parser.add_argument("--out", type=Path, metavar="FILE", help="files without suffix (curves beside the first run)")
    return parser


def run(options: argparse.Namespace) -> int:
    """Draw the curves of some runs."""
    from recollect.runs.plots import plot_runs

    out = options.out or options.runs[0].parent / "curves"
    # Figures lie beside the runs, where a pattern such as runs/* finds them too.
    files = plot_runs([path for path in options.runs if not path.is_file()] or options.runs, out, options.by)
    say(f"curves: {'   '.join(map(str, files))}")
    return 0
