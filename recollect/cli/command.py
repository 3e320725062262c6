"""Runs the command of a command line and reports errors."""

import errno
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from itertools import chain, dropwhile
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, Final, TextIO

from recollect import __version__, keys
from recollect.errors import CallbackError, ConfigError, PartError, RecollectError, RecollectWarning, closest
from recollect.interrupts import Interrupts, Terminated, exit_code, interruptible

USAGE_ERROR: Final = 2
# What writing to a file that is open already fails with; such errors do not say which file.
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)

# Each command is a module of this package with `make_parser()` and `run(options)`, loaded when it is asked for.
COMMANDS: Final = {
    "train": "train an agent",
    "eval": "evaluate a trained agent, and record videos of it",
    "resume": "resume a run from its newest checkpoint",
    "export": "export the policy: ONNX, torch.export, weights",
    "data": "inspect, convert, merge and slice datasets",
    "checkpoints": "list, verify and remove the checkpoints of a run",
    "tune": "search for hyperparameters",
    "plot": "draw learning curves of one or many runs",
    "list": "show algorithms, storages, presets and all their options",
    "bench": "run the benchmarks of a checkout",
}

_HELP: Final = """\
usage: recollect COMMAND ...

Deep reinforcement learning around an exact, compact and fast experience memory.

commands:
{commands}

first steps:
  recollect train                               train SAC on Pendulum-v1, about two minutes
  recollect train ddqn CartPole-v1              another algorithm, another environment
  recollect train sac Pendulum-v1 --set storage=ere --seeds 5 --jobs 2
  recollect eval runs/pendulum-sac-1 --record   evaluate it, and record a video
  recollect plot runs/pendulum-* --by storage   compare runs
  recollect list presets                        tasks with tuned hyperparameters

`recollect COMMAND --help` explains a command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    0, 2 after an error of the user, 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = _show_warning
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    for name in (keys.KERNEL_LOGGER, keys.PRESET_LOGGER, keys.RESUME_LOGGER):
        logging.getLogger(name).setLevel(logging.INFO)
    if "" not in sys.path:
        # An installed script searches its own folder only; `module:Id` should find modules of the current one too.
        sys.path.append("")
    try:
        with interruptible():
            return _run(arguments)
    except RecollectError as error:
        # Errors tell callers from Python what to change; here it is said as typed on a command line.
        sys.stderr.write(own_traceback(error))
        _complain(f"error: {_as_typed(str(error))}")
        return USAGE_ERROR
    except Interrupts as interrupt:
        print("stopped", file=sys.stderr)
        return exit_code(interrupt)
    except BrokenPipeError:
        return 0
    except OSError as error:
        if isinstance(error.__context__, Terminated):
            # The terminal that hung up cannot be written to any more, nor flushed when Python ends.
            for stream in (sys.stdout, sys.stderr):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            return exit_code(error.__context__)
        if error.filename is None and error.errno not in _NO_SPACE:
            raise
        where = "" if error.filename is None else f"{error.filename}: "
        _complain(f"error: {where}{error.strerror}; name another place, or make it usable")
        return USAGE_ERROR


def _as_typed(message: str) -> str:
    """An error's advice for Python callers, in the words of the command line."""
    return message.replace("Use the algorithm ", "Use --algo ").replace("trust=True", "--trust")


def own_traceback(error: BaseException) -> str:
    """Where the user's own code raised what an error was made of; empty if that was no code of theirs."""
    cause = error.__cause__ if isinstance(error, CallbackError | PartError) else None
    if cause is None:
        return ""
    frames = traceback.extract_tb(cause.__traceback__)
    package = str(Path(__file__).parents[1])
    own = [*dropwhile(lambda frame: frame.filename.startswith(package), frames)]
    told = "".join((*traceback.format_list(own), *traceback.format_exception_only(cause)))
    return f"Traceback (most recent call last):\n{told}" if own else ""


def _run(arguments: list[str]) -> int:
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help"):
        print(_HELP.format(commands="\n".join(f"  {name:13}{about}" for name, about in COMMANDS.items())))
        return 0
    if name == "--version":
        print(f"recollect {__version__}")
        return 0
    if name not in COMMANDS:
        raise ConfigError(f"there is no command {name!r}; {closest(name, COMMANDS)}")
    command: Any = import_module(f"recollect.cli.commands.{name}")
    code: int = command.run(command.make_parser().parse_args(rest))
    return code


def _complain(message: str) -> None:
    """Print an error or a warning; a terminal that it does not fit breaks it between words, and paths stay whole."""
    if sys.stderr.isatty():
        width = get_terminal_size().columns
        lines = (wrap(line, width, break_long_words=False, break_on_hyphens=False) for line in message.splitlines())
        message = "\n".join(chain.from_iterable(lines))
    print(message, file=sys.stderr)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print our own warnings on one line; others keep their form."""
    if issubclass(category, RecollectWarning):
        _complain(f"warning: {message}")
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))
