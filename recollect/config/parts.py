"""Which options the parts of an agent take, read from the parts themselves."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cache
from typing import Any, Final

from recollect.agent.registry import ALGORITHMS, ENVS, REGISTRIES, STORAGES, Registry
from recollect.errors import ConfigError, closest
from recollect.options import Options, Search
from recollect.other_names import translated

# The parts that have options. Actors and schemes go by no name.
ALGO: Final = "algo"
ENV: Final = "env"
ACTOR: Final = "actor"
STORAGE: Final = "storage"
SCHEME: Final = "scheme"
PARTS: Final = (ALGO, ENV, ACTOR, STORAGE, SCHEME)
NAMED_PARTS: Final = (ALGO, ENV, STORAGE)
# Transitions that a replay storage holds if no size is given; memory is taken only as it fills.
MAX_TRANSITIONS: Final = 1_000_000

_WHAT: Final = {ALGO: "an algorithm", STORAGE: "a storage"}
_REGISTRIES: Final[Mapping[str, Registry[Any]]] = {ALGO: ALGORITHMS, ENV: ENVS, STORAGE: STORAGES}


@dataclass(frozen=True)
class Option:
    """What a user can set: a name, its default and a sentence on it.

    `kind` is the registry of a class or a function, `search` what a tuning tries.
    """

    name: str
    default: Any
    about: str
    kind: str | None = None
    search: Search | None = None


def registry(part: str) -> Registry[Any]:
    """Algorithms, storages or environments, by name."""
    return _REGISTRIES[part]


def plain_name(part: str, name: object) -> Any:
    """A name as the registries spell it, in whatever case it is written."""
    return registry(part).spelled(name) if isinstance(name, str) else name


def given_name(part: str, given: object) -> Any:
    """Name of a part that the caller gives as a class, as a function or by name; None for none."""
    return None if given is None else registry(part).name_of(given)


def class_of(part: str, name: str) -> Any:
    """Find an algorithm or a storage by its name."""
    found = registry(part).find(name)
    is_class = hasattr(found, "create_factory")
    # Algorithms say whether they are on-policy, storages do not.
    if not is_class or hasattr(found, "is_on_policy") is (part == STORAGE):
        wanted = _WHAT[part] if is_class else "a class with create_factory"
        base = "DDQN, SAC or another algorithm" if part == ALGO else "ReplayBuffer or another storage"
        raise ConfigError(f"{part} must be {wanted}, got {found!r}; derive it from {base}")
    return found


def is_on_policy(algo: str) -> bool:
    """Whether an algorithm learns only from what its present policy did."""
    return bool(class_of(ALGO, algo).is_on_policy)


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
    config_class = getattr(found, "config_class", None)
    return _options_of_signature(found.create_factory) if config_class is None else _options_of_fields(config_class)


def check_options(part: str, name: str | None, given: Iterable[str]) -> None:
    """Refuse options that a part does not have."""
    known = options_of(part, name)
    for option in given:
        if part != ENV and option not in known:
            raise ConfigError(f"{part} has no option {option!r}; {_hint(part, name, option, known)}")


def recommended(storage: str, given: Mapping[str, Any], num_envs: int) -> dict[str, Any]:
    """Options that make a storage do what its name says, see `StorageConfig.recommended`."""
    config_class = getattr(class_of(STORAGE, storage), "config_class", None)
    return {} if config_class is None else dict(config_class.recommended(given, num_envs))


def named_value(option: Option, value: object) -> Any:
    """Value of an option as a config keeps it: a class or a function becomes its name, the rest stays."""
    return value if option.kind is None or value is None else REGISTRIES[option.kind].name_of(value)


def listed_options(storage: str) -> Mapping[str, Option]:
    """Options of a storage with the values that its name gives them: a constructor's defaults switch every idea off."""
    from recollect.agent.storages.on_policy.rollout_buffer import RolloutBuffer

    # Without a size, a storage has what the run needs: one rollout, or the replay of one environment.
    on_policy = issubclass(class_of(STORAGE, storage), RolloutBuffer)
    size = f"{ALGO}.update_every" if on_policy else MAX_TRANSITIONS
    known, values = options_of(STORAGE, storage), {"size": size} | recommended(storage, {}, 1)
    return {name: replace(option, default=values.get(name, option.default)) for name, option in known.items()}


def names_with(part: str, option: str) -> list[str]:
    """Names of the built-in algorithms or storages that have an option."""
    return [name for name in registry(part).built_in if option in options_of(part, name)]


def _hint(part: str, name: str | None, option: str, known: Mapping[str, Option]) -> str:
    """Say which others of its kind have an option, or the closest one."""
    owners = [] if part in (ACTOR, SCHEME) else names_with(part, option)
    if owners:
        return f"{', '.join(owners)} {'has' if len(owners) == 1 else 'have'} it, {name} has not"
    return translated(option, known) or closest(option, known)


@cache
def _options_of_fields(config_class: type[Options]) -> Mapping[str, Option]:
    docs, kinds, searches = config_class.docs(), config_class.kinds(), config_class.searches()
    return {
        entry.name: Option(entry.name, _default(entry), docs[entry.name], kinds[entry.name], searches.get(entry.name))
        for entry in fields(config_class)
    }


def _options_of_signature(create_factory: Callable[..., object]) -> Mapping[str, Option]:
    """Options of a class that has no config: the parameters of its `create_factory`."""
    parameters = inspect.signature(create_factory).parameters.values()
    return {
        each.name: Option(each.name, None if each.default is each.empty else each.default, "")
        for each in parameters
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    }


def _default(entry: "Field[Any]") -> Any:
    """Default of a field; None for one that has none, because it follows from the run."""
    if entry.default_factory is not MISSING:
        return entry.default_factory()
    return None if entry.default is MISSING else entry.default
