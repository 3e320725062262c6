"""Warns if streams break too often without an episode end."""

import warnings
from typing import Final

from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.errors import RecollectWarning

_MIN_STEPS_TO_WARN: Final = 1000
_WARNED_SHARE_OF_CUTS: Final = 0.01


def warn_of_cuts(ring: LaneRing) -> bool:
    """Warn if many steps of a ring led to another observation than the next one started from; returns whether."""
    num_steps, num_cuts = int(ring.heads.sum()), ring.num_cuts
    if num_steps < _MIN_STEPS_TO_WARN or num_cuts <= _WARNED_SHARE_OF_CUTS * num_steps:
        return False
    warnings.warn(
        f"{num_cuts:,} of {num_steps:,} steps led to another observation than the next step starts from, "
        "though no episode ended; such steps cost memory and shorten windows. "
        "Normalise in the actor, store raw.",
        RecollectWarning,
        stacklevel=4,
    )
    return True
