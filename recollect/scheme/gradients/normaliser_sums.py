"""Normalisers of several workers kept as one: what each has seen since the last time is added up."""

from collections.abc import Iterable, Mapping

import numpy as np
import torch

from recollect.agent.actors.networks.normalise import RunningMeanStd
from recollect.roles import Actor

# By the name of a normaliser: count, sum and sum of squares of all rows, float64 [3, *shape].
Sums = dict[str, np.ndarray]


def take_sums(actor: Actor) -> Sums:
    """Sums of all that the normalisers of an actor have seen; empty if it has none."""
    return {name: _sums(statistics) for name, statistics in _statistics(actor)}


def put_sums(actor: Actor, sums: Mapping[str, np.ndarray]) -> None:
    """Let the normalisers of an actor be as if they had seen what `sums` tell."""
    for name, statistics in _statistics(actor):
        _set(statistics, sums[name])


def gain(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> Sums:
    """What was seen between two times."""
    return {name: after[name] - before[name] for name in after}


def add(base: Mapping[str, np.ndarray], gains: Iterable[Mapping[str, np.ndarray]]) -> Sums:
    """Sums with the gains of several workers."""
    total = dict(base)
    for each in gains:
        for name, values in each.items():
            total[name] = total[name] + values
    return total


def _statistics(actor: Actor) -> list[tuple[str, RunningMeanStd]]:
    modules = actor.named_modules() if isinstance(actor, torch.nn.Module) else ()
    return [(name, module) for name, module in modules if isinstance(module, RunningMeanStd)]


def _sums(statistics: RunningMeanStd) -> np.ndarray:
    buffers = (statistics.count, statistics.mean, statistics.variance)
    count, mean, variance = (buffer.cpu().numpy() for buffer in buffers)
    return np.stack([np.full_like(mean, count), count * mean, count * (variance + mean**2)])


def _set(statistics: RunningMeanStd, sums: np.ndarray) -> None:
    counts, firsts, seconds = sums
    count = float(counts.flat[0])
    if not count:
        return
    mean = firsts / count
    statistics.count.fill_(count)
    statistics.mean.copy_(torch.from_numpy(mean))
    statistics.variance.copy_(torch.from_numpy(np.maximum(seconds / count - mean**2, 0.0)))
