"""Typed options of a component: fields that say what they are for and check themselves."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self

from recollect.checks import check_count, check_number
from recollect.errors import ConfigError, closest

Check = Callable[[str, Any], Any]

_DOC = "doc"
_CHECK = "check"


def option(default: Any, doc: str, check: Check | None = None) -> Any:
    """Declare a field of `Options`.

    Parameters
    ----------
    default : object
        Value where none is given.
    doc : str
        What the option is for, one sentence.
    check : callable, optional
        `(name, value) -> value`: returns the value in its own type, or raises `ConfigError`.
    """
    return field(default=default, metadata={_DOC: doc, _CHECK: check})


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
    def of(cls, owner: str, given: dict[str, Any]) -> Self:
        """Make the options from those that were given; an unknown one is refused in the `owner`'s name."""
        known = cls.docs()
        for name in given:
            if name not in known:
                raise ConfigError(f"{owner} has no option {name!r}; {closest(name, known)}")
        return cls(**given)

    def changed(self) -> dict[str, Any]:
        """Options that differ from their defaults, by name."""
        values = ((entry, getattr(self, entry.name)) for entry in fields(self))
        return {entry.name: value for entry, value in values if entry.default is MISSING or value != entry.default}


def count(name: str, value: Any) -> int:
    """Check a whole number of at least 1."""
    return check_count(name, value)


def count_or_zero(name: str, value: Any) -> int:
    """Check a whole number of at least 0."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and value < 0:
        raise ConfigError(f"{name} must be at least 0, got {value!r}")
    return 0 if is_number and value == 0 else check_count(name, value)


def flag(name: str, value: Any) -> bool:
    """Check a truth value."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false, got {value!r}")
    return value


def number(low: float, high: float = float("inf"), *, above_low: bool = False) -> Check:
    """Check a finite number from `low` to `high`."""
    return lambda name, value: check_number(name, value, low, high, above_low=above_low)


def one_of(*choices: Any) -> Check:
    """Check that a value is one of a few."""

    def check(name: str, value: Any) -> Any:
        if value not in choices:
            raise ConfigError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
        return value

    return check


def optional(check: Check) -> Check:
    """Check a value that may also be None."""
    return lambda name, value: None if value is None else check(name, value)
