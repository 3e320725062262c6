"""Checks that a storage's steps fit the actor's spaces: steps from a file may not."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import gymnasium as gym
import numpy as np

from recollect import keys
from recollect.agent.masks import choice_counts
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.store.ring import columns
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.schema.schema import KeyPath
from recollect.errors import StorageError

if TYPE_CHECKING:
    from recollect.agent.storages.base_buffer import BaseBuffer

_ROWS_AT_ONCE: Final = 1 << 14
_WHOLE: Final = (gym.spaces.Discrete, gym.spaces.MultiDiscrete)


def check_steps(storage: "BaseBuffer") -> None:
    """Refuse steps that the networks of a storage's actor cannot take: of other shapes, or choices that there are not.

    All actions are looked at, and observations only where they are choices too: what a network takes as numbers may
    have any value.
    """
    obs_space, action_space = (getattr(storage.actor, name, None) for name in ("obs_space", "action_space"))
    if storage.store.is_built and isinstance(obs_space, gym.Space) and isinstance(action_space, gym.Space):
        ring = storage.store.ring
        parts = dict(_parts((keys.OBS,), obs_space))
        _check_shapes(ring, parts, action_space)
        _check_actions(ring, action_space)
        choices = {path: part for path, part in parts.items() if isinstance(part, _WHOLE)}
        if choices:
            _check_observations(storage, choices)


def _parts(path: KeyPath, space: gym.Space[Any]) -> Iterator[tuple[KeyPath, gym.Space[Any]]]:
    """The spaces in a (nested) dict of them, by the paths under which storages keep what is in them."""
    if not isinstance(space, gym.spaces.Dict):
        yield path, space
        return
    for name, inner in space.items():
        yield from _parts((*path, name), inner)


def _check_shapes(ring: LaneRing, parts: dict[KeyPath, gym.Space[Any]], action_space: gym.Space[Any]) -> None:
    found = {path: place.leaf.shape for path, place in ring.schema.stored.items()}
    observations = {path: shape for path, shape in found.items() if path[0] == keys.OBS}
    expected = {path: part.shape for path, part in parts.items()}
    if observations != expected:
        raise StorageError(f"the steps have observations of {observations}, the actor takes {expected}")
    # Actions are kept as rows of numbers, whatever shape the environment takes them in.
    if int(np.prod(found[(keys.ACTION,)])) != int(np.prod(action_space.shape or ())):
        raise StorageError(f"the steps have actions of {found[(keys.ACTION,)]}, the actor's are {action_space}")


def _check_actions(ring: LaneRing, space: gym.Space[Any]) -> None:
    """Actions are kept in the policy's units, where choices begin at 0."""
    if isinstance(space, gym.spaces.Box):
        return
    counts = np.array(choice_counts(space))
    column = ring.column(ring.schema.stored[(keys.ACTION,)])  # [num_lanes, num_slots, numbers]
    for lane, (first, head) in enumerate(zip(ring.firsts, ring.heads, strict=True)):
        actions = column[lane, np.arange(first, head) % ring.num_slots]
        if (actions < 0).any() or (actions >= counts).any():
            raise StorageError(f"the steps have actions that are not of {space}")


def _check_observations(storage: "BaseBuffer", choices: Mapping[KeyPath, gym.Space[Any]]) -> None:
    ring = storage.store.ring
    for lane, (first, head) in enumerate(zip(ring.firsts, ring.heads, strict=True)):
        for begin in range(int(first), int(head), _ROWS_AT_ONCE):
            numbers = np.arange(begin, min(begin + _ROWS_AT_ONCE, head))
            rows = columns.export_ids(storage.store, numbers | lane << layout.ID_SHIFT)
            for path, space in choices.items():
                for key in (keys.OBS, keys.NEXT_OBS):
                    _check_choices(rows[key], path[1:], space)


def _check_choices(rows: Any, path: KeyPath, space: gym.Space[Any]) -> None:
    """Rows of a (nested) observation, of which the part at `path` is of a space of choices."""
    for name in path:
        rows = rows[name]
    values = rows.numpy() - getattr(space, "start", 0)
    if (values < 0).any() or (values.reshape(len(values), -1) >= choice_counts(space)).any():
        raise StorageError(f"the steps have observations that are not of {space}")
