"""Command lines, with errors that say what to do."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from recollect.errors import ConfigError, closest


class CommandParser(argparse.ArgumentParser):
    """Parser of one command; a wrong command line raises `ConfigError`.

    Parameters
    ----------
    command : str
        What follows `recollect` on the command line.
    about : str
        What the command is for.
    examples : str
        Command lines to learn from, shown below the options.
    """

    def __init__(self, command: str, about: str, examples: str) -> None:
        super().__init__(
            prog=f"recollect {command}",
            description=about,
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def add_trust(self) -> None:
        """Add the option by which a user allows what files name."""
        self.add_argument(
            "--trust", action="store_true", help="import code that the run's files name (module:Name), and connect"
        )

    def error(self, message: str) -> NoReturn:
        """Refuse a command line."""
        raise ConfigError(f"{message.removeprefix('argument ')}; see {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: str) -> None:
        """Refuse a word that is not among those to choose from, with the closest of them."""
        if action.choices is not None and value not in action.choices:
            raise ConfigError(f"{self.prog} does not know {value!r}; {closest(value, action.choices)}")

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str], namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse a command line; an unknown option is refused with the closest known one.

        `words` of the result are the arguments as given, `command` is the whole command line.
        """
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown)
        options.words = list(args)
        options.command = shlex.join([*self.prog.split(), *args])
        return options

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        name = unknown[0].partition("=")[0]
        known = [option for option in self._option_string_actions if option.startswith("--")]
        if name.startswith("-"):
            raise ConfigError(f"{self.prog} has no option {name}; {closest(name, known)}")
        raise ConfigError(f"{self.prog} does not know what to do with {name!r}; see {self.prog} --help")


def whole_number(text: str) -> int:
    """Read a whole number; `20_000` is one too."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None


def count(text: str) -> int:
    """Read a whole number of at least 1; `20_000` is one too."""
    if not text.replace("_", "").isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def folder_name(text: str) -> str:
    """Read the name of a folder, without where it lies."""
    if text in ("", ".", "..") or Path(text).name != text:
        raise argparse.ArgumentTypeError(f"must be the name of a folder, got {text!r}; --out says where it lies")
    return text


def shown(value: object) -> str:
    """A value as one types it behind `--set`."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
