"""Typed options of a component: fields that say what they are for and check themselves."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, Self

from recollect.checks import check_count, check_number, check_whole
from recollect.errors import ConfigError, closest
from recollect.other_names import translated

Check = Callable[[str, Any], Any]
count: Final = check_count
count_or_zero: Final = check_whole

_DOC: Final = "doc"
_CHECK: Final = "check"
_CHANGES: Final = "changes"
_KIND: Final = "kind"
_SEARCH: Final = "search"


@dataclass(frozen=True)
class Search:
    """Values that `recollect tune` tries for an option: some choices, or a range."""

    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False

    def __str__(self) -> str:
        if self.choices:
            return " | ".join(map(str, self.choices))
        return f"{self.low:g} to {self.high:g}{' (log)' if self.is_log else ''}"


def choices(*values: object) -> Search:
    """Declare the values that a tuning chooses from."""
    return Search(choices=values)


def linear_range(low: float, high: float) -> Search:
    """Declare the range that a tuning tries numbers of."""
    return Search(low=low, high=high)


def log_range(low: float, high: float) -> Search:
    """Declare the range that a tuning tries numbers of, every order of magnitude alike."""
    return Search(low=low, high=high, is_log=True)


def about(
    doc: str,
    check: Check | None = None,
    *,
    changes: bool = False,
    kind: str | None = None,
    search: Search | None = None,
) -> Mapping[str, object]:
    """Metadata of a field of `Options`; on its own for a field that has no default.

    Parameters
    ----------
    doc : str
        What the option is for, one sentence.
    check : callable, optional
        `(name, value) -> value`: returns the value in its own type, or raises `ConfigError`.
    changes : bool
        Whether the option can change while running.
    kind : str, optional
        Registry of the option's value, if it is a class or a function: files and command lines name it.
    search : Search, optional
        What a tuning tries for it; without it, a tuning leaves the option alone.
    """
    return {_DOC: doc, _CHECK: check, _CHANGES: changes, _KIND: kind, _SEARCH: search}


def option(
    default: object,
    doc: str,
    check: Check | None = None,
    *,
    changes: bool = False,
    kind: str | None = None,
    search: Search | None = None,
) -> Any:
    """Declare a field of `Options` with the value that it has where none is given; see `about` for the others."""
    return field(default=default, metadata=about(doc, check, changes=changes, kind=kind, search=search))


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base of all configs: frozen, given by name, checked when made and when changed."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            check = entry.metadata.get(_CHECK)
            if check is not None:
                object.__setattr__(self, entry.name, check(entry.name, getattr(self, entry.name)))

    @classmethod
    def docs(cls) -> dict[str, str]:
        """What each option is for, by name."""
        return {entry.name: entry.metadata.get(_DOC, "") for entry in fields(cls)}

    @classmethod
    def kinds(cls) -> dict[str, str | None]:
        """Registry of each option, by name; None where it is no class or function."""
        return {entry.name: entry.metadata.get(_KIND) for entry in fields(cls)}

    @classmethod
    def changing(cls) -> list[str]:
        """Names of the options that can change while running."""
        return [entry.name for entry in fields(cls) if entry.metadata.get(_CHANGES)]

    @classmethod
    def searches(cls) -> dict[str, Search]:
        """What a tuning tries, by name of the option."""
        found = {entry.name: entry.metadata.get(_SEARCH) for entry in fields(cls)}
        return {name: search for name, search in found.items() if search is not None}

    @classmethod
    def of(cls, owner: str, given: Mapping[str, Any], *values: object, others: Iterable[str] = ()) -> Self:
        """Make the options from those given by name and by position.

        An unknown one is refused in the `owner`'s name, with what it is called here, or the closest of these and of the
        `others` that it takes.
        """
        known = cls.docs()
        for name in given:
            if name not in known:
                every = {*known, *others}
                raise ConfigError(f"{owner} has no option {name!r}; {translated(name, every) or closest(name, every)}")
        return cls(*values, **given)

    def changed(self) -> dict[str, Any]:
        """Options that differ from their defaults, by name."""
        values = ((entry, getattr(self, entry.name)) for entry in fields(self))
        return {entry.name: value for entry, value in values if entry.default is MISSING or value != entry.default}

    def summary(self, *others: str) -> str:
        """The same as `name=value, ...`, without some others, to be shown."""
        return ", ".join(f"{name}={_shown(value)}" for name, value in self.changed().items() if name not in others)


def _shown(value: object) -> str:
    """A value as code has it; functions by their names alone."""
    return str(getattr(value, "__qualname__", repr(value))) if callable(value) else repr(value)


def flag(name: str, value: object) -> bool:
    """Check a truth value."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false, got {value!r}")
    return value


def number(low: float, high: float = float("inf"), *, above_low: bool = False) -> Check:
    """Check a finite number from `low` to `high`."""
    return lambda name, value: check_number(name, value, low, high, above_low=above_low)


def one_of(*choices: object) -> Check:
    """Check that a value is one of a few."""

    def check(name: str, value: object) -> object:
        if value not in choices:
            raise ConfigError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
        return value

    return check


def optional(check: Check) -> Check:
    """Check a value that may also be None."""
    return lambda name, value: None if value is None else check(name, value)
