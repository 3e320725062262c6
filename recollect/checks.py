"""Checks of single values, shared by all that take parameters."""

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from recollect.errors import ConfigError

if TYPE_CHECKING:
    import torch


def check_count(name: str, value: object, low: int = 1) -> int:
    """Return a whole number of at least `low`, or refuse it."""
    if type(value) is int and value >= low:
        return value
    is_whole = isinstance(value, (int, np.integer)) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole:
        raise ConfigError(f"{name} must be a whole number, got {value!r}")
    whole = int(value)  # type: ignore[call-overload]
    if whole < low:
        raise ConfigError(f"{name} must be at least {low}, got {value!r}")
    return int(whole)


check_whole: Final = partial(check_count, low=0)


def seeded_generator(seed: object) -> np.random.Generator:
    """Return a generator of random numbers, a fresh one where the seed is None, or refuse what is no seed."""
    try:
        return np.random.default_rng(seed)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ConfigError(f"seed must be a whole number of at least 0 or None, got {seed!r}") from None


def check_number(name: str, value: object, low: float, high: float = math.inf, *, above_low: bool = False) -> float:
    """Return a finite number from `low` to `high`, or refuse it."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and low <= number <= high) or (above_low and number == low):
        limits = [f"{'above' if above_low else 'at least'} {low:g}"] if math.isfinite(low) else []
        limits += [f"at most {high:g}"] if math.isfinite(high) else []
        raise ConfigError(f"{name} must be a number{' ' if limits else ''}{' and '.join(limits)}, got {value!r}")
    return number


def check_list(name: str, value: object) -> list[Any]:
    """Return several things as a list, or refuse what is one alone."""
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise ConfigError(f"{name} must be a list, got {value!r}; write {name}=[...]")
    return list(value)


def check_device(device: "torch.device | str") -> "torch.device":
    """Return a device, or refuse one that this machine, or this build of PyTorch, does not have."""
    import torch  # late: the command line checks its words without it

    try:
        checked = torch.device(device)
    except (RuntimeError, TypeError, ValueError):
        reason = "PyTorch has no device of this name"
    else:
        try:
            torch.empty(0, device=checked)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).partition("\n")[0].partition(". ")[0]
        else:
            return checked
    raise ConfigError(f"device {device!r} cannot be used: {reason}; this machine has {', '.join(_devices())}")


def _devices() -> list[str]:
    """Names of the devices that this machine, and this build of PyTorch, have."""
    import torch

    accelerator = torch.accelerator.current_accelerator()
    found = range(torch.accelerator.device_count()) if accelerator else ()
    return ["cpu", *(f"{accelerator}:{number}" for number in found)]
