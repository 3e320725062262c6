"""Actions in policy units and in environment units: scaling, clipping and random actions."""

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Generator, Tensor, nn

from recollect.agent.actors.spaces import unknown_space
from recollect.agent.masks import choice_counts
from recollect.errors import ConfigError


class BoxActions(nn.Module):
    """Continuous actions.

    Parameters
    ----------
    space : gymnasium.spaces.Box
        Where the environment wants them.
    rescale : bool
        True: policies act in [-1, 1], which is stretched to the space. False: in the environment's own units.
    """

    scale: Tensor
    shift: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, space: gym.spaces.Box, *, rescale: bool) -> None:
        super().__init__()
        # What has no width in float32 has no bounds that an action could be stretched to or drawn between.
        with np.errstate(over="ignore"):
            low, high = (np.asarray(bound, np.float32).flatten() for bound in (space.low, space.high))
            self._is_bounded = bool(np.isfinite(high - low).all())
        if rescale and not self._is_bounded:
            raise ConfigError(
                f"off-policy actors need finite bounds of every action, got {space}; wrap the environment so that its "
                "actions are bounded, for instance in gymnasium.wrappers.TransformAction with a bounded action_space"
            )
        scale, shift = ((high - low) / 2, (high + low) / 2) if rescale else (np.ones_like(low), np.zeros_like(low))
        self._is_scaled = bool((scale != 1).any() or (shift != 0).any())
        constants = {"scale": scale, "shift": shift, "low": low, "high": high}
        for name, values in constants.items():
            self.register_buffer(name, torch.from_numpy(values.copy()), persistent=False)

    def to_env(self, action: Tensor) -> Tensor:
        """Policy units -> environment units, within the bounds, `[batch, action]`."""
        if self._is_scaled:
            action = torch.addcmul(self.shift, action, self.scale)
        return action.clamp(self.low, self.high)

    def from_env(self, action: Tensor) -> Tensor:
        """Environment units -> policy units, `[batch, action]`; an action with a single value is 0."""
        if not self._is_scaled:
            return action
        return ((action - self.shift) / self.scale).masked_fill(self.scale == 0, 0.0).clamp(-1.0, 1.0)

    def draw(self, num: int, generator: Generator, mask: Tensor | None = None) -> Tensor:
        """Draw actions in policy units: uniform within finite bounds, else standard normal, `[num, action]`."""
        uniform = torch.rand(num, len(self.low), generator=generator, device=self.low.device)
        if self._is_bounded:
            low, high = self._policy_bounds()
            return torch.lerp(low.expand_as(uniform), high.expand_as(uniform), uniform)
        return uniform.normal_(generator=generator).clamp(self.low, self.high)

    def _policy_bounds(self) -> tuple[Tensor, Tensor]:
        """Bounds in policy units; an action with a single value is drawn from all of [-1, 1]."""
        is_fixed = self.scale == 0
        low, high = (self.low - self.shift) / self.scale, (self.high - self.shift) / self.scale
        return low.masked_fill(is_fixed, -1.0), high.masked_fill(is_fixed, 1.0)


class ChoiceActions(nn.Module):
    """Choices out of finitely many: counted from 0 by policies, from the space's start by environments.

    Switches, of MultiBinary spaces, are choices between 0 and 1.
    """

    start: Tensor
    counts: Tensor
    _last: Tensor
    _exists: Tensor
    _entries: Tensor

    def __init__(self, space: gym.Space[Any]) -> None:
        super().__init__()
        start = torch.as_tensor(np.array(getattr(space, "start", 0), np.int64)).reshape(-1)
        self._is_shifted = bool(start.any())
        self.register_buffer("start", start, persistent=False)
        counts = torch.tensor(choice_counts(space))
        self.register_buffer("counts", counts, persistent=False)
        self.register_buffer("_last", counts - 1, persistent=False)
        places = torch.arange(int(counts.max()))
        self.register_buffer("_exists", places < counts[:, None], persistent=False)
        # Where a mask has the entry of each action of each choice; of one that does not exist, any.
        entries = (counts.cumsum(0) - counts)[:, None] + places
        self.register_buffer("_entries", entries.where(self._exists, 0), persistent=False)
        self._is_single = isinstance(space, gym.spaces.Discrete)

    def to_env(self, action: Tensor) -> Tensor:
        """Policy units -> environment units, `[batch, num_choices]`."""
        return action + self.start if self._is_shifted else action

    def from_env(self, action: Tensor) -> Tensor:
        """Environment units -> policy units, `[batch, num_choices]`."""
        return action - self.start

    def read_mask(self, mask: Tensor) -> Tensor:
        """Which actions each choice allows, from a mask with an entry for each.

        Parameters
        ----------
        mask : tensor `[..., mask_size]`
            Not 0 where an action is allowed; the choices one after the other.

        Returns
        -------
        bool tensor `[..., num_actions]` for Discrete actions, else `[..., num_choices, max_actions]`
        """
        allowed = (mask != 0)[..., self._entries] & self._exists
        return allowed.squeeze(-2) if self._is_single else allowed

    def draw(self, num: int, generator: Generator, mask: Tensor | None = None) -> Tensor:
        """Draw actions, each that the mask allows equally likely, int64 `[num, num_choices]`."""
        uniform = torch.rand(num, len(self.counts), generator=generator, device=self.counts.device)
        if mask is None:
            # A float32 below 1 times a large count can round up to the count itself.
            return (uniform * self.counts).long().clamp(max=self._last)
        before = mask.reshape(num, len(self.counts), -1).cumsum(-1)  # how many are allowed up to each action
        number = (uniform * before[..., -1]).long().clamp(max=before[..., -1] - 1)
        return (before <= number[..., None]).sum(-1)


def build_actions(space: gym.Space[Any], *, rescale: bool) -> BoxActions | ChoiceActions:
    """Build what translates actions for a space."""
    if isinstance(space, gym.spaces.Box):
        return BoxActions(space, rescale=rescale)
    if not choice_counts(space):
        raise unknown_space("action", space)
    return ChoiceActions(space)
