"""`recollect list`: algorithms, storages, presets and their options."""

import argparse
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from shutil import get_terminal_size
from typing import Any, Final

from recollect.agent.registry import REGISTRIES, WRAPPERS, Registry, is_reference
from recollect.cli.parsing import CommandParser, shown
from recollect.config import RunConfig, presets, settings
from recollect.config.parts import (
    ACTOR,
    ALGO,
    SCHEME,
    STORAGE,
    Option,
    listed_options,
    options_of,
    plain_name,
    registry,
)
from recollect.errors import ConfigError, closest

_EXAMPLES: Final = """\
  recollect list                       algorithms, storages, networks and presets
  recollect list presets               tasks with tuned hyperparameters
  recollect list options               options of every run, actor and scheme
  recollect list options sac per       options of SAC and of PER, for `--set`
  recollect list options mine:SoftQ    options of an algorithm, or storage, of your own"""
_RUN: Final = "run"


def make_parser() -> CommandParser:
    """Make the parser of `recollect list`."""
    parser = CommandParser("list", "List algorithms, storages, presets and their options.", _EXAMPLES)
    parser.add_argument(
        "what", nargs="?", choices=(*_LISTS, "options"), help="what to list; by default all but the options"
    )
    parser.add_argument(
        "names",
        nargs="*",
        help="whose options: names of algorithms and storages, module:Name, 'actor', 'scheme' or 'run'",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    """Print what was asked for."""
    if options.what == "options":
        names = options.names or (_RUN, ACTOR, SCHEME)
        for name, (prefix, known) in [(name, _find_options(name)) for name in names]:
            _print_options(name, prefix, known)
        return 0
    if options.names:
        raise ConfigError(f"recollect list {options.what} takes no names, got {' '.join(options.names)}")
    for what in [options.what] if options.what else [what for what in _LISTS if what not in _ON_REQUEST]:
        rows = list(_LISTS[what]())
        if rows or options.what:
            print(f"{what}:")
            _print_rows(rows)
            print()
    return 0


def _parts(known: Registry[Any]) -> Iterable[tuple[str, str]]:
    for name in known:
        try:
            yield name, (inspect.getdoc(known[name]) or "").partition("\n")[0]
        except ConfigError as error:  # a package that is installed but does not work
            yield name, str(error)


_LISTS: Final[Mapping[str, Callable[[], Iterable[tuple[str, str]]]]] = {
    **{known.group.rpartition(".")[2]: partial(_parts, known) for known in REGISTRIES.values()},
    "presets": lambda: ((name, presets.about(name)) for name in (*presets.names(), *presets.kinds())),
}
# Gymnasium's are many, and documented there.
_ON_REQUEST: Final = (WRAPPERS.group.rpartition(".")[2],)


def _print_options(name: str, prefix: str, known: Mapping[str, Option]) -> None:
    print(f"options of {name}:")
    _print_rows((f"{prefix}{option.name}={shown(option.default)}", option.about) for option in known.values())
    print()


def _find_options(name: str) -> tuple[str, Mapping[str, Option]]:
    """Options of the part with this name, and their prefix in `--set`."""
    if name == _RUN:
        docs = RunConfig.docs()
        return "", {name: Option(name, entry.default, docs[name]) for name, entry in settings().items()}
    if name in (ACTOR, SCHEME):
        return f"{name}.", options_of(name)
    for part, options in ((ALGO, partial(options_of, ALGO)), (STORAGE, listed_options)):
        is_own = is_reference(name) and hasattr(registry(part).find(name), "is_on_policy") == (part == ALGO)
        if is_own or (plain := plain_name(part, name)) in registry(part):
            return f"{part}.", options(name if is_own else plain)
    known = [*registry(ALGO), *registry(STORAGE), ACTOR, SCHEME, _RUN]
    raise ConfigError(f"there is no {name!r} with options; {closest(name, known)}")


def _print_rows(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and texts in two columns, as wide as the terminal."""
    rows = list(rows)
    indent = min(38, 4 + max((len(name) for name, _ in rows), default=0))
    width = max(60, get_terminal_size((110, 24)).columns)
    for name, text in rows:
        lead = f"  {name:{indent - 2}}" if len(name) + 3 < indent else f"  {name}\n{' ' * indent}"
        print((lead + f"\n{' ' * indent}".join(textwrap.wrap(text, width - indent))).rstrip())
