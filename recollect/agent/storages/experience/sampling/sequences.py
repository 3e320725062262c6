"""Valid starts of a batch's rows: every step, or every stride-th one as the start of a sequence.

Each step is stored once; overlapping sequences are a stride at read time. Hidden states are kept only
where a sequence starts.
"""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from recollect import keys
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.schema.schema import KeyPath, Leaf
from recollect.errors import ConfigError, RecollectWarning, StorageError


class Starts:
    """The table of starts that the kernels read, for rows of `length` steps every `stride` steps.

    Single steps have no more than that table: what sequences keep beside it is nothing here.

    Attributes
    ----------
    overlap : int
        Steps that a row shares with the one before.
    table : int64 [A_NUM_WORDS, num_lanes]
        For each lane: where its grid of starts begins, stride, length, and the end of its context.
    """

    def __init__(self, num_lanes: int, length: int = 1, overlap: int = 0) -> None:
        self.length = length
        self.overlap = overlap
        self.stride = length - overlap
        self.table = self._fresh(num_lanes)

    @property
    def num_bytes(self) -> int:
        """Bytes of the hidden states that are kept."""
        return 0

    def follow(self, ring: LaneRing) -> None:
        """Adapt to a ring of another size."""
        fresh = self._fresh(ring.num_lanes)
        fresh[:, : self.table.shape[1]] = self.table
        self.table = fresh

    def first(self, ring: LaneRing, lane: int) -> int:
        """Number of the oldest step of `lane` that a row may start at, once it has all of its steps."""
        base = int(self.table[layout.A_BASE, lane])
        return base - (base - int(ring.firsts[lane])) // self.stride * self.stride

    def numbers(self, ring: LaneRing, lane: int) -> np.ndarray:
        """Numbers of the steps of `lane` that rows may start at now."""
        return np.arange(self.first(ring, lane), ring.heads[lane] - self.length + 1, self.stride, dtype=np.int64)

    def slots(self, ring: LaneRing) -> np.ndarray:
        """Slots of all steps that rows may start at now."""
        return np.concatenate(
            [lane * ring.num_slots + self.numbers(ring, lane) % ring.num_slots for lane in range(ring.num_lanes)]
        )

    def expand(self, ring: LaneRing, ids: np.ndarray, num_steps: int) -> np.ndarray:
        """Ids of `num_steps` steps from each start on, `[num_seq * num_steps]`; the newest one repeats."""
        newest = (ids & ~np.int64(layout.ID_MASK)) | (ring.heads[ids >> layout.ID_SHIFT] - 1)
        steps: np.ndarray = np.minimum(ids[:, None] + np.arange(num_steps), newest[:, None]).ravel()
        return steps

    def keep(self, lane: int, heads: np.ndarray, states: list[np.ndarray]) -> None:
        """Keep the states `[time, num_envs, ...]` of the steps from `heads` [num_envs] on where rows start."""

    def states(self, ids: np.ndarray) -> dict[KeyPath, np.ndarray]:
        """Hidden states at the starts `ids` [batch], by path."""
        return {}

    def columns(self, ids: np.ndarray) -> dict[KeyPath, np.ndarray]:
        """What is known of any steps `ids` [batch], by path: where rows start, and hidden states, elsewhere 0."""
        return {}

    def align(self, ring: LaneRing, lane: int, marks: np.ndarray) -> None:
        """Let rows start where `marks` [time, num_envs] of the steps to come say, in lanes that hold no start yet."""

    def restart(self, ring: LaneRing) -> None:
        """Make the last `overlap` steps of each lane the context of its next row."""

    def state(self, ring: LaneRing, since: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """What a snapshot needs beside the ring.

        Parameters
        ----------
        ring : LaneRing
            The steps.
        since : int64 [num_lanes], optional
            Oldest step of each lane of which it is asked.
        """
        return {}

    def load_state(self, ring: LaneRing, states: Sequence[Mapping[str, np.ndarray]]) -> None:
        """Resume from what `state` gave, of a ring that may have been larger: first all, then what was new."""

    def _fresh(self, num_lanes: int) -> np.ndarray:
        table = np.zeros((layout.A_NUM_WORDS, num_lanes), np.int64)
        table[layout.A_STRIDE] = self.stride
        table[layout.A_LENGTH] = self.length
        return table


class Sequences(Starts):
    """Fixed-length sequences for recurrent actors, with the hidden state at each one's start.

    Parameters
    ----------
    num_lanes, num_slots : int
        Size of the ring.
    length : int
        Steps of a sequence.
    overlap : int
        Steps that a sequence shares with the one before: burn-in, not trained on.
    hidden : list of Leaf
        The hidden state's arrays.
    """

    def __init__(self, num_lanes: int, num_slots: int, length: int, overlap: int, hidden: Sequence[Leaf]) -> None:
        super().__init__(num_lanes, length, overlap)
        self._hidden = list(hidden)
        self._states = self._empty(num_lanes, num_slots // self.stride + 2)
        # The states of the last steps, so that a reset may start a sequence at any of them.
        self._recent = self._empty(num_lanes, overlap + 1)

    @property
    def num_bytes(self) -> int:
        return sum(states.nbytes for states in (*self._states, *self._recent))

    def keep(self, lane: int, heads: np.ndarray, states: list[np.ndarray]) -> None:
        bases = self.table[layout.A_BASE, lane : lane + len(heads)]
        if (heads == heads[0]).all() and (bases == bases[0]).all():
            self._keep(lane, int(heads[0]), states)
            return
        for env, head in enumerate(heads):
            self._keep(lane + env, int(head), [values[:, env : env + 1] for values in states])

    def _keep(self, lane: int, head: int, states: list[np.ndarray]) -> None:
        """Keep the states where sequences start, and the last ones, of neighbouring lanes that have got equally far."""
        if not states:
            return
        num_steps, num_envs = states[0].shape[:2]
        lanes = slice(lane, lane + num_envs)
        numbers = np.arange(head, head + num_steps)
        grid, offsets = np.divmod(numbers - self.table[layout.A_BASE, lane], self.stride)
        starts = np.flatnonzero(offsets == 0)[-self._states[0].shape[1] :]
        last = np.arange(max(0, num_steps - self.overlap - 1), num_steps)
        for kept, recent, values in zip(self._states, self._recent, states, strict=True):
            if len(starts):
                kept[lanes, grid[starts] % kept.shape[1]] = values[starts].swapaxes(0, 1)
            recent[lanes, numbers[last] % recent.shape[1]] = values[last].swapaxes(0, 1)

    def states(self, ids: np.ndarray) -> dict[KeyPath, np.ndarray]:
        lanes, numbers = ids >> layout.ID_SHIFT, ids & layout.ID_MASK
        grid = (numbers - self.table[layout.A_BASE, lanes]) // self.stride
        return {
            leaf.path: kept[lanes, grid % kept.shape[1]] for leaf, kept in zip(self._hidden, self._states, strict=True)
        }

    def columns(self, ids: np.ndarray) -> dict[KeyPath, np.ndarray]:
        base = self.table[layout.A_BASE, ids >> layout.ID_SHIFT]
        is_start = ((ids & layout.ID_MASK) - base) % self.stride == 0
        states = self.states(ids)
        for values in states.values():
            values[~is_start] = 0
        return {(keys.START,): is_start[:, None], **states}

    def align(self, ring: LaneRing, lane: int, marks: np.ndarray) -> None:
        num_unknown = 0
        for each, known in enumerate(marks.T, lane):
            numbers = ring.heads[each] + np.arange(len(known))
            if self.first(ring, each) >= ring.heads[each]:
                self.table[layout.A_BASE, each] = numbers[known.argmax()] if known.any() else numbers[-1] + 1
            is_start = (numbers - self.table[layout.A_BASE, each]) % self.stride == 0
            num_unknown += int((is_start & ~known).sum())
        if num_unknown and self._hidden:
            warnings.warn(
                f"{num_unknown} sequences of this storage start at steps whose hidden states are not known, because "
                f"{keys.START!r} says that those of the storage they come from start elsewhere; these states are 0. "
                "Copy into an empty storage with sequences of the same length and overlap.",
                RecollectWarning,
                stacklevel=2,
            )

    def restart(self, ring: LaneRing) -> None:
        for lane in range(ring.num_lanes):
            head = ring.heads[lane]
            base = max(head - self.overlap, ring.firsts[lane])
            self.table[layout.A_BASE, lane] = base
            self.table[layout.A_CONTEXT, lane] = head
            numbers = np.arange(base, head, self.stride)
            for kept, recent in zip(self._states, self._recent, strict=True):
                kept[lane, np.arange(len(numbers)) % kept.shape[1]] = recent[lane, numbers % recent.shape[1]]

    def follow(self, ring: LaneRing) -> None:
        old_states, num_lanes = self._states, self.table.shape[1]
        old_recent = self._recent
        self._states = self._empty(ring.num_lanes, ring.num_slots // self.stride + 2)
        self._recent = self._empty(ring.num_lanes, self.overlap + 1)
        for old, new in zip(old_recent, self._recent, strict=True):
            new[:num_lanes] = old
        for lane in range(num_lanes):
            grid = (self._begun(ring, lane) - self.table[layout.A_BASE, lane]) // self.stride
            for old, new in zip(old_states, self._states, strict=True):
                new[lane, grid % new.shape[1]] = old[lane, grid % old.shape[1]]
        super().follow(ring)

    def state(self, ring: LaneRing, since: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """The table, and the states at the starts and of the last steps."""
        begun = [self._begun(ring, lane) | (lane << layout.ID_SHIFT) for lane in range(ring.num_lanes)]
        ids = np.concatenate(begun)
        if since is not None:
            ids = ids[(ids & layout.ID_MASK) >= since[ids >> layout.ID_SHIFT]]
        arrays = {"table": self.table.copy(), "ids": ids}
        for index, (states, recent) in enumerate(zip(self.states(ids).values(), self._recent, strict=True)):
            arrays |= {f"states{index}": states, f"recent{index}": recent.copy()}
        return arrays

    def load_state(self, ring: LaneRing, states: Sequence[Mapping[str, np.ndarray]]) -> None:
        self.table[...] = self._checked_table(ring, states[-1]["table"])
        for index, recent in enumerate(self._recent):
            recent[...] = _checked(states[-1][f"recent{index}"], recent.shape, recent.dtype)
        for arrays in states:
            ids = _checked(arrays["ids"], arrays["ids"].shape[:1], np.dtype(np.int64))
            lanes, numbers = ids >> layout.ID_SHIFT, ids & layout.ID_MASK
            if (lanes < 0).any() or (lanes >= ring.num_lanes).any():
                raise StorageError("sequences start in lanes that are not there")
            stored = numbers >= ring.firsts[lanes]
            grid = (numbers - self.table[layout.A_BASE, lanes]) // self.stride
            for index, (kept, leaf) in enumerate(zip(self._states, self._hidden, strict=True)):
                values = _checked(arrays[f"states{index}"], (len(ids), *leaf.shape), leaf.dtype)
                kept[lanes[stored], grid[stored] % kept.shape[1]] = values[stored]

    def _checked_table(self, ring: LaneRing, given: np.ndarray) -> np.ndarray:
        """A table from elsewhere: grids may begin anywhere, context ends with the steps, the rest is this store's."""
        table = _checked(given, self.table.shape, self.table.dtype)
        own = [layout.A_STRIDE, layout.A_LENGTH]
        if (table[own] != self.table[own]).any() or (table < 0).any() or (table > layout.ID_MASK).any():
            raise StorageError("a table of sequences is not that of this storage")
        if (table[layout.A_CONTEXT] > ring.heads).any():
            raise StorageError("a table of sequences has more context than there are steps")
        return table

    def _begun(self, ring: LaneRing, lane: int) -> np.ndarray:
        """Starts of the sequences of `lane`, with those that are still being filled."""
        return np.arange(self.first(ring, lane), ring.heads[lane], self.stride, dtype=np.int64)

    def _empty(self, num_lanes: int, num_states: int) -> list[np.ndarray]:
        return [np.zeros((num_lanes, num_states, *leaf.shape), leaf.dtype) for leaf in self._hidden]


def _checked(array: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array from elsewhere, which must not be stretched or converted to fit."""
    if array.shape != shape or array.dtype != dtype:
        raise StorageError(f"expected {dtype} of the shape {shape}, got {array.dtype} of {array.shape}")
    return array


def check_sequence(length: int, overlap: int, capacity: int) -> None:
    """Refuse sequences that cannot be."""
    if length < 1 or not 0 <= overlap < length:
        raise ConfigError(
            f"a sequence needs length >= 1 and 0 <= overlap < length, got length {length} and overlap {overlap}"
        )
    if capacity < length:
        raise ConfigError(
            f"each lane holds {capacity} steps, fewer than a sequence of {length}; "
            "use a larger size or shorter sequences"
        )
