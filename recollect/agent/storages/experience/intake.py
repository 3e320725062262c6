"""Takes samples in: checks each array against the schema and finds its address, without copying.

NumPy arrays of one step are copied into a small staging buffer, because asking NumPy for an address
costs more than the copy; tensors and large arrays are read where they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience.schema import Leaf, Path, Schema, next_path, to_numpy, walk
from recollect.errors import SchemaError

_LARGEST_STAGED_BYTES: Final = 16384


@dataclass
class _Input:
    """One array that every sample brings; `axis` is that of stacked frames, -1 if none is to be moved."""

    leaf: Leaf
    shape: tuple[int, ...]
    torch_dtype: torch.dtype
    axis: int
    stage: np.ndarray | None
    stage_address: int


class Intake:
    """Reads samples of one schema and number of envs.

    Attributes
    ----------
    positions : dict
        Path of each input to the position of its address in what `read` returns.
    """

    def __init__(self, schema: Schema, num_envs: int) -> None:
        self.num_envs = num_envs
        leaves = [(place.leaf, place.axis if place.depth > 1 and place.axis else -1) for place in schema.carried]
        leaves += [(Leaf(next_path(leaf.path), leaf.shape, leaf.dtype), axis) for leaf, axis in leaves]
        leaves += [(place.leaf, -1) for place in schema.steps]
        leaves += [(Leaf((key,), (1,), dtype), -1) for key, dtype in schema.flags.items()]
        self.positions: dict[Path, int] = {leaf.path: index for index, (leaf, _) in enumerate(leaves)}
        self.positions[(keys.CUT,)] = len(leaves)
        self._no_cuts = np.zeros((num_envs, 1), np.bool_)
        self._inputs = [self._input(leaf, axis) for leaf, axis in leaves]
        self._hidden = schema.hidden
        self._ignored = {keys.CUT, keys.NEXT_RHS} if schema.hidden else {keys.CUT}
        self._keys = {leaf.path[0] for leaf, _ in leaves} | {leaf.path[0] for leaf in schema.hidden}
        # The paths of a nested key, to be compared with the sample's; None for a plain array.
        self._nested: dict[str, set[Path] | None] = {}
        for leaf in [leaf for leaf, _ in leaves] + schema.hidden:
            if len(leaf.path) > 1:
                group = self._nested.setdefault(leaf.path[0], set())
                assert group is not None
                group.add(leaf.path)

    def read(self, sample: Mapping[str, Any], num_steps: int | None = None) -> tuple[list[int], list[Any]]:
        """Check a sample and return the addresses of its arrays, and what must live until they are read.

        Parameters
        ----------
        sample : mapping
            Arrays `[num_envs, ...]`, with `num_steps` `[num_steps, num_envs, ...]`.
        """
        self._check_keys(sample)
        addresses = []
        alive: list[Any] = []
        lead = None if num_steps is None else (num_steps, self.num_envs)
        for entry in self._inputs:
            value: Any = sample
            for part in entry.leaf.path:
                value = value[part]
            shape = entry.shape if lead is None else (*lead, *entry.leaf.shape)
            if isinstance(value, np.ndarray):
                if value.shape != shape or value.dtype != entry.leaf.dtype:
                    raise self._mismatch(entry, shape, value)
                if lead is None and entry.stage is not None:
                    entry.stage[...] = value
                    addresses.append(entry.stage_address)
                    continue
                if entry.axis >= 0:
                    value = np.moveaxis(value, entry.axis + len(shape) - len(entry.leaf.shape), -len(entry.leaf.shape))
                value = np.ascontiguousarray(value)
                addresses.append(value.__array_interface__["data"][0])
            else:
                if not isinstance(value, torch.Tensor) or value.shape != shape or value.dtype is not entry.torch_dtype:
                    raise self._mismatch(entry, shape, value)
                if entry.axis >= 0:
                    value = value.movedim(entry.axis + len(shape) - len(entry.leaf.shape), -len(entry.leaf.shape))
                if not (value.is_cpu and value.is_contiguous()):
                    value = value.detach().cpu().contiguous()
                addresses.append(value.data_ptr())
            alive.append(value)
        cuts = self._read_cuts(sample, num_steps)
        alive.append(cuts)
        addresses.append(cuts.ctypes.data)
        return addresses, alive

    def read_hidden(self, sample: Mapping[str, Any], num_steps: int | None = None) -> list[np.ndarray]:
        """Check the hidden states of a recurrent actor and return them as arrays `[time, num_envs, ...]`."""
        arrays = []
        for leaf in self._hidden:
            value: Any = sample
            for part in leaf.path:
                value = value[part]
            shape = ((num_steps,) if num_steps is not None else ()) + (self.num_envs, *leaf.shape)
            array = to_numpy(value)
            if array.shape != shape or array.dtype != leaf.dtype:
                raise SchemaError(
                    f"{leaf.name}: expected shape {shape} and dtype {leaf.dtype}, got {array.shape} and {array.dtype}"
                )
            arrays.append(array if num_steps is not None else array[None])
        return arrays

    def _read_cuts(self, sample: Mapping[str, Any], num_steps: int | None) -> np.ndarray:
        """The breaks of the stream that a sample announces; any sample may do so, or not."""
        shape = (num_steps or 1, self.num_envs, 1)
        if keys.CUT not in sample:
            if self._no_cuts.size < shape[0] * shape[1]:
                self._no_cuts = np.zeros(shape, np.bool_)
            return self._no_cuts
        value = sample[keys.CUT]
        array = to_numpy(value)
        if array.shape != (shape if num_steps is not None else shape[1:]):
            raise SchemaError(f"{keys.CUT}: expected shape {shape}, got {array.shape}")
        if not ((array == 0) | (array == 1)).all():
            raise SchemaError(f"{keys.CUT} must be 0 or 1 everywhere")
        return np.ascontiguousarray(array.astype(np.bool_))

    def _input(self, leaf: Leaf, axis: int) -> _Input:
        shape = (self.num_envs, *leaf.shape)
        torch_dtype = torch.from_numpy(np.empty(0, leaf.dtype)).dtype
        stage = None
        if axis < 0 and leaf.num_bytes * self.num_envs <= _LARGEST_STAGED_BYTES:
            stage = np.zeros(shape, leaf.dtype)
        return _Input(leaf, shape, torch_dtype, axis, stage, stage.ctypes.data if stage is not None else 0)

    def _check_keys(self, sample: Mapping[str, Any]) -> None:
        if sample.keys() != self._keys:
            present = set(sample.keys()) - self._ignored
            if present != self._keys:
                raise SchemaError(
                    "a sample must have the keys of the first one: "
                    f"missing {sorted(self._keys - present)}, unexpected {sorted(map(str, present - self._keys))}"
                )
        for key, paths in self._nested.items():
            found = {path for path, _ in walk((key,), sample[key])}
            if found != paths:
                raise SchemaError(f"{key} must have the entries of the first sample {paths}, got {found}")

    def _mismatch(self, entry: _Input, shape: tuple[int, ...], value: Any) -> SchemaError:
        if not isinstance(value, (np.ndarray, torch.Tensor)):
            return SchemaError(
                f"{entry.leaf.name} must be a numpy array or a torch tensor, got {type(value).__name__}"
            )
        return SchemaError(
            f"{entry.leaf.name}: expected shape {shape} and dtype {entry.leaf.dtype}, "
            f"got {tuple(value.shape)} and {value.dtype}; shapes and dtypes are fixed by the first sample"
        )
