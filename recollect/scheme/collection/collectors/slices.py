"""Slices: the steps that a worker saw in one go, on their way to the learner's storage.

In its compact form a slice has every observation once. What a step led to is what the next step starts from;
where it is not, because an episode ended or the stream broke, the true one is a *tail* beside the observations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from recollect import keys
from recollect.agent.storages.experience.sampling.outputs import nest
from recollect.agent.storages.experience.store.schema import to_numpy, walk
from recollect.errors import SchemaError, StorageError
from recollect.scheme.collection.collectors.codec import Packed, count_bytes, unpack

Arrays = dict[str, np.ndarray]
"""Arrays by key path."""

_TAILS: Final = "tails"
_TAIL_STEPS: Final = "tail_steps"
_TAIL_ENVS: Final = "tail_envs"
# Keys that a step has only if there is something to say.
_SELDOM: Final = (keys.SKIP, keys.CUT)


@dataclass(frozen=True)
class Slice:
    """Steps of one worker, and where in its stream they belong.

    Attributes
    ----------
    source : tuple of int
        Index of the worker's parent and its own.
    epoch : int
        Which life of the worker saw them; each has a stream of its own.
    first_step : int
        Running number of the first step in the stream, counted per environment.
    version : int
        Version of the weights that were acted with.
    arrays : dict
        The steps in compact form, see `expand`.
    info : dict
        What else is known: time, episodes that ended.
    packed : Packed or None
        The arrays compressed, on their way; there are no others then.
    """

    source: tuple[int, int]
    epoch: int
    first_step: int
    version: int
    arrays: Arrays
    info: dict[str, Any] = field(default_factory=dict)
    packed: Packed | None = None

    @property
    def num_steps(self) -> int:
        """Steps of every environment; none of a worker that was stopped before its first one."""
        if self.packed is None:
            return len(self.arrays.get(keys.REWARD, ()))
        return next((shape[0] for name, _, shape in self.packed.layout if name == keys.REWARD), 0)

    @property
    def num_bytes(self) -> int:
        """Bytes of the arrays on their way."""
        return count_bytes(self.arrays) if self.packed is None else self.packed.frame.nbytes

    def unpacked(self) -> "Slice":
        """The slice with its arrays as they were before compression."""
        return self if self.packed is None else replace(self, arrays=unpack(self.packed), packed=None)

    def expand(self) -> dict[str, Any]:
        """The steps as a storage takes them, (nested) arrays `[time, num_envs, ...]` with next observations."""
        return expand(self.arrays)


class SliceRecorder:
    """Takes samples as a storage does, and makes a slice of them.

    Parameters
    ----------
    num_steps : int
        Most steps that will come.
    """

    def __init__(self, num_steps: int) -> None:
        self._capacity = num_steps
        self._length = 0
        self._columns: Arrays = {}
        self._led_to: dict[str, Any] = {}
        self._tails: dict[str, list[np.ndarray]] = {}
        self._tail_steps: list[int] = []
        self._tail_envs: list[int] = []

    def __len__(self) -> int:
        """Steps recorded."""
        return self._length

    def insert_transition(self, sample: Mapping[str, Any]) -> None:
        """Take one step of every env, arrays or tensors `[num_envs, ...]`."""
        if self._length == self._capacity:
            raise StorageError(f"a recorder for {self._capacity} steps is full")
        values = {keys.PATH_SEPARATOR.join(path): value for key in sample for path, value in walk((key,), sample[key])}
        led_to = {path: values.pop(path) for path in list(values) if _is_next_obs(path)}
        if self._length == 0:
            self._columns = {path: self._column(path, value) for path, value in values.items()}
        else:
            self._keep_tails({path: values[_obs_path(path)] for path in led_to if _obs_path(path) in values})
        self._check_paths(values, led_to)
        for path, value in values.items():
            self._seldom_column(path)[self._length] = to_numpy(value)
        self._led_to = led_to
        self._length += 1

    def take(self) -> Arrays:
        """Hand over what was recorded, in compact form; nothing can be added then.

        Observations `[time + 1, num_envs, ...]` end with what the last step led to. `tails/...`
        `[tails, ...]` are what steps led to that the next one did not start from; they belong to the
        steps `tail_steps` of the envs `tail_envs`.
        """
        arrays = {path: column[: self._length] for path, column in self._columns.items() if not _is_obs(path)}
        for path, value in self._led_to.items():
            column = self._columns[_obs_path(path)]
            column[self._length] = to_numpy(value)
            arrays[_obs_path(path)] = column[: self._length + 1]
        arrays |= {f"{_TAILS}/{path}": np.stack(rows) for path, rows in self._tails.items()}
        if self._tail_steps:
            arrays[_TAIL_STEPS] = np.array(self._tail_steps, np.int64)
            arrays[_TAIL_ENVS] = np.array(self._tail_envs, np.int64)
        self._capacity = self._length
        return arrays

    def _column(self, path: str, value: Any) -> np.ndarray:
        array = to_numpy(value)
        num_rows = self._capacity + 1 if _is_obs(path) else self._capacity
        return np.zeros((num_rows, *array.shape), array.dtype)

    def _seldom_column(self, path: str) -> np.ndarray:
        """A column; one of those that only some steps have is made when it is first needed."""
        if path not in self._columns:
            num_envs = self._columns[keys.REWARD].shape[1]
            self._columns[path] = np.zeros((self._capacity, num_envs, 1), np.bool_)
        return self._columns[path]

    def _check_paths(self, values: Mapping[str, Any], led_to: Mapping[str, Any]) -> None:
        expected = self._columns.keys() - _SELDOM
        if values.keys() - _SELDOM != expected or {_obs_path(path) for path in led_to} != {
            path for path in expected if _is_obs(path)
        }:
            raise SchemaError(
                f"all steps of a slice must have the same entries, {sorted(expected)} and what they led to, "
                f"got {sorted([*values, *led_to])}"
            )

    def _keep_tails(self, starts: Mapping[str, Any]) -> None:
        """Keep what the last step led to in those envs where this step starts from something else."""
        differing = [
            _rows_that_differ(to_numpy(self._led_to[path]), to_numpy(start))
            for path, start in starts.items()
            if self._led_to[path] is not start
        ]
        if not differing:
            return
        for env in np.flatnonzero(np.logical_or.reduce(differing)):
            self._tail_steps.append(self._length - 1)
            self._tail_envs.append(int(env))
            for path, value in self._led_to.items():
                self._tails.setdefault(_obs_path(path), []).append(to_numpy(value)[env].copy())


def expand(arrays: Arrays) -> dict[str, Any]:
    """Undo `SliceRecorder.take`: (nested) arrays `[time, num_envs, ...]` by key."""
    full: dict[str, np.ndarray] = {}
    for path, column in arrays.items():
        if path.startswith(_TAILS + keys.PATH_SEPARATOR) or path in (_TAIL_STEPS, _TAIL_ENVS):
            continue
        full[path] = column
        if _is_obs(path):
            full[path], following = column[:-1], column[1:]
            if _TAIL_STEPS in arrays:
                following = following.copy()
                following[arrays[_TAIL_STEPS], arrays[_TAIL_ENVS]] = arrays[f"{_TAILS}/{path}"]
            full[keys.NEXT_OBS + path.removeprefix(keys.OBS)] = following
    return nest((tuple(path.split(keys.PATH_SEPARATOR)), array) for path, array in full.items())


def _is_obs(path: str) -> bool:
    return path.split(keys.PATH_SEPARATOR, 1)[0] == keys.OBS


def _is_next_obs(path: str) -> bool:
    return path.split(keys.PATH_SEPARATOR, 1)[0] == keys.NEXT_OBS


def _obs_path(next_path: str) -> str:
    return keys.OBS + next_path.removeprefix(keys.NEXT_OBS)


def _rows_that_differ(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Envs whose rows differ in any bit, bool [num_envs]."""
    if left.shape != right.shape or left.dtype != right.dtype:
        raise SchemaError(
            f"an observation has shape {right.shape} and dtype {right.dtype}, but the step before led to "
            f"one with shape {left.shape} and dtype {left.dtype}"
        )
    num_envs = len(left)
    as_bytes = [np.ascontiguousarray(array).reshape(num_envs, -1).view(np.uint8) for array in (left, right)]
    return (as_bytes[0] != as_bytes[1]).any(axis=1)
