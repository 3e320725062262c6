"""Checks each array of a sample against the schema and finds its address, without copying.

What is small of one step is copied into a staging buffer, because asking NumPy for an address costs more than the copy;
large arrays are read where they are.
"""

from collections.abc import Mapping
from functools import reduce
from operator import getitem
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from recollect import keys
from recollect.agent.storages.experience.store.schema.planning import no_sample, numpy_dtype, to_numpy, walk
from recollect.agent.storages.experience.store.schema.schema import KeyPath, Leaf, Schema
from recollect.errors import SchemaError, closest
from recollect.roles import Observation

_LARGEST_STAGED_BYTES: Final = 16384
_MARKS: Final = (keys.SKIP, keys.START)
_CARRIED: Final = (keys.OBS, keys.NEXT_OBS, keys.RHS, keys.NEXT_RHS)


class _Input(NamedTuple):
    """One array that every sample brings; `axis` is that of stacked frames, -1 if none is to be moved."""

    leaf: Leaf
    shape: tuple[int, ...]
    torch_dtype: torch.dtype
    axis: int
    stage: np.ndarray | None


class Marks(NamedTuple):
    """What any slice may say of its rows, or not: bool [num_steps, num_envs, 1]."""

    skips: np.ndarray | None  # rows to leave out
    starts: np.ndarray | None  # where sequences start


class StepArrays(NamedTuple):
    """Steps `[num_steps, num_envs, ...]` that fit a schema.

    Attributes
    ----------
    addresses : int64 [inputs]
        Where their arrays are.
    alive : list
        What must live until they are read.
    hidden : list of array
        Their hidden states, where rows are sequences.
    cuts : bool [num_steps, num_envs, 1]
        Where streams break.
    """

    num_steps: int
    addresses: np.ndarray
    alive: list[Any]
    hidden: list[np.ndarray]
    marks: Marks
    cuts: np.ndarray


class Intake:
    """Reads samples of one schema and number of envs.

    Attributes
    ----------
    row_bytes : int64 [inputs]
        Bytes of one env's step in each input.
    """

    def __init__(self, schema: Schema, num_envs: int) -> None:
        self.num_envs = num_envs
        self.row_bytes = np.array([leaf.num_bytes for leaf, _ in schema.inputs], np.int64)
        self._no_cuts = np.zeros((num_envs, 1), np.bool_)
        # The last input is the flag of cuts, which samples need not have.
        self._inputs = [self._input(leaf, axis) for leaf, axis in schema.inputs[:-1]]
        self._staged = [
            (
                index,
                entry.leaf.path[0],
                entry.leaf.path[1:],
                entry.shape,
                entry.leaf.dtype,
                entry.torch_dtype,
                entry.stage,
            )
            for index, entry in enumerate(self._inputs)
        ]
        stages = [*(entry.stage for entry in self._inputs), self._no_cuts]
        self._stage_addresses = np.array([0 if stage is None else stage.ctypes.data for stage in stages], np.int64)
        self._hidden = schema.hidden
        self._ignored = {keys.CUT} | ({keys.NEXT_RHS} if schema.hidden else set())
        paths = [leaf.path for leaf in (*(entry.leaf for entry in self._inputs), *schema.hidden)]
        self._keys = {path[0] for path in paths}
        # The paths of a nested key, to be compared with the sample's.
        self._nested: dict[str, set[KeyPath]] = {}
        for path in paths:
            if len(path) > 1:
                self._nested.setdefault(path[0], set()).add(path)

    def read(self, sample: Mapping[str, Any]) -> tuple[np.ndarray, list[Any]]:
        """Check a sample `[num_envs, ...]` of one step and return the addresses of its arrays.

        Returns
        -------
        addresses : int64 [inputs]
            Where the arrays are.
        alive : list
            What must live until they are read.
        """
        if len(sample) != len(self._keys) or self._nested:
            self._check_keys(sample)
        addresses = self._stage_addresses
        alive: list[Any] = []
        for index, key, inner, shape, dtype, torch_dtype, stage in self._staged:
            try:
                value = sample[key]
            except (KeyError, TypeError, IndexError):
                self._check_keys(sample)
                raise
            if inner:
                for part in inner:
                    value = value[part]
            if type(value) is Tensor and value.dtype is torch_dtype:
                value = value.numpy(force=value.requires_grad or not value.is_cpu)
            if type(value) is ndarray and stage is not None and value.shape == shape and value.dtype == dtype:
                stage[...] = value
                continue
            if not alive:
                addresses = addresses.copy()
            entry = self._inputs[index]
            array = _contiguous(entry.leaf, shape, entry.axis, value)
            alive.append(array)
            addresses[index] = array.ctypes.data
        if keys.CUT in sample:
            addresses = addresses.copy()
            cuts = _flags(keys.CUT, sample[keys.CUT], (self.num_envs, 1))
            addresses[-1] = cuts.ctypes.data
            alive.append(cuts)
        return addresses, alive

    def stages(self) -> dict[str, np.ndarray]:
        """What arrays of one step are copied into, by key; empty if any is nested, or read where it is."""
        stages = {entry.leaf.path[0]: entry.stage for entry in self._inputs if entry.stage is not None}
        return stages if len(stages) == len(self._inputs) and not self._nested else {}

    def addresses_with(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Addresses of a step of which some columns are read from given arrays, the others from `stages`."""
        addresses = self._stage_addresses.copy()
        for index, entry in enumerate(self._inputs):
            if entry.leaf.path[0] in columns:
                addresses[index] = columns[entry.leaf.path[0]].ctypes.data
        return addresses

    def read_slice(self, sample: Mapping[str, Any], num_steps: int, marks: Marks) -> StepArrays:
        """Check a sample of `num_steps` steps `[num_steps, num_envs, ...]`, out of which its marks were taken."""
        self._check_keys(sample)
        addresses = self._stage_addresses.copy()
        alive: list[Any] = []
        for index, entry in enumerate(self._inputs):
            value = reduce(getitem, entry.leaf.path, sample)
            array = _contiguous(entry.leaf, (num_steps, *entry.shape), entry.axis, value)
            alive.append(array)
            addresses[index] = array.ctypes.data
        cuts = np.zeros((num_steps, self.num_envs, 1), np.bool_)
        if keys.CUT in sample:
            cuts = _flags(keys.CUT, sample[keys.CUT], cuts.shape)
        addresses[-1] = cuts.ctypes.data
        alive.append(cuts)
        return StepArrays(num_steps, addresses, alive, self.read_hidden(sample, num_steps), marks, cuts)

    def read_hidden(self, sample: Mapping[str, Any], num_steps: int | None) -> list[np.ndarray]:
        """Check the hidden states of a recurrent actor and return them as arrays `[time, num_envs, ...]`."""
        lead = (self.num_envs,) if num_steps is None else (num_steps, self.num_envs)
        arrays = [
            _contiguous(leaf, (*lead, *leaf.shape), -1, reduce(getitem, leaf.path, sample)) for leaf in self._hidden
        ]
        return [array[None] for array in arrays] if num_steps is None else arrays

    def _input(self, leaf: Leaf, axis: int) -> _Input:
        shape = (self.num_envs, *leaf.shape)
        torch_dtype = torch.from_numpy(np.empty(0, leaf.dtype)).dtype
        is_staged = axis < 0 and leaf.num_bytes * self.num_envs <= _LARGEST_STAGED_BYTES
        return _Input(leaf, shape, torch_dtype, axis, np.zeros(shape, leaf.dtype) if is_staged else None)

    def _check_keys(self, sample: Mapping[str, Any]) -> None:
        if not isinstance(sample, Mapping):
            raise no_sample(sample)
        present = sample.keys() - self._ignored
        for key in present - self._keys:
            raise SchemaError(
                f"unexpected key {key!r} in a sample: the first sample did not have it; {closest(str(key), self._keys)}"
            )
        if present != self._keys:
            missing = ", ".join(sorted(self._keys - present))
            raise SchemaError(f"a sample lacks {missing}, which the first one had")
        for key, paths in self._nested.items():
            found = {path for path, _ in walk((key,), sample[key])}
            if found != paths:
                raise SchemaError(f"{key} must have the entries of the first sample {paths}, got {found}")


def take_marks(sample: Mapping[str, Any], shape: tuple[int, ...]) -> tuple[Mapping[str, Any], Marks]:
    """Take the marks, bool of `shape`, out of a sample, which any sample may have or not."""
    skips, starts = (_flags(key, sample[key], shape) if key in sample else None for key in _MARKS)
    if skips is not None and not skips.any():
        skips = None
    return {name: value for name, value in sample.items() if name not in _MARKS}, Marks(skips, starts)


def _flags(key: str, value: Observation, shape: tuple[int, ...]) -> np.ndarray:
    array = to_numpy(value)
    if array.shape != shape:
        raise SchemaError(f"{key}: expected shape {shape}, got {array.shape}")
    if not ((array == 0) | (array == 1)).all():
        raise SchemaError(f"{key} must be 0 or 1 everywhere")
    return np.ascontiguousarray(array.astype(np.bool_))


def _contiguous(leaf: Leaf, shape: tuple[int, ...], axis: int, value: Observation) -> np.ndarray:
    """An input as a contiguous array, stacked frames first; refused if its shape or dtype is another."""
    dtype = numpy_dtype(leaf.path, value)
    array = to_numpy(value)
    if array.shape != shape or dtype != leaf.dtype:
        raise SchemaError(
            f"{leaf.name}: expected shape {shape} and dtype {leaf.dtype}, got {array.shape} and {dtype}; "
            "shapes and dtypes are fixed by the first sample"
        )
    if axis >= 0:
        first = len(shape) - len(leaf.shape)
        array = np.moveaxis(array, first + axis, first)
    return np.ascontiguousarray(array, leaf.dtype)


def runs_of(mask: np.ndarray) -> list[tuple[int, int]]:
    """First and end of each run of ones in `mask` [num_envs]."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return [(int(first), int(end)) for first, end in edges.reshape(-1, 2)]


def with_time(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Give every array of a sample a time axis of one step."""
    if not isinstance(sample, Mapping):
        raise no_sample(sample)
    return {
        key: with_time(value) if isinstance(value, Mapping) else value[None] if hasattr(value, "ndim") else value
        for key, value in sample.items()
    }


def naming_nan(refusal: SchemaError, sample: Mapping[str, Any]) -> SchemaError:
    """The refusal of a sample `[time, num_envs, ...]`; if it has an observation that is NaN, with its place."""
    for path, values in walk((), sample):
        array = to_numpy(values)
        if path[0] in _CARRIED and array.dtype.kind == "f" and np.isnan(array).any():
            step, env = np.argwhere(np.isnan(array))[0, :2]
            return SchemaError(
                f"{keys.PATH_SEPARATOR.join(path)} of env {env} is NaN at step {step} of {len(array)} given; let the "
                "environment, or a wrapper around it, give numbers"
            )
    return refusal
