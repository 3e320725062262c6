"""Versioned weights for workers; each version is put into the object store once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from recollect.roles import Actor, Algorithm
from recollect.scheme.base import engine

Arrays = dict[str, np.ndarray]
"""Weights by name. Arrays, because Ray reads them from its object store without a copy."""


def pack_weights(module: Actor | nn.Module) -> Arrays:
    """Weights and buffers of a module, copied into arrays, which readers of an object store share."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in module.state_dict().items()}


def unpack_weights(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Undo `pack_weights`; arrays that cannot be written to, as those in an object store, are copied."""
    return {name: torch.from_numpy(array if array.flags.writeable else array.copy()) for name, array in arrays.items()}


class Version(NamedTuple):
    """Weights in the object store, and their number."""

    number: int
    reference: object


class PublishedWeights:
    """Puts the weights of an actor into the object store, once for every version."""

    def __init__(self) -> None:
        self._newest: Version | None = None
        self._num_changes: int | None = None

    @property
    def number(self) -> int:
        """Number of the newest version; 0 before the first."""
        return 0 if self._newest is None else self._newest.number

    def publish(self, actor: Actor, num_changes: int) -> Version:
        """Return the newest version of the weights: a new one if `num_changes`, so far, is not what it was."""
        if self._newest is None or num_changes != self._num_changes:
            self._newest = Version(self.number + 1, engine.put(pack_weights(actor)))
            self._num_changes = num_changes
        return self._newest


@dataclass(frozen=True)
class VersionedWeights:
    """Weights at one version: of the actor, and those that are the algorithm's own, such as temperatures.

    Attributes
    ----------
    actor, multipliers : dict of arrays
        Weights by name.
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
    """A copy of the weights of an algorithm and its actor."""
    weights = pack_weights(algo.actor), pack_weights(algo.multipliers)
    return VersionedWeights(*weights, version, algo.num_learners, algo.num_missed)


def apply_weights(algo: Algorithm, weights: VersionedWeights) -> None:
    """Let an algorithm and its actor adopt the weights of another one."""
    algo.set_weights(unpack_weights(weights.actor))
    algo.multipliers.load_state_dict(unpack_weights(weights.multipliers))
    algo.num_updates = weights.version
    algo.num_learners = weights.num_learners
    algo.num_missed = weights.num_missed


def read_state(algo: Algorithm) -> dict[str, Any]:
    """Everything that another process needs to continue the learning: weights, optimisers, counters, random state."""
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
