"""Slow copies: networks that follow trained ones."""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


def frozen_copy(module: Any) -> Any:
    """Copy a network; the copy takes no gradients."""
    return copy.deepcopy(module).requires_grad_(False)


class Followers:
    """The weights of slow copies beside those that they follow.

    Parameters
    ----------
    pairs : iterable of (module, module)
        Each trained network and its copy; pairs without a copy are left out.
    """

    def __init__(self, pairs: Iterable[tuple[nn.Module | None, nn.Module | None]]) -> None:
        self._leading: list[Tensor] = []
        self._following: list[Tensor] = []
        for leader, follower in pairs:
            if leader is not None and follower is not None:
                self._leading.extend(leader.parameters())
                self._following.extend(follower.parameters())

    @torch.no_grad()
    def move(self, tau: float) -> None:
        """Move each copy a share `tau` of the way to what it follows; 1 copies."""
        if self._following:
            torch._foreach_lerp_(self._following, self._leading, tau)
