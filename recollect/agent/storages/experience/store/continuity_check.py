"""`ContinuityCheck`: warns where streams break too often without an end."""

import warnings
from typing import Final

from recollect.agent.storages.experience.store.lane_ring import LaneRing
from recollect.errors import RecollectWarning

_FEWEST_STEPS_TO_WARN: Final = 1000
_WARNED_SHARE_OF_CUTS: Final = 0.01


class ContinuityCheck:
    """Warns once that many steps led to another observation than the next one started from.

    Attributes
    ----------
    has_warned : bool
        Whether it has.
    """

    def __init__(self) -> None:
        self.has_warned = False

    def check(self, ring: LaneRing) -> None:
        """Compare the breaks found in a ring with the steps it was given."""
        num_steps, num_cuts = int(ring.heads.sum()), ring.num_cuts
        if self.has_warned or num_steps < _FEWEST_STEPS_TO_WARN:
            return
        if num_cuts > _WARNED_SHARE_OF_CUTS * num_steps:
            self.has_warned = True
            warnings.warn(
                f"{num_cuts:,} of {num_steps:,} steps led to another observation than the next step starts from, "
                "though no episode ended; such steps cost memory and shorten windows. "
                "Normalise in the actor, store raw.",
                RecollectWarning,
                stacklevel=4,
            )
