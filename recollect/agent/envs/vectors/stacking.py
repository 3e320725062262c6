"""Puts the observations of single envs together."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import gymnasium as gym
import numpy as np

from recollect.roles import Observation

Stacking = Callable[[Sequence[Any]], Observation]
"""Copies observations of single envs into new (nested) arrays `[num_envs, ...]`."""


def stacking_of(space: gym.Space[Any]) -> Stacking:
    """Return what puts observations of a space together; it refuses other shapes, and dtypes that do not fit."""
    if isinstance(space, gym.spaces.Dict):
        return partial(_stack_parts, {name: stacking_of(inner) for name, inner in space.items()})
    return partial(_stack_arrays, cast(tuple[int, ...], space.shape), cast(np.dtype[Any], space.dtype))


def _stack_parts(parts: dict[str, Stacking], rows: Sequence[Any]) -> dict[str, Observation]:
    return {name: stack([row[name] for row in rows]) for name, stack in parts.items()}


def _stack_arrays(shape: tuple[int, ...], dtype: np.dtype[Any], rows: Sequence[Any]) -> np.ndarray:
    stacked = np.empty((len(rows), *shape), dtype)
    for index, row in enumerate(rows):
        if type(row) is not np.ndarray or row.dtype != dtype or row.shape != shape:
            # As Gymnasium does it, which knows what to cast and what to refuse.
            return np.stack(rows, out=stacked)
        stacked[index] = row
    return stacked
