"""Target networks: copies that track the trained networks slowly."""

import copy
from collections.abc import Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn

ModuleType = TypeVar("ModuleType", bound=nn.Module)


def frozen_copy(module: ModuleType) -> ModuleType:
    """Copy a network; the copy takes no gradients."""
    return copy.deepcopy(module).requires_grad_(False)


class TargetNetworks:
    """Moves target networks towards the networks that they track.

    What else a network of the user's own keeps, such as the statistics of a batch norm, is copied.

    Parameters
    ----------
    pairs : iterable of (module, module)
        Each trained network and its target; pairs without a target are left out.
    """

    def __init__(self, pairs: Iterable[tuple[nn.Module | None, nn.Module | None]]) -> None:
        self._online: list[Tensor] = []
        self._target: list[Tensor] = []
        self._with_buffers: list[tuple[nn.Module, nn.Module]] = []
        for online, target in pairs:
            if online is not None and target is not None:
                self._online.extend(online.parameters())
                self._target.extend(target.parameters())
                if online.state_dict().keys() & {name for name, _ in online.named_buffers()}:
                    self._with_buffers.append((online, target))

    @torch.no_grad()
    def update(self, tau: float) -> None:
        """Move every target a share `tau` of the way to its network; 1 copies."""
        if self._target:
            torch._foreach_lerp_(self._target, self._online, tau)
        for online, target in self._with_buffers:
            for source, copied in zip(online.buffers(), target.buffers(), strict=True):
                copied.copy_(source)
