"""Weights on their way to workers: versions, each put into the object store once."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from recollect.roles import Actor
from recollect.scheme.base import engine


def pack_weights(module: Actor | nn.Module) -> dict[str, np.ndarray]:
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
        """Return the newest version, a new one if the weights have changed since.

        Parameters
        ----------
        actor : Actor
            Owner of the weights.
        num_changes : int
            How often they were changed so far.
        """
        if self._newest is None or num_changes != self._num_changes:
            self._newest = Version(self.number + 1, engine.put(pack_weights(actor)))
            self._num_changes = num_changes
        return self._newest
