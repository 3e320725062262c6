"""The number of PyTorch threads for a network and a batch size, chosen by trial."""

import logging
import os
import time
from collections.abc import Callable
from typing import Final

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from recollect.agent.actors.base import Actor
from recollect.agent.actors.networks.mlp.dense import EnsembleMLP
from recollect.agent.actors.spaces import map_observation
from recollect.roles import Algorithm

_LOG = logging.getLogger(__name__)

# Those by which people set threads for all libraries of a process.
_VARIABLES: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_SECONDS_A_TRIAL: Final = 0.02
_MAX_REPEATS: Final = 20
# What more threads must save, so that runs of the same seed do not differ by noise, and cores are left for others.
_MIN_GAIN: Final = 0.1


def choose_threads(algo: Algorithm) -> int | None:
    """Set the threads of PyTorch to as many as pay for an algorithm's networks and batches, and say how many.

    None, and nothing is changed, if there is nothing to choose: on a single core or a GPU, or where the environment
    variable OMP_NUM_THREADS or MKL_NUM_THREADS says how many. It takes some tens of milliseconds. Only the time is
    measured: weights, counters and random numbers stay as they are.
    """
    most, actor = torch.get_num_threads(), algo.actor
    if most == 1 or algo.device.type != "cpu" or not isinstance(actor, Actor) or any(map(os.environ.get, _VARIABLES)):
        return None
    work = _update_workload(actor, algo.mini_batch_size)
    seconds = {number: _time(work, number) for number in _candidates(most)}
    chosen = pick(seconds)
    torch.set_num_threads(chosen)
    timings = ", ".join(f"{1e3 * taken:.2f} ms with {number}" for number, taken in seconds.items())
    _LOG.info("PyTorch uses %d of %d threads: work like an update takes %s", chosen, most, timings)
    return chosen


def pick(seconds: dict[int, float]) -> int:
    """Return the number of threads that pays, from how long each number of them takes, the fewest first.

    Examples
    --------
    >>> pick({1: 1.0, 2: 0.95, 4: 0.6})
    4
    >>> pick({1: 1.0, 2: 0.95})
    1
    """
    best = min(seconds)
    for number in sorted(seconds):
        if seconds[number] < (1.0 - _MIN_GAIN) * seconds[best]:
            best = number
    return best


def _candidates(most: int) -> list[int]:
    """Powers of two, and all of them."""
    return sorted({1 << power for power in range(most.bit_length())} | {most})


def _time(work: Callable[[], None], num_threads: int) -> float:
    """Return the shortest time that the work takes: what disturbs it makes it longer."""
    torch.set_num_threads(num_threads)
    work()
    times: list[float] = []
    while sum(times) < _SECONDS_A_TRIAL and len(times) < _MAX_REPEATS:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def _update_workload(actor: Actor, num_rows: int) -> Callable[[], None]:
    """The products of an update, forward and backward, of a batch of `num_rows` rows."""
    empty = gym.vector.utils.create_empty_array(actor.obs_space, num_rows, np.zeros)
    obs = map_observation(lambda array: torch.as_tensor(array, device=actor.device), empty)
    rhs, done = torch.zeros(num_rows, actor.recurrent_size), torch.zeros(num_rows, 1)
    body = [weight for weight in actor.body.parameters() if weight.requires_grad]
    parts = [module for head in _heads(actor) for module in head.modules()]
    stacks = [part for part in parts if isinstance(part, EnsembleMLP)]
    columns = [torch.ones(num_rows, stack.weights[0].shape[1], requires_grad=True) for stack in stacks]
    weights = [part.weight.detach().T for part in parts if isinstance(part, nn.Linear)]
    inputs = [torch.ones(num_rows, len(weight)) for weight in weights]

    def work() -> None:
        if body:
            features, _ = actor.encode(obs, rhs, done)
            torch.autograd.grad(features.sum(), body, allow_unused=True)
        for stack, rows in zip(stacks, columns, strict=True):
            torch.autograd.grad(stack(rows).sum(), (*stack.parameters(), rows))
        for weight, rows in zip(weights, inputs, strict=True):
            outputs = torch.relu_(rows @ weight)
            _ = outputs @ weight.T, rows.T @ outputs

    return work


def _heads(actor: Actor) -> list[nn.Module]:
    """The policy and the critics."""
    return [actor.critics, *([] if actor.policy is None else [actor.policy])]
