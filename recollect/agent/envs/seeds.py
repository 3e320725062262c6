"""Seeds of envs, derived from the run's seed and an env's index."""

from collections.abc import Sequence
from typing import Final

import numpy as np

# What every kind of env takes: EnvPool has 31 bits.
_NUM_SEEDS: Final = 2**31 - 1


def derive_seeds(place: Sequence[int], count: int) -> list[int]:
    """Derive seeds from numbers that say what they are for; the first ones do not depend on `count`."""
    states = np.random.SeedSequence(list(place)).generate_state(count)
    return [int(state) % _NUM_SEEDS for state in states]
