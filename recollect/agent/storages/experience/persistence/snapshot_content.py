"""The content of a snapshot or of a journal's entry: cut out of one ring, and restored into another."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.persistence.manifest import MAX_STEPS
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing, ids_of
from recollect.agent.storages.experience.store.ring.ring_piece import RingPiece
from recollect.agent.storages.experience.store.sources import join
from recollect.errors import StorageError

# Begin the names of arrays in files: the state of sequences, and values kept beside steps.
SEQUENCES: Final = "sequences/"
SLOTS: Final = "slots/"


@dataclass(frozen=True)
class Extras:
    """What the owner of a store keeps beside it.

    Attributes
    ----------
    state : dict
        Anything that JSON can hold.
    slot_arrays : dict
        Arrays with one number for each slot of the ring, `[num_lanes * num_slots]`, by name: raw errors, for one.
    """

    state: Mapping[str, Any] = field(default_factory=dict)
    slot_arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __or__(self, other: "Extras") -> "Extras":
        """Both together, as a class adds its own to its parent's."""
        return Extras({**self.state, **other.state}, {**self.slot_arrays, **other.slot_arrays})


class Part(NamedTuple):
    """A piece with steps of the lanes of one source, none of them from `end` on; its bytes are read when needed."""

    group: int
    end: int
    read: Callable[[], np.ndarray]


class SlotValues(NamedTuple):
    """Values kept beside the steps `begins` to `ends` [num_lanes], by name, those of one lane behind another's."""

    begins: np.ndarray
    ends: np.ndarray
    values: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Content:
    """Steps of a ring, oldest first, and what is kept beside them.

    Attributes
    ----------
    parts : list of Part
        The steps.
    slots : SlotValues
        What the owner of the store keeps for each.
    sequences : dict
        State of a store of sequences, see `Starts.state`.
    changes : dict
        Of what has come since a snapshot, the entries of its manifest that are different now.
    """

    parts: Sequence[Part]
    slots: SlotValues
    sequences: Mapping[str, np.ndarray]
    changes: Mapping[str, Any] = field(default_factory=dict)


def below(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Arrays whose names have a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def cut_slots(ring: LaneRing, slot_arrays: Mapping[str, np.ndarray], begins: np.ndarray) -> SlotValues:
    """Of arrays with an entry for each slot, take those of the steps from `begins` [num_lanes] on."""
    begins, ends = np.maximum(begins, ring.firsts), ring.heads.copy()
    spans = list(_slot_spans(ring, begins, ends))
    # A training waits for this copy: ranges of slots take a fiftieth of the time that the slots one by one do.
    values = {name: np.concatenate([array[span] for span in spans]) for name, array in slot_arrays.items()}
    return SlotValues(begins, ends, values)


def _slot_spans(ring: LaneRing, begins: np.ndarray, ends: np.ndarray) -> Iterator[slice]:
    """Ranges of slots that hold the steps `begins` to `ends` [num_lanes], lane by lane, in their order."""
    for lane, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        base, first = lane * ring.num_slots, begin % ring.num_slots
        last = first + end - begin
        yield slice(base + first, base + min(last, ring.num_slots))
        yield slice(base, base + max(0, last - ring.num_slots))


def put_slots(ring: LaneRing, contents: Iterable[Content]) -> dict[str, np.ndarray]:
    """Put values together into arrays with an entry for each slot of `ring`, by name; later ones count."""
    arrays: dict[str, np.ndarray] = {}
    for begins, ends, values_by_name in (content.slots for content in contents):
        if not begins.shape == ends.shape == ring.heads.shape or not {begins.dtype, ends.dtype} == {np.dtype(np.int64)}:
            raise StorageError("what is kept beside the steps is not that of their lanes")
        if (begins < 0).any() or (begins > ends).any() or (ends > MAX_STEPS).any():
            raise StorageError("what is kept beside the steps is of steps that cannot be")
        for name, values in values_by_name.items():
            if values.shape != ((ends - begins).sum(),):
                raise StorageError(f"{name} of the shape {values.shape} do not fit to the steps")
            ids = ids_of(begins, ends)
            is_kept = (ids & layout.ID_MASK) >= ring.firsts[ids >> layout.ID_SHIFT]
            target = arrays.setdefault(name, np.zeros(ring.num_lanes * ring.num_slots, values.dtype))
            target[ring.slots(ids[is_kept])] = values[is_kept]
    return arrays


def put_steps(ring: LaneRing, num_envs: int, lowest: np.ndarray, contents: Iterable[Content]) -> None:
    """Put the steps from `lowest` [num_lanes] on into an empty ring; those that it has already are left out."""
    for part in (part for content in contents for part in content.parts):
        if not 0 <= part.group < ring.num_lanes // num_envs:
            raise StorageError(f"there are steps of source {part.group}, and lanes of {ring.num_lanes // num_envs}")
        lanes = np.arange(part.group * num_envs, (part.group + 1) * num_envs)
        if part.end <= lowest[lanes].min():
            continue
        piece = RingPiece(ring.schema, part.read())
        if len(piece.begins) != num_envs:
            raise StorageError(f"a piece of the steps has {len(piece.begins)} envs, expected {num_envs}")
        for lane, begin in zip(lanes.tolist(), piece.begins.tolist(), strict=True):
            # What is not there was not in memory any more, or is not wanted.
            if begin > ring.heads[lane]:
                ring.jump(lane, begin)
        piece.append_to(ring, int(lanes[0]), join(ring.heads[lanes], piece.begins, piece.num_steps))
