"""What learning has come to, as it travels between workers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from recollect.roles import Algorithm
from recollect.scheme.weights import pack_weights, unpack_weights

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class VersionedWeights:
    """Weights at one version: of the actor, and those that are the algorithm's own, such as temperatures.

    Attributes
    ----------
    actor, multipliers : dict of arrays
        Weights by name. Arrays, because Ray reads them from its object store without a copy.
    version : int
        Updates that were applied to them.
    num_learners : int
        Workers whose gradients make one update together.
    num_missed : int
        Updates that past stages were to bring and did not.
    """

    actor: Arrays
    multipliers: Arrays
    version: int
    num_learners: int = 1
    num_missed: int = 0


def read_weights(algo: Algorithm, version: int) -> VersionedWeights:
    """What an algorithm and its actor have learned; a copy."""
    weights = pack_weights(algo.actor), pack_weights(algo.multipliers)
    return VersionedWeights(*weights, version, algo.num_learners, algo.num_missed)


def apply_weights(algo: Algorithm, learned: VersionedWeights) -> None:
    """Let an algorithm and its actor adopt what another one has learned."""
    algo.set_weights(unpack_weights(learned.actor))
    algo.multipliers.load_state_dict(unpack_weights(learned.multipliers))
    algo.num_updates = learned.version
    algo.num_learners = learned.num_learners
    algo.num_missed = learned.num_missed


def read_state(algo: Algorithm) -> dict[str, Any]:
    """All that it takes to learn on elsewhere as if here: weights, optimisers, counters, chance."""
    return {"actor": pack_weights(algo.actor), "algorithm": algo.state()}


def apply_state(algo: Algorithm, state: Mapping[str, Any], *, with_chance: bool) -> None:
    """Resume from what `read_state` gave.

    Parameters
    ----------
    with_chance : bool
        Draw the same random numbers too. Workers that learn side by side must not.
    """
    chance = algo.generator.get_state()
    algo.set_weights(unpack_weights(state["actor"]))
    algo.load_state(state["algorithm"])
    if not with_chance:
        algo.generator.set_state(chance)
