"""`Rows`: one worker's share of a collection's environments, so that several workers act as one."""

from typing import NamedTuple, TypeVar

import numpy as np
import torch

from recollect.agent.actors.spaces import map_observation
from recollect.roles import ActingStep, Observation

_Values = TypeVar("_Values", np.ndarray, torch.Tensor)


class Rows(NamedTuple):
    """The rows of one worker's environments among those of all workers.

    Every worker acts on as many rows as all have together, with its own where they belong. So actions are computed by
    the same kernels on the same shapes, and random numbers drawn in the same order, however many workers there are.
    Matrix products of fewer rows may differ in their last bits.

    Attributes
    ----------
    first : int
        Place of the worker's first environment among all.
    num_all : int
        Environments of all workers, a multiple of the worker's.
    """

    first: int
    num_all: int

    def fill(self, values: _Values) -> _Values:
        """Rows for all environments `[num_all, ...]`: the worker's own `[num_envs, ...]`, over and over."""
        num_repeats = self.num_all // len(values)
        if num_repeats == 1:
            return values
        if isinstance(values, np.ndarray):
            return np.concatenate([values] * num_repeats)
        return torch.cat([values] * num_repeats)

    def fill_obs(self, obs: Observation) -> Observation:
        """Observations for all environments: the worker's own, over and over."""
        return map_observation(self.fill, obs)

    def take(self, values: torch.Tensor, num_envs: int) -> torch.Tensor:
        """The worker's own rows `[num_envs, ...]` of all."""
        return values[self.first : self.first + num_envs]

    def take_step(self, chosen: ActingStep, num_envs: int) -> ActingStep:
        """What was chosen for the worker's own environments."""
        action, clipped_action, rhs, other = chosen
        own = [self.take(values, num_envs) for values in (action, clipped_action, rhs)]
        return own[0], own[1], own[2], {name: self.take(values, num_envs) for name, values in other.items()}
