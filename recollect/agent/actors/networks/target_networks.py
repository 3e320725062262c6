"""Slow copies: networks that follow trained ones."""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


def frozen_copy(module: Any) -> Any:
    """Copy a network; the copy takes no gradients."""
    return copy.deepcopy(module).requires_grad_(False)


class TargetNetworks:
    """The weights of slow copies beside those that they follow.

    What else a network of the user's own keeps, such as the statistics of a batch norm, is copied.

    Parameters
    ----------
    pairs : iterable of (module, module)
        Each trained network and its copy; pairs without a copy are left out.
    """

    def __init__(self, pairs: Iterable[tuple[nn.Module | None, nn.Module | None]]) -> None:
        self._leading: list[Tensor] = []
        self._following: list[Tensor] = []
        self._with_buffers: list[tuple[nn.Module, nn.Module]] = []
        for leader, follower in pairs:
            if leader is not None and follower is not None:
                self._leading.extend(leader.parameters())
                self._following.extend(follower.parameters())
                if len(leader.state_dict()) > len(list(leader.parameters())):
                    self._with_buffers.append((leader, follower))

    @torch.no_grad()
    def move(self, tau: float) -> None:
        """Move each copy a share `tau` of the way to what it follows; 1 copies."""
        if self._following:
            torch._foreach_lerp_(self._following, self._leading, tau)
        for leader, follower in self._with_buffers:
            for source, copied in zip(leader.buffers(), follower.buffers(), strict=True):
                copied.copy_(source)
