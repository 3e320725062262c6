"""Normalisers of several workers kept as one: what each has seen since the last time is added up."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from recollect.agent.actors.networks.normalise import RunningMeanStd

# By the name of a normaliser: count, sum and sum of squares of all rows, float64 [3, *shape].
Sums = dict[str, np.ndarray]


def take_sums(actor: Any) -> Sums:
    """Sums of all that the normalisers of an actor have seen; empty if it has none."""
    return {name: _sums(moments) for name, moments in _moments(actor)}


def put_sums(actor: Any, sums: Mapping[str, np.ndarray]) -> None:
    """Let the normalisers of an actor be as if they had seen what `sums` tell."""
    for name, moments in _moments(actor):
        _set(moments, sums[name])


def gain(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> Sums:
    """What was seen between two moments."""
    return {name: after[name] - before[name] for name in after}


def add(base: Mapping[str, np.ndarray], gains: Iterable[Mapping[str, np.ndarray]]) -> Sums:
    """Sums with the gains of several workers."""
    total = dict(base)
    for each in gains:
        for name, values in each.items():
            total[name] = total[name] + values
    return total


def _moments(actor: Any) -> list[tuple[str, RunningMeanStd]]:
    modules = actor.named_modules() if isinstance(actor, torch.nn.Module) else ()
    return [(name, module) for name, module in modules if isinstance(module, RunningMeanStd)]


def _sums(moments: RunningMeanStd) -> np.ndarray:
    count, mean, variance = (buffer.cpu().numpy() for buffer in (moments.count, moments.mean, moments.variance))
    return np.stack([np.full_like(mean, count), count * mean, count * (variance + mean**2)])


def _set(moments: RunningMeanStd, sums: np.ndarray) -> None:
    counts, firsts, seconds = sums
    count = float(counts.flat[0])
    if not count:
        return
    mean = firsts / count
    moments.count.fill_(count)
    moments.mean.copy_(torch.from_numpy(mean))
    moments.variance.copy_(torch.from_numpy(np.maximum(seconds / count - mean**2, 0.0)))
