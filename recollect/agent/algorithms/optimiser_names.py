"""Optimisers by name, and the check of their keyword arguments: the options `optimiser` and `optimiser_kwargs`."""

import inspect
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch.optim import Optimizer

from recollect.errors import ConfigError, closest

# They need more than gradients of dense parameters: a closure, sparse gradients, or matrices alone.
_OTHERS: Final = frozenset({"lbfgs", "sparseadam", "muon"})
OPTIMISERS: Final[dict[str, type[Optimizer]]] = {
    name.lower(): kind
    for name, kind in vars(torch.optim).items()
    if inspect.isclass(kind) and issubclass(kind, Optimizer) and kind is not Optimizer and name.lower() not in _OTHERS
}


def optimiser_name(name: str, value: object) -> str:
    """Check the name of an optimiser, in any case."""
    plain = value.lower() if isinstance(value, str) else value
    if plain not in OPTIMISERS:
        known = ", ".join(sorted(OPTIMISERS))
        raise ConfigError(f"{name} must be one of {known}, got {value!r}; {closest(str(plain), OPTIMISERS)}")
    return str(plain)


def find_optimiser(name: str) -> type[Optimizer]:
    """PyTorch's optimiser called `name`."""
    return OPTIMISERS[name]


def optimiser_keywords(name: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """All keyword arguments of an optimiser but the learning rate; files have lists where it wants tuples."""
    own = {name: tuple(value) if isinstance(value, list) else value for name, value in (given or {}).items()}
    return _defaults(name) | own


def _defaults(name: str) -> dict[str, Any]:
    parameters = inspect.signature(find_optimiser(name)).parameters.values()
    return {each.name: each.default for each in parameters if each.name not in ("self", "params", "lr")}


def check_optimiser(name: str, given: Mapping[str, Any] | None) -> None:
    """Refuse keyword arguments that an optimiser does not take, before anything is built with it."""
    if given is not None and (not isinstance(given, Mapping) or "lr" in given):
        raise ConfigError(
            f"optimiser_kwargs must be keyword arguments without 'lr', got {given!r}; learning rates are options of "
            "the algorithm"
        )
    try:
        find_optimiser(name)([torch.zeros(1, requires_grad=True)], **optimiser_keywords(name, given))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"optimiser {name!r} refuses optimiser_kwargs={given!r} ({error}); it takes {', '.join(_defaults(name))}"
        ) from error
