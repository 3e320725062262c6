"""`Episode`: the form in which data travel between storages and files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import gymnasium as gym
import numpy as np

from recollect import keys
from recollect.agent.storages.experience.sampling.outputs import map_arrays
from recollect.errors import ConfigError, SchemaError
from recollect.roles import Observation

# What files have in fields of their own; all else that a storage keeps is an extra.
_OWN: Final = (
    keys.OBS, keys.ACTION, keys.REWARD, keys.NEXT_OBS, keys.NEXT_DONE, keys.NEXT_TERMINATED, keys.CUT,
)  # fmt: skip


@dataclass(frozen=True)
class Spaces:
    """Spaces of observations and actions of one environment, and its id where that is known."""

    observation: gym.Space[Any]
    action: gym.Space[Any]
    env: str | None = None


@dataclass(frozen=True)
class Episode:
    """Consecutive steps, in the environment's units.

    Attributes
    ----------
    observations : array `[time + 1, ...]` or nested dict of them
        The last one is what the last step led to.
    actions : array `[time, ...]`
    rewards : float32 `[time]`
    is_terminated, is_truncated : bool
        How the last step ended the episode; neither, if it was cut off there.
    extras : dict of arrays `[time, ...]`
        What a storage keeps beside, such as hidden states, by its key.
    """

    observations: Observation
    actions: np.ndarray
    rewards: np.ndarray
    is_terminated: bool
    is_truncated: bool
    extras: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        num_steps = len(self.rewards)
        if num_steps == 0 or self.rewards.ndim != 1:
            raise SchemaError(f"an episode needs at least one step and one reward for each, got {self.rewards.shape}")
        lengths = {"actions": len(self.actions), **{name: len(values) for name, values in self.extras.items()}}
        for name, length in lengths.items():
            if length != num_steps:
                raise SchemaError(f"an episode of {num_steps} rewards must have as many {name}, got {length}")
        for path, values in flatten(self.observations).items():
            if len(values) != num_steps + 1:
                raise SchemaError(
                    f"an episode of {num_steps} steps must have {num_steps + 1} observations{path and ' ' + path}, "
                    f"got {len(values)}"
                )

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def total_reward(self) -> float:
        """Sum of its rewards."""
        return float(self.rewards.sum(dtype=np.float64))

    def steps(self) -> dict[str, Any]:
        """The steps as storages take them, arrays `[time, ...]` by key; actions as they are."""
        ended, terminated = (np.zeros((len(self), 1), np.bool_) for _ in range(2))
        ended[-1], terminated[-1] = self.is_terminated or self.is_truncated, self.is_terminated
        done = np.zeros((len(self), 1), np.float32)
        done[0] = 1.0
        sample = {
            keys.OBS: map_arrays(lambda values: values[:-1], self.observations),
            keys.ACTION: self.actions,
            keys.REWARD: self.rewards[:, None],
            keys.NEXT_OBS: map_arrays(lambda values: values[1:], self.observations),
            keys.DONE: done,
            keys.NEXT_DONE: ended,
            keys.NEXT_TERMINATED: terminated,
            **self.extras,
        }
        if not ended[-1]:
            sample[keys.CUT] = ~ended & (np.arange(len(self)) == len(self) - 1)[:, None]
        return sample

    @classmethod
    def of_steps(cls, steps: Mapping[str, Any]) -> "Episode":
        """The episode of which `steps` came out of a storage; actions as they are."""
        arrays = map_arrays(np.asarray, steps)
        num_steps = len(arrays[keys.REWARD])
        is_ended = bool(arrays[keys.NEXT_DONE][-1, 0])
        is_terminated = is_ended and bool(arrays[keys.NEXT_TERMINATED][-1, 0])
        observations = _joined(arrays[keys.OBS], arrays[keys.NEXT_OBS])
        # `Done` tells whether the beginning of the episode was overwritten.
        extras = {name: values for name, values in arrays.items() if name not in _OWN}
        rewards = arrays[keys.REWARD].reshape(num_steps)
        return cls(observations, arrays[keys.ACTION], rewards, is_terminated, is_ended and not is_terminated, extras)


def check_is_new(place: object, exists: bool, *, overwrite: bool) -> None:
    """Refuse to write data over others, unless that was asked for."""
    if exists and not overwrite:
        raise ConfigError(f"{place} exists already; choose another name, or overwrite it: --force, or overwrite=True")


def flatten(value: Observation, path: str = "") -> dict[str, Any]:
    """Arrays of an observation by path, whose parts a slash separates; one array alone has the empty path."""
    if not isinstance(value, Mapping):
        return {path: value}
    if any("/" in str(name) for name in value):
        raise SchemaError(f"parts of observations must have names without a slash, got {sorted(value)}; rename them")
    parts = (flatten(inner, f"{path}/{name}" if path else str(name)) for name, inner in value.items())
    return {inner: array for part in parts for inner, array in part.items()}


def unflatten(arrays: Mapping[str, Any]) -> Observation:
    """The observation that `flatten` made `arrays` of."""
    if "" in arrays:
        return arrays[""]
    nested: dict[str, Any] = {}
    for path, array in arrays.items():
        *outer, last = path.split("/")
        place = nested
        for name in outer:
            place = place.setdefault(name, {})
        place[last] = array
    return nested


def _joined(observed: Observation, following: Observation) -> Observation:
    if isinstance(observed, Mapping):
        return {name: _joined(observed[name], following[name]) for name in observed}
    return np.concatenate([observed, following[-1:]])
