"""`RingAccess`: a store's ring, and the parts that write and read it, once the first sample is known."""

from typing import Final

import numpy as np
import torch

from recollect.agent.storages.experience.kernels import draw_kernels, gather_kernels
from recollect.agent.storages.experience.sampling.outputs import Name, OutputPlan
from recollect.agent.storages.experience.sampling.sequences import Starts
from recollect.agent.storages.experience.sampling.tensor_pool import MakeTensor
from recollect.agent.storages.experience.store.intake import Intake, StepArrays, runs_of
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.ring.ring_piece import RingPiece
from recollect.agent.storages.experience.store.sources import Continuation
from recollect.errors import StorageError

NO_FLOORS: Final = np.empty(0, np.int64)


class RingAccess:
    """A ring with what reads samples into it, says where rows start, and gathers them.

    Parameters
    ----------
    ring : LaneRing
        The steps.
    intake : Intake
        Reads samples of the ring's schema.
    starts : Starts
        Which steps rows may start at.
    make_tensor : callable
        Makes the tensors that batches are gathered into.

    Attributes
    ----------
    any_step : Starts
        Every step, also where rows are sequences.
    plan : OutputPlan
        Gathers batches.
    shifted_plan : OutputPlan or None
        Gathers batches in which the stacks of both ends share the memory of their common frames.
    """

    def __init__(self, ring: LaneRing, intake: Intake, starts: Starts, make_tensor: MakeTensor) -> None:
        self.ring = ring
        self.intake = intake
        self.starts = starts
        self.any_step = Starts(ring.num_lanes)
        self._has_starts = False
        self._make_tensor = make_tensor
        self.plan = OutputPlan(ring, make_tensor=make_tensor)
        self.shifted_plan = None
        if ring.schema.depth > 1:
            self.shifted_plan = OutputPlan(ring, make_tensor=make_tensor, shifted_stacks=True)

    def moved_to(self, ring: LaneRing) -> "RingAccess":
        """The lanes with another ring, which holds the same steps, or the newest of them."""
        self.starts.follow(ring)
        return RingAccess(ring, self.intake, self.starts, self._make_tensor)

    def append(self, span: np.ndarray, addresses: np.ndarray, hidden: list[np.ndarray]) -> None:
        """Append the steps of `span` (first lane, lanes, first step, end) and their states `[time, lanes, ...]`."""
        heads = self.ring.heads[span[0] : span[0] + span[1]].copy()
        self.ring.append(span, addresses)
        self.starts.keep(span[0], heads, hidden)

    def append_piece(self, piece: RingPiece, lane: int, joint: Continuation) -> int:
        """Append the steps of a piece that are not known yet to the lanes from `lane` on; returns how many that is."""
        lanes, states = slice(lane, lane + len(piece.begins)), piece.states
        heads = self.ring.heads[lanes].copy()
        piece.append_to(self.ring, lane, joint)
        num_new = self.ring.heads[lanes] - heads
        for env, end in enumerate(np.cumsum(piece.num_steps) if states else ()):
            newest = [values[end - num_new[env] : end, None] for values in states]
            self.starts.keep(lane + env, heads[env : env + 1], newest)
        return int(num_new.sum())

    def append_slice(self, new: StepArrays, lane: int, begin: int) -> None:
        """Append the steps of a slice from `begin` on to the lanes from `lane` on."""
        skips, starts = new.marks
        if skips is not None:
            self._append_kept(new, lane, begin, skips)
            return
        if starts is not None:
            self.starts.align(self.ring, lane, starts[begin:, :, 0])
        span = np.array([lane, new.cuts.shape[1], begin, new.num_steps], np.int64)
        self.append(span, new.addresses, [states[begin:] for states in new.hidden])

    def _append_kept(self, new: StepArrays, lane: int, begin: int, skips: np.ndarray) -> None:
        """Append the steps that are not to be skipped; a skipped one that is a cut breaks the stream before it."""
        breaks = skips & new.cuts
        for step in range(begin, new.num_steps):
            for env in np.flatnonzero(breaks[step]):
                self.ring.cut_lanes([lane + int(env)])
            for first, end in runs_of(~skips[step, :, 0]):
                span = np.array([lane + first, end - first, 0, 1], np.int64)
                rows = new.addresses + (step * skips.shape[1] + first) * self.intake.row_bytes
                self.append(span, rows, [states[step : step + 1, first:end] for states in new.hidden])

    def forget(self) -> None:
        """Forget all steps but the last `overlap` ones of each lane, the context of what comes."""
        ring = self.ring
        for lane in range(ring.num_lanes):
            ring.forget(lane, max(ring.heads[lane] - self.starts.overlap, ring.firsts[lane]))
        self.starts.restart(ring)
        self._has_starts = False

    @property
    def num_steps(self) -> int:
        """Steps stored in all lanes together, context apart."""
        num_steps: int = draw_kernels.count_steps(self.ring.header, self.starts.table)
        return num_steps

    def check_drawable(self) -> None:
        """Refuse to draw where there is nothing to draw."""
        if self._has_starts:
            return
        length = self.starts.length
        if draw_kernels.count_starts(self.ring.header, self.starts.table, NO_FLOORS) == 0:
            if length > 1:
                raise StorageError(
                    f"no sequence of {length} steps is stored yet; the storage has {self.num_steps} steps"
                )
            raise StorageError("the storage is empty: insert data before sampling")
        # A stored step stays drawable until a reset; the only complete sequence may be overwritten.
        self._has_starts = length == 1

    def draw(self, uniforms: np.ndarray, floors: np.ndarray = NO_FLOORS) -> np.ndarray:
        """Draw starts with equal chances: ids int64 [batch]."""
        ids = np.empty(len(uniforms), np.int64)
        draw_kernels.draw_uniform(self.ring.header, self.starts.table, floors, uniforms, ids)
        return ids

    def draw_steps(self, uniforms: np.ndarray) -> np.ndarray:
        """Draw any stored steps with equal chances, also where rows are sequences: ids int64 [count]."""
        ids = np.empty(len(uniforms), np.int64)
        draw_kernels.draw_uniform(self.ring.header, self.any_step.table, NO_FLOORS, uniforms, ids)
        return ids

    def gather(
        self, ids: np.ndarray, limits: np.ndarray, gamma: float, *, may_overlap: bool = True
    ) -> dict[Name, torch.Tensor]:
        """Rows of the windows from `ids` on, of at most `limits` [batch] or [1] steps, by name, `[batch, ...]`.

        Where they `may_overlap`, the stacks of both ends share the memory of their common frames.
        """
        shifted = self.shifted_plan
        if shifted is not None and may_overlap and gather_kernels.stacks_shift(self.ring.header, ids, limits):
            return shifted.gather(ids, limits, gamma)
        return self.plan.gather(ids, limits, gamma)
