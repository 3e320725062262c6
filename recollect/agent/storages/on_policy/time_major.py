"""The steps of all lanes in time-major order, for computations along time and for sequences."""

import numpy as np
import torch

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.errors import StorageError


class TimeMajorSteps:
    """All stored steps as `[time, lanes]`, each lane's oldest first; shorter lanes are padded at their ends.

    Parameters
    ----------
    ring : LaneRing
        Where the steps are.

    Attributes
    ----------
    ids : int64 array [num_steps]
        Ids of the steps, lane after lane: the order of `in_order`.
    is_step : bool tensor [time, lanes]
        Where there is a step and not padding.
    continues : bool tensor [time, lanes]
        Where the step below is the next of the same stream: no end, no break, not the newest.
    """

    def __init__(self, ring: LaneRing) -> None:
        time = int(ring.sizes.max())
        if time == 0:
            raise StorageError("the storage is empty: insert data before gradients are computed")
        numbers = ring.firsts + np.arange(time)[:, None]  # [time, lanes]
        ids = (np.arange(ring.num_lanes) << layout.ID_SHIFT) | numbers
        is_step = numbers < ring.heads
        self.ids = ids.T[is_step.T]
        self.is_step = torch.from_numpy(is_step)
        self._slots = torch.from_numpy(ring.slots(ids))
        is_broken = ring.are_cut(self.ids)
        is_newest = (numbers == ring.heads - 1).T[is_step.T]
        self.continues = self.padded(torch.from_numpy(~(is_broken | is_newest)))

    def column(self, stored: torch.Tensor) -> torch.Tensor:
        """A stored column `[lanes, slots, 1]` as `[time, lanes]`, 0 in the padding."""
        values = stored.reshape(-1)[self._slots]
        return torch.where(self.is_step, values, values.new_zeros(()))

    def in_order(self, values: torch.Tensor) -> torch.Tensor:
        """Take the steps out of `[time, lanes]`, lane after lane: `[num_steps]`."""
        return values.T[self.is_step.T]

    def padded(self, values: torch.Tensor) -> torch.Tensor:
        """Undo `in_order`: values `[num_steps]` of all steps as `[time, lanes]`, 0 in the padding."""
        spread = values.new_zeros(self.is_step.T.shape)
        spread[self.is_step.T] = values
        return spread.T

    def run_positions(self, done: torch.Tensor) -> torch.Tensor:
        """How many steps of the same run come before each step, int64 [time, lanes].

        A run is what a memory can be carried through. It ends where its stream breaks, unless an episode
        begins there: `done` [time, lanes] then resets the memory on the way.
        """
        broken_before = torch.ones_like(self.is_step)
        broken_before[1:] = ~self.continues[:-1] & ~done[1:]
        time = torch.arange(len(self.is_step))[:, None]
        return time - torch.where(broken_before, time, 0).cummax(dim=0).values
