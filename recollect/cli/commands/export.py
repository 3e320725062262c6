"""`recollect export`: export the policy of a run."""

import argparse
from pathlib import Path
from typing import Final

from recollect.cli.parsing import CommandParser
from recollect.cli.summary import say

_ABOUT: Final = """\
Export the policy of a run, with a model card: to a file that ends in .onnx, .pt2 (torch.export) or
.safetensors (weights, with a .json beside them), or to a folder as the Hugging Face hub lays models out."""
_EXAMPLES: Final = """\
  recollect export runs/pendulum-sac-1 --to policy.onnx
  recollect export runs/pendulum-sac-1 --to policy.onnx --best --noise
  recollect export runs/pendulum-sac-1 --to pendulum-sac --licence mit
  recollect export runs/pendulum-sac-1 --to-hub me/pendulum-sac"""


def make_parser() -> CommandParser:
    """Make the parser of `recollect export`."""
    parser = CommandParser("export", _ABOUT, _EXAMPLES)
    parser.add_argument("run", type=Path, help="folder of the run")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--to", type=Path, metavar="PATH", help="file or folder to write")
    place.add_argument("--to-hub", metavar="USER/NAME", help="repository of the Hugging Face hub to upload to")
    parser.add_argument("--best", action="store_true", help="the agent with the best evaluation, not the last one")
    parser.add_argument("--noise", action="store_true", help="explore as in training, with noise as an input")
    parser.add_argument("--licence", metavar="NAME", help="licence of the policy, for its card: mit, cc-by-4.0, ...")
    parser.add_trust()
    return parser


def run(options: argparse.Namespace) -> int:
    """Export the newest agent of a run, or its best."""
    from recollect.api import Agent

    with Agent.load(options.run, best=options.best, trust=options.trust) as agent:
        if options.to_hub:
            say(f"uploaded: {agent.push_to_hub(options.to_hub, licence=options.licence)}")
        else:
            say(f"policy: {agent.export(options.to, deterministic=not options.noise, licence=options.licence)}")
    return 0
