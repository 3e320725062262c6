"""Short streams of steps for tests with numbers worked by hand: every value says which step it is of.

Step `t` of env `e` has the observation `[t, e]`, the action `[t]` and the reward `t`, and leads to
`[t + 1, e]`; where it ends an episode it leads to `[t + 0.5, e]` instead, which is no step's observation.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience.kernels.ring_layout import ID_MASK, ID_SHIFT

# Bytes: to this PyTorch aligns its tensors, and so the makers of MKL ask for.
ALIGNMENT = 64

Sample = dict[str, Any]
Ends = Collection[int] | Mapping[int, Collection[int]]


def make_slice(
    num_steps: int, *, num_envs: int = 1, first: int = 0, terminated: Ends = (), truncated: Ends = ()
) -> Sample:
    """Steps `first` to `first + num_steps - 1` of all envs, `[time, num_envs, ...]`.

    Parameters
    ----------
    num_steps, num_envs : int
        How many steps of how many envs.
    first : int
        Number of the first step.
    terminated, truncated : collection of int, or mapping from env to such
        Numbers of the steps that end an episode; a mapping where the envs differ.
    """
    numbers = np.broadcast_to(np.arange(first, first + num_steps)[:, None], (num_steps, num_envs))
    envs = np.broadcast_to(np.arange(num_envs), numbers.shape)
    has_terminated = _marks(terminated, numbers, envs)
    has_ended = has_terminated | _marks(truncated, numbers, envs)
    after = np.where(has_ended, numbers + 0.5, numbers + 1.0)
    return {
        keys.OBS: np.stack([numbers, envs], axis=-1).astype(np.float32),
        keys.ACTION: numbers[..., None].astype(np.float32),
        keys.REWARD: numbers[..., None].astype(np.float32),
        keys.NEXT_OBS: np.stack([after, envs], axis=-1).astype(np.float32),
        keys.NEXT_DONE: has_ended[..., None].astype(np.float32),
        keys.NEXT_TERMINATED: has_terminated[..., None].astype(np.float32),
    }


def with_done(steps: Sample) -> Sample:
    """Add `Done`, as recurrent actors need it: the first step, and each one after an end, begin an episode."""
    done = np.ones_like(steps[keys.NEXT_DONE])
    done[1:] = steps[keys.NEXT_DONE][:-1]
    return steps | {keys.DONE: done}


def with_goals(steps: Sample, desired: float = -1.0) -> Sample:
    """Turn the observations into those of a goal environment; the number of the step is what is achieved."""
    return steps | {key: _goal_observation(steps[key], desired) for key in (keys.OBS, keys.NEXT_OBS)}


def one_step(steps: Sample, position: int) -> Sample:
    """One step of a slice, `[num_envs, ...]`."""
    return {
        key: one_step(value, position) if isinstance(value, dict) else value[position] for key, value in steps.items()
    }


def lanes_of(batch: Sample) -> torch.Tensor:
    """Lane of each row of a batch."""
    return batch[keys.IDXS] >> ID_SHIFT


def numbers_of(batch: Sample) -> torch.Tensor:
    """Running number of each row's step in its lane."""
    return batch[keys.IDXS] & ID_MASK


def row_of(batch: Sample, number: int, lane: int = 0) -> int:
    """Position of a row of step `number` in a batch that holds it."""
    return int(torch.nonzero((numbers_of(batch) == number) & (lanes_of(batch) == lane))[0, 0])


def reward_if_reached(achieved: np.ndarray, desired: np.ndarray, info: Mapping[str, Any]) -> np.ndarray:
    """Reward of goal environments: 0 where the goal is reached, -1 elsewhere."""
    return np.where((achieved == desired).all(axis=-1), 0.0, -1.0)


def terminated_if_reached(achieved: np.ndarray, desired: np.ndarray, info: Mapping[str, Any]) -> np.ndarray:
    """Whether a goal is reached, for environments where that ends the episode."""
    return np.asarray((achieved == desired).all(axis=-1))


def _marks(ends: Ends, numbers: np.ndarray, envs: np.ndarray) -> np.ndarray:
    marks = np.zeros(numbers.shape, np.bool_)
    for env in range(numbers.shape[1]):
        chosen = ends.get(env, ()) if isinstance(ends, Mapping) else ends
        marks |= np.isin(numbers, list(chosen)) & (envs == env)
    return marks


def _goal_observation(values: np.ndarray, desired: float) -> Sample:
    achieved = values[..., :1].copy()
    return {
        "observation": values,
        keys.ACHIEVED_GOAL: achieved,
        keys.DESIRED_GOAL: np.full_like(achieved, desired),
    }
