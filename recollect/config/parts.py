"""Which options the parts of an agent take, read from the parts themselves."""

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import Any, Final, get_args

from recollect.config.sb3_names import translated
from recollect.errors import ConfigError, closest

# The parts that have options. Actors and schemes go by no name.
ALGO: Final = "algo"
ENV: Final = "env"
ACTOR: Final = "actor"
STORAGE: Final = "storage"
SCHEME: Final = "scheme"
PARTS: Final = (ALGO, ENV, ACTOR, STORAGE, SCHEME)
NAMED_PARTS: Final = (ALGO, ENV, STORAGE)

# Functions, which neither a file nor a command line could give.
_NOT_OPTIONS: Final = frozenset({"her_function", "compute_reward", "compute_terminated"})
# `name, other : type` in a NumPy docstring, and the indented text below it.
_ENTRY: Final = re.compile(r"^(\w+(?:, \w+)*) : .*\n((?:[ \t]+.*\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Option:
    """What a user can set: a name, its default and a sentence on it."""

    name: str
    default: Any
    about: str


def registry(part: str) -> Mapping[str, Any]:
    """Algorithms or storages, by name."""
    if part == STORAGE:
        from recollect.agent.storages import STORAGES

        return STORAGES
    from recollect.agent.algorithms import ALGORITHMS

    return ALGORITHMS


def plain_name(part: str, name: Any) -> Any:
    """A name as the registries spell it: those of algorithms and storages may be written in any case."""
    return name.lower() if part in (ALGO, STORAGE) and isinstance(name, str) else name


def class_of(part: str, name: str) -> Any:
    """Find an algorithm or a storage by its name."""
    classes = registry(part)
    if name not in classes:
        raise ConfigError(f"there is no {'algorithm' if part == ALGO else part} {name!r}; {closest(name, classes)}")
    return classes[name]


def is_on_policy(algo: str) -> bool:
    """Whether an algorithm learns only from what its present policy did."""
    return bool(class_of(ALGO, algo).is_on_policy)


@cache
def options_of(part: str, name: str | None = None) -> Mapping[str, Option]:
    """Options of a part, by name; what an environment takes is known to the environment alone."""
    if part == ENV:
        return {}
    if part == ACTOR:
        from recollect.agent.actors.config import ActorConfig

        return _options_of_fields(ActorConfig)
    if part == SCHEME:
        from recollect.scheme.config import SchemeConfig

        return _options_of_fields(SchemeConfig)
    found = class_of(part, str(name))
    return _options_of_factory(found) if part == STORAGE else _options_of_fields(found.config_class)


def check_options(part: str, name: str | None, given: Iterable[str]) -> None:
    """Refuse options that a part does not have."""
    known = options_of(part, name)
    for option in given:
        if part != ENV and option not in known:
            raise ConfigError(f"{part} has no option {option!r}; {_hint(part, name, option, known)}")


def names_with(part: str, option: str) -> list[str]:
    """Names of the algorithms or storages that have an option."""
    return [name for name in registry(part) if option in options_of(part, name)]


def _hint(part: str, name: str | None, option: str, known: Mapping[str, Option]) -> str:
    """Say which others of its kind have an option, or the closest one."""
    owners = [] if part in (ACTOR, SCHEME) else names_with(part, option)
    if owners:
        return f"{', '.join(owners)} {'has' if len(owners) == 1 else 'have'} it, {name} has not"
    return translated(option, known) or closest(option, known)


def _options_of_fields(config_class: Any) -> Mapping[str, Option]:
    abouts = config_class.docs()
    return {entry.name: Option(entry.name, _default(entry), abouts[entry.name]) for entry in fields(config_class)}


def _default(entry: "Field[Any]") -> Any:
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


def _options_of_factory(storage_class: Any) -> Mapping[str, Option]:
    """Parameters of `create_factory`, and the keywords that its `**options` stand for."""
    from recollect.agent.storages.off_policy.options import KEYWORD_DEFAULTS

    parameters = {
        name: None if parameter.default is parameter.empty else parameter.default
        for name, parameter in inspect.signature(storage_class.create_factory).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    keywords = {name: KEYWORD_DEFAULTS.get(name) for name in getattr(_keywords(storage_class), "__annotations__", ())}
    abouts = _documented(storage_class)
    return {
        name: Option(name, default, abouts.get(name, ""))
        for name, default in (parameters | keywords).items()
        if name not in _NOT_OPTIONS
    }


def _keywords(storage_class: Any) -> Any:
    """The typed dict of the `**options` that `create_factory` takes, None if it takes none."""
    factory = getattr(storage_class, "create_factory", None)
    for parameter in inspect.signature(factory).parameters.values() if factory else ():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            return next(iter(get_args(parameter.annotation)), None)
    return None


def _documented(storage_class: Any) -> dict[str, str]:
    """What the docstrings of a storage and its parents say of their options; the nearest one counts."""
    abouts: dict[str, str] = {}
    sources = (source for parent in storage_class.__mro__ for source in (parent, _keywords(parent)) if source)
    for source in sources:
        for names, text in _ENTRY.findall(f"{inspect.cleandoc(source.__doc__ or '')}\n"):
            for name in names.split(", "):
                abouts.setdefault(name, " ".join(text.split()))
    return abouts
