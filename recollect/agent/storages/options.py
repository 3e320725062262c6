"""The check of options that storages take by keyword."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, get_args

from recollect.errors import ConfigError, closest


def check_options(storage: str, options: Iterable[str], known: Iterable[str], own: Iterable[str] = ()) -> None:
    """Refuse an option that is not `known`, with the closest of all that the storage takes, its `own` ones too."""
    for name in options:
        if name not in known:
            raise ConfigError(f"{storage} has no option {name!r}; {closest(name, {*known, *own})}")


def names_of(maker: Callable[..., Any]) -> set[str]:
    """Names of the parameters of what makes a storage, and of those that its `**options` stand for."""
    names = set()
    for name, parameter in inspect.signature(maker).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            names |= {key for kind in get_args(parameter.annotation) for key in kind.__annotations__}
        else:
            names.add(name)
    return names
