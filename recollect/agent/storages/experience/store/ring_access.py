"""`RingAccess`: what a store has once its first sample is known: the ring, and the parts that go in and out of it."""

import numpy as np

from recollect.agent.storages.experience.sampling.outputs import OutputPlan
from recollect.agent.storages.experience.sampling.sequences import Starts
from recollect.agent.storages.experience.store.intake import Intake, StepArrays, runs_of
from recollect.agent.storages.experience.store.lane_ring import LaneRing


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

    Attributes
    ----------
    any_step : Starts
        Every step, also where rows are sequences.
    plan : OutputPlan
        Gathers batches.
    shifted_plan : OutputPlan or None
        Gathers batches in which the stacks of both ends share the memory of their common frames.
    """

    def __init__(self, ring: LaneRing, intake: Intake, starts: Starts) -> None:
        self.ring = ring
        self.intake = intake
        self.starts = starts
        self.any_step = Starts(ring.num_lanes)
        self.plan = OutputPlan(ring)
        self.shifted_plan = OutputPlan(ring, shifted_stacks=True) if ring.schema.depth > 1 else None

    def moved_to(self, ring: LaneRing) -> "RingAccess":
        """The lanes with another ring, which holds the same steps, or the newest of them."""
        self.starts.follow(ring)
        return RingAccess(ring, self.intake, self.starts)

    def append(self, span: np.ndarray, addresses: np.ndarray, hidden: list[np.ndarray]) -> None:
        """Append the steps of `span` (first lane, lanes, first step, end) and their states `[time, lanes, ...]`."""
        heads = self.ring.heads[span[0] : span[0] + span[1]].copy()
        self.ring.append(span, addresses)
        self.starts.keep(span[0], heads, hidden)

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
