"""Steps of a Gymnasium vector environment, checked against its spaces and made samples."""

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience.sampling.outputs import map_arrays, nest
from recollect.agent.storages.experience.store.schema.planning import numpy_dtype, to_numpy, walk
from recollect.agent.storages.experience.store.schema.schema import KeyPath, Leaf
from recollect.errors import ConfigError, SchemaError
from recollect.roles import Array, Numbers, Observation

_SCALARS = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)


class VectorSteps:
    """Reads the steps of `num_envs` environments that are stepped together.

    Parameters
    ----------
    observation_space, action_space : gymnasium.Space
        Those of one environment: Box, Discrete, MultiDiscrete, MultiBinary or a Dict of them.
    num_envs : int
        How many environments.
    """

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any], num_envs: int) -> None:
        self.num_envs = num_envs
        self._leaves = {
            keys.OBS: _leaves_of((keys.OBS,), observation_space),
            keys.NEXT_OBS: _leaves_of((keys.NEXT_OBS,), observation_space),
            keys.ACTION: _leaves_of((keys.ACTION,), action_space),
        }

    def blank(self) -> dict[str, Any]:
        """A sample of zeros, from which a store learns keys, shapes and dtypes."""
        arrays = {
            path: np.zeros((self.num_envs, *leaf.shape), leaf.dtype)
            for leaves in self._leaves.values()
            for path, leaf in leaves.items()
        }
        flags = np.zeros((self.num_envs, 1), np.bool_)
        return nest(arrays.items()) | {
            keys.REWARD: np.zeros((self.num_envs, 1), np.float32),
            keys.DONE: flags,
            keys.NEXT_DONE: flags,
            keys.NEXT_TERMINATED: flags,
        }

    def read(
        self,
        observations: Observation,
        actions: Observation,
        rewards: Numbers,
        terminateds: Numbers,
        truncateds: Numbers,
        infos: Mapping[str, Any] | None,
        next_observations: Observation,
    ) -> dict[str, Any]:
        """Make a sample of one step of every env, `Done` apart; anything that does not fit is refused.

        Returns
        -------
        dict
            Arrays or tensors `[num_envs, ...]`, with the true last observation where an episode ended.
        """
        arrays = self._fit(keys.OBS, observations) | self._fit(keys.ACTION, actions)
        terminated, truncated = self._flags("terminateds", terminateds), self._flags("truncateds", truncateds)
        ended = terminated | truncated
        following = self._fit(keys.NEXT_OBS, next_observations)
        with np.errstate(over="ignore"):  # the store refuses what is infinite then
            reward = self._column("rewards", rewards).astype(np.float32)
        self._put_finals(following, ended[:, 0], infos or {})
        return nest((arrays | following).items()) | {
            keys.REWARD: reward,
            keys.NEXT_DONE: ended,
            keys.NEXT_TERMINATED: terminated,
        }

    def _fit(self, key: str, value: Observation) -> dict[KeyPath, Any]:
        """Arrays by path, of the shapes and dtypes that the space says."""
        leaves, lead = self._leaves[key], (self.num_envs,)
        return {path: _fitting(leaves[path], lead, array) for path, array in self._entries(key, value)}

    def _entries(self, key: str, value: Observation) -> Iterable[tuple[KeyPath, Any]]:
        """Arrays by path, those of the space and no others."""
        found = dict(walk((key,), value))
        if found.keys() != self._leaves[key].keys():
            raise SchemaError(
                f"{key} must have the entries {sorted(self._leaves[key])} of its space, got {sorted(found)}"
            )
        return found.items()

    def _column(self, name: str, values: Numbers) -> np.ndarray:
        """One number for each env, `[num_envs, 1]`."""
        array = to_numpy(values)
        if array.shape not in ((self.num_envs,), (self.num_envs, 1)) or array.dtype.kind not in "biuf":
            raise SchemaError(
                f"{name} must be one number for each of {self.num_envs} envs, got shape {array.shape} "
                f"and dtype {array.dtype}"
            )
        return array.reshape(self.num_envs, 1)

    def _flags(self, name: str, values: Numbers) -> np.ndarray:
        array = self._column(name, values)
        if not ((array == 0) | (array == 1)).all():
            raise SchemaError(f"{name} must be 0 or 1 everywhere")
        return array.astype(np.bool_)

    def _put_finals(self, following: dict[KeyPath, Any], ended: np.ndarray, infos: Mapping[str, Any]) -> None:
        """Put the last observations of ended episodes in place, where an env that reset itself left them.

        Next observations are then those of the episodes that begin.
        """
        if not isinstance(infos, Mapping):
            raise SchemaError(f"infos must be a dict, got {type(infos).__name__}")
        key, mask = keys.FINAL_OBS, keys.HAS_FINAL_OBS
        if key not in infos:
            key, mask = keys.OLD_FINAL_OBS, keys.HAS_OLD_FINAL_OBS
        finals = infos.get(key)
        if finals is None or not ended.any():
            return
        has_final = self._flags(mask, infos.get(mask, ended))[:, 0]
        for path, array in following.items():
            following[path] = to_numpy(array).copy()
        for env in np.flatnonzero(ended & has_final):
            try:
                final = map_arrays(itemgetter(int(env)), finals)
            except (IndexError, KeyError, TypeError):
                raise SchemaError(
                    f"infos[{key!r}] must hold the last observation of env {env}, which ended; it is {finals!r}"
                ) from None
            if final is not None:
                for path, value in self._entries(keys.NEXT_OBS, final):
                    following[path][env] = to_numpy(_fitting(self._leaves[keys.NEXT_OBS][path], (), value))
            elif mask in infos:
                raise SchemaError(
                    f"infos[{mask!r}] says that env {env} left its last observation, but infos[{key!r}] holds None "
                    "for it"
                )


def _leaves_of(path: KeyPath, space: gym.Space[Any]) -> dict[KeyPath, Leaf]:
    if isinstance(space, gym.spaces.Dict):
        parts = [_leaves_of((*path, name), inner) for name, inner in space.items()]
        return {inner: leaf for part in parts for inner, leaf in part.items()}
    if not isinstance(space, _SCALARS) or space.shape is None or space.dtype is None:
        known = ", ".join(kind.__name__ for kind in (*_SCALARS, gym.spaces.Dict))
        raise ConfigError(f"{keys.PATH_SEPARATOR.join(path)} has the space {space}; known are {known}")
    return {path: Leaf(path, space.shape, np.dtype(space.dtype))}


def _fitting(leaf: Leaf, lead: tuple[int, ...], value: Array) -> Array:
    """An array or tensor `[*lead, ...]` in the leaf's dtype, if no value is lost but by rounding floats."""
    array = value if isinstance(value, torch.Tensor) else to_numpy(value)
    shape, dtype = tuple(array.shape), numpy_dtype(leaf.path, array)
    # A number for each env may come as a column.
    is_column = leaf.shape == () and shape == (*lead, 1)
    fits = np.can_cast(dtype, leaf.dtype) or (dtype.kind == leaf.dtype.kind == "f")
    if not fits or (shape != (*lead, *leaf.shape) and not is_column):
        raise SchemaError(
            f"{leaf.name}: expected shape {(*lead, *leaf.shape)} and dtype {leaf.dtype} as its space says, "
            f"got {shape} and {dtype}"
        )
    if is_column:
        array = array.reshape(lead)
    return array if dtype == leaf.dtype else to_numpy(array).astype(leaf.dtype)
