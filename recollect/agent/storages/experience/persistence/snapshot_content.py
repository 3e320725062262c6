"""What a snapshot, or an entry of a journal, holds of a ring: cut out of one, put together in another."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from recollect.agent.storages.experience.store.lane_ring import LaneRing
from recollect.agent.storages.experience.store.ring_pieces import put_piece


@dataclass(frozen=True)
class Extras:
    """What the owner of a store keeps beside it.

    Attributes
    ----------
    state : dict
        Anything that JSON can hold.
    slot_arrays : dict
        Arrays with one entry for each slot of the ring, `[num_lanes * num_slots, ...]`, by name: raw
        errors, for one.
    """

    state: Mapping[str, Any] = field(default_factory=dict)
    slot_arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __or__(self, other: "Extras") -> "Extras":
        """Both together, as a class adds its own to its parent's."""
        return Extras({**self.state, **other.state}, {**self.slot_arrays, **other.slot_arrays})


class Piece(NamedTuple):
    """Steps `begin` to `end` of one group of lanes, read when they are needed."""

    group: int
    begin: int
    end: int
    load: Callable[[], Mapping[str, np.ndarray]]


class SlotValues(NamedTuple):
    """Values `[num_lanes, num_steps, ...]` that are kept beside the steps from `begin` on of one group of lanes."""

    name: str
    group: int
    begin: int
    values: np.ndarray


@dataclass(frozen=True)
class Content:
    """Steps of a ring, oldest first, and what is kept beside them.

    Attributes
    ----------
    pieces : list of Piece
        The steps.
    slot_values : list of SlotValues
        What the owner of the store keeps for each.
    sequences : dict
        State of a store of sequences, see `Starts.state`.
    """

    pieces: Sequence[Piece] = ()
    slot_values: Sequence[SlotValues] = ()
    sequences: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Addition:
    """What has come to a store since a snapshot of it.

    Attributes
    ----------
    changes : dict
        Entries of the snapshot's manifest that are different now.
    content : Content
        The new steps.
    """

    changes: Mapping[str, Any]
    content: Content


def group_size_of(ring: LaneRing, num_envs: int) -> int:
    """Lanes that are written together: those of a source, unless some have got further than others."""
    cursors = np.stack([ring.heads, ring.firsts, ring.lows]).reshape(3, -1, num_envs)
    return num_envs if (cursors == cursors[:, :, :1]).all() else 1


def lanes_of(group_size: int, group: int) -> slice:
    """Lanes of a group."""
    return slice(group * group_size, (group + 1) * group_size)


def cut_slots(
    ring: LaneRing, group_size: int, slot_arrays: Mapping[str, np.ndarray], begins: np.ndarray
) -> list[SlotValues]:
    """Of arrays with an entry for each slot, cut out those of the steps from `begins` [num_lanes] on."""
    found = []
    for group in range(ring.num_lanes // group_size):
        lanes = lanes_of(group_size, group)
        begin = int(max(begins[lanes.start], ring.firsts[lanes.start]))
        slots = np.arange(begin, ring.heads[lanes.start]) % ring.num_slots
        for name, array in slot_arrays.items():
            by_slot = array.reshape(ring.num_lanes, ring.num_slots, *array.shape[1:])
            found.append(SlotValues(name, group, begin, by_slot[lanes][:, slots]))
    return found


def put_steps(ring: LaneRing, group_size: int, contents: Sequence[Content]) -> None:
    """Put steps into an empty ring whose cursors are set, those that fit; later contents count before earlier ones."""
    for piece in _without_overlap(contents):
        lanes = lanes_of(group_size, piece.group)
        lowest = int(ring.lows[lanes.start])
        if max(piece.begin, lowest) < piece.end:
            put_piece(ring, lanes, piece.begin, piece.load(), lowest, piece.end)


def put_slots(ring: LaneRing, group_size: int, contents: Iterable[Content]) -> dict[str, np.ndarray]:
    """Put values together into arrays with an entry for each slot of `ring`, by name."""
    arrays: dict[str, np.ndarray] = {}
    for name, group, begin, values in (each for content in contents for each in content.slot_values):
        lanes = lanes_of(group_size, group)
        shape = (ring.num_lanes, ring.num_slots, *values.shape[2:])
        target = arrays.setdefault(name, np.zeros(shape, values.dtype))
        numbers = np.arange(max(begin, ring.firsts[lanes.start]), begin + values.shape[1])
        target[lanes][:, numbers % ring.num_slots] = values[:, values.shape[1] - len(numbers) :]
    return {name: values.reshape(-1, *values.shape[2:]) for name, values in arrays.items()}


def _without_overlap(contents: Sequence[Content]) -> Iterator[Piece]:
    """EpisodeSegments of all contents, each cut off where a later content goes on."""
    begins: dict[int, int] = {}
    for content in reversed(contents):
        for piece in content.pieces:
            yield piece._replace(end=min(piece.end, begins.get(piece.group, piece.end)))
        for piece in content.pieces:
            begins[piece.group] = min(piece.begin, begins.get(piece.group, piece.begin))
