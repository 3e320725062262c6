"""`Outbox`: a storage-like buffer of a worker's newest steps, which are sent as a piece."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from recollect.agent.storages.experience.store.experience_store import ExperienceStore
from recollect.agent.storages.experience.store.ring.lane_ring import ids_of
from recollect.agent.storages.experience.store.ring.ring_piece import RingPiece


class Outbox:
    """A small store of steps on their way to another one of the same kind.

    Parameters
    ----------
    store : ExperienceStore
        The store; its sequences, if it has any, are single steps, so that it keeps the hidden state of each.
    before : Outbox, optional
        The one whose streams it continues.
    """

    def __init__(self, store: ExperienceStore, before: "Outbox | None" = None) -> None:
        self._store = store
        # Numbers that the first steps of the store have in their streams, and that the next ones to be sent have in it.
        self._origins = np.zeros(store.num_envs, np.int64) if before is None else before.num_sent
        self._next = np.zeros(store.num_envs, np.int64)
        self._num_cuts = 0

    @property
    def has_sent(self) -> bool:
        """Whether it has handed any steps over."""
        return bool(self._next.any())

    @property
    def num_sent(self) -> np.ndarray:
        """Steps sent so far, of each lane."""
        return self._origins + self._next

    def continue_after(self, num_sent: np.ndarray) -> None:
        """Continue the streams after the steps that another outbox has sent, int64 [num_envs]."""
        self._origins = np.array(num_sent, np.int64)

    def expect(self, num_steps: int) -> None:
        """Make room for `num_steps` steps, and for the one before, which shows how the stream continues."""
        if self._store.size < num_steps + 1:
            self._store.resize(num_steps + 1)

    def insert_transition(self, sample: Mapping[str, Any]) -> None:
        """Take one step of every env, arrays or tensors `[num_envs, ...]`, but for rows marked `Skip`."""
        self._store.insert(sample)

    def take(self) -> RingPiece | None:
        """The steps since the last time, None before the first one; of too many, the newest."""
        if not self._store.is_built:
            return None
        ring = self._store.ring
        begins, ends = np.maximum(self._next, ring.firsts), ring.heads.copy()
        states = list(self._store.starts.states(ids_of(begins, ends)).values())
        num_cuts = ring.num_cuts - self._num_cuts
        piece = RingPiece.cut_from(ring, 0, begins, ends, origins=self._origins, num_cuts=num_cuts, states=states)
        self._next, self._num_cuts = ends, ring.num_cuts
        return piece
