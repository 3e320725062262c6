"""Which options the parts of an agent take, read from the parts themselves."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from recollect.config.sb3_names import translated
from recollect.errors import ConfigError, closest
from recollect.options import Options, Search

if TYPE_CHECKING:
    from recollect.agent.registry import Registry

# The parts that have options. Actors and schemes go by no name.
ALGO: Final = "algo"
ENV: Final = "env"
ACTOR: Final = "actor"
STORAGE: Final = "storage"
SCHEME: Final = "scheme"
PARTS: Final = (ALGO, ENV, ACTOR, STORAGE, SCHEME)
NAMED_PARTS: Final = (ALGO, ENV, STORAGE)
# Ends the name of an environment that a function of the caller's makes; no id does.
CALL: Final = "()"
# Transitions that a replay storage holds if no size is given; memory is taken only as it fills.
MOST_TRANSITIONS: Final = 1_000_000


@dataclass(frozen=True)
class Option:
    """What a user can set: a name, its default, a sentence on it, and what a tuning tries for it, if anything."""

    name: str
    default: Any
    about: str
    search: Search | None = None


def registry(part: str) -> "Registry[Any]":
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
    return registry(part).find(name)


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
    return _options_of_fields(class_of(part, str(name)).config_class)


def check_options(part: str, name: str | None, given: Iterable[str]) -> None:
    """Refuse options that a part does not have."""
    known = options_of(part, name)
    for option in given:
        if part != ENV and option not in known:
            raise ConfigError(f"{part} has no option {option!r}; {_hint(part, name, option, known)}")


def listed_options(storage: str) -> Mapping[str, Option]:
    """Options of a storage with the values that its name gives them: a constructor's defaults switch every idea off."""
    from recollect.agent.storages import ON_POLICY_STORAGES

    # Without a size, a storage has what the run needs: one rollout, or the replay of one environment.
    size = f"{ALGO}.update_every" if storage in ON_POLICY_STORAGES else MOST_TRANSITIONS
    values = {"size": size} | class_of(STORAGE, storage).config_class.recommended({}, 1)
    known = options_of(STORAGE, storage)
    return {name: replace(option, default=values.get(name, option.default)) for name, option in known.items()}


def names_with(part: str, option: str) -> list[str]:
    """Names of the algorithms or storages that have an option."""
    return [name for name in registry(part) if option in options_of(part, name)]


def _hint(part: str, name: str | None, option: str, known: Mapping[str, Option]) -> str:
    """Say which others of its kind have an option, or the closest one."""
    owners = [] if part in (ACTOR, SCHEME) else names_with(part, option)
    if owners:
        return f"{', '.join(owners)} {'has' if len(owners) == 1 else 'have'} it, {name} has not"
    return translated(option, known) or closest(option, known)


def _options_of_fields(config_class: type[Options]) -> Mapping[str, Option]:
    docs, searches = config_class.docs(), config_class.searches()
    return {
        entry.name: Option(entry.name, _default(entry), docs[entry.name], searches.get(entry.name))
        for entry in config_class.plain_fields()
    }


def _default(entry: "Field[Any]") -> Any:
    """Default of a field; None for one that has none, because it follows from the run."""
    if entry.default_factory is not MISSING:
        return entry.default_factory()
    return None if entry.default is MISSING else entry.default
