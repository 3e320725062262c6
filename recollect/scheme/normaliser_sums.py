"""Normalisers synchronised across workers: each worker's increments are summed.

Statistics that networks keep of the batches they learn from, as batch renormalisation does, are no sums: they move a
share of the way to each batch. Those of workers that learn side by side are averaged, as their gradients are.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from recollect.agent.actors.networks.normalise import RunningMeanStd
from recollect.roles import Actor

# By the name of a normaliser: count, sum and sum of squares of all rows, float64 [3, *shape]. By that of a statistic of
# batches: its value, float64.
Sums = dict[str, np.ndarray]

# By the name of a normaliser: count, mean and variance of all rows, float64 [3, *shape].
Statistics = dict[str, np.ndarray]


def take_statistics(actor: Actor) -> Statistics:
    """Statistics of all that the normalisers of an actor have seen; empty if it has none."""
    return {name: _values(running) for name, running in _running(actor)}


def follow(actor: Actor, before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> None:
    """Let the normalisers of an actor see what those of another actor saw between two moments.

    Where both had the same statistics before, they have the same after, bit for bit.
    """
    for name, running in _running(actor):
        if name not in after:
            continue
        own = _values(running)
        if own.tobytes() == before[name].tobytes():
            count, mean, variance = after[name].copy()  # what came from elsewhere may be read-only
            running.count.fill_(float(count.flat[0]))
            running.mean.copy_(torch.from_numpy(mean))
            running.variance.copy_(torch.from_numpy(variance))
        else:
            _set(running, _sums(own) + _sums(after[name]) - _sums(before[name]))


def take_sums(actor: Actor) -> Sums:
    """Sums of all that the normalisers of an actor have seen, and statistics of batches; empty if it has none."""
    sums = {name: _sums(_values(running)) for name, running in _running(actor)}
    return sums | {name: buffer.cpu().double().numpy().copy() for name, buffer in _of_batches(actor)}


def put_sums(
    actor: Actor, sums: Mapping[str, np.ndarray], increments: Mapping[str, np.ndarray], num_workers: int = 1
) -> None:
    """Let the normalisers of an actor be as if they had seen what `sums` tell and, after it, what `increments` tell.

    Statistics of batches get the mean increment, if `increments` are the sums of several workers'.
    """
    for name, running in _running(actor):
        _set(running, sums[name] + increments.get(name, 0.0))
    for name, buffer in _of_batches(actor):
        value = torch.from_numpy(np.asarray(sums[name] + increments.get(name, 0.0) / num_workers))
        buffer.copy_(value if buffer.is_floating_point() else value.round())


def increment(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> Sums:
    """What was seen between two times."""
    with np.errstate(invalid="ignore"):  # constants that networks keep may be infinite
        return {name: np.where(after[name] == before[name], 0.0, after[name] - before[name]) for name in after}


def _running(actor: Actor) -> list[tuple[str, RunningMeanStd]]:
    modules = actor.named_modules() if isinstance(actor, torch.nn.Module) else ()
    return [(name, module) for name, module in modules if isinstance(module, RunningMeanStd)]


def _of_batches(actor: Actor) -> Iterator[tuple[str, torch.Tensor]]:
    """What networks keep beside weights and normalisers; who saves weights saves it too."""
    if not isinstance(actor, torch.nn.Module):
        return
    saved, running = actor.state_dict().keys(), tuple(f"{name}." for name, _ in _running(actor))
    for name, buffer in actor.named_buffers():
        if name in saved and not name.startswith(running):
            yield name, buffer


def _values(running: RunningMeanStd) -> np.ndarray:
    count, mean, variance = (buffer.cpu().numpy() for buffer in (running.count, running.mean, running.variance))
    return np.stack([np.full_like(mean, count), mean, variance])


def _sums(statistics: np.ndarray) -> np.ndarray:
    counts, mean, variance = statistics
    return np.stack([counts, counts * mean, counts * (variance + mean**2)])


def _set(running: RunningMeanStd, sums: np.ndarray) -> None:
    counts, firsts, seconds = sums
    count = float(counts.flat[0])
    if not count:
        return
    mean = firsts / count
    running.count.fill_(count)
    running.mean.copy_(torch.from_numpy(mean))
    running.variance.copy_(torch.from_numpy(np.maximum(seconds / count - mean**2, 0.0)))
