"""A tree of tensors and plain values in two files, JSON and safetensors, that reading cannot execute."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from recollect import keys
from recollect.errors import StorageError
from recollect.files.disk import read_file, write_file
from recollect.files.records import MAX_BYTES, PARSE_ERRORS

_TENSOR: Final = "#tensor"
_ITEMS: Final = "#items"


class CapturedState(NamedTuple):
    """A tree of dicts, lists, tensors, arrays and plain values, copied, whatever becomes of the original."""

    tree: object
    tensors: dict[str, torch.Tensor]

    @classmethod
    def of(cls, state: object) -> Self:
        """Copy a tree."""
        tensors: dict[str, torch.Tensor] = {}
        tree = _encode(state, (), tensors)
        return cls(tree, copy_tensors(tensors))

    def dump(self, name: str) -> dict[str, bytes]:
        """Its files, `name.json` and `name.safetensors`.

        Tuples come back as lists, arrays as tensors, NumPy's numbers as Python's.
        """
        return {f"{name}.safetensors": save(self.tensors), f"{name}.json": json.dumps(self.tree).encode()}


def read_state(folder: Path, name: str) -> Any:
    """Read what `CapturedState.dump` gave from a folder."""
    try:
        tree = json.loads(read_file(folder / f"{name}.json", MAX_BYTES))
        return _decode(tree, load(read_file(folder / f"{name}.safetensors")))
    except (OSError, *PARSE_ERRORS, SafetensorError) as error:
        raise StorageError(f"{folder / name}.* cannot be read: {error!r}") from error


def dump_tensors(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """Tensors by name, wherever they live and whatever memory they share, as safetensors."""
    return save(copy_tensors(tensors))


def copy_tensors(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies of tensors in the memory of this process, none of which shares any with another."""
    return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors by name."""
    try:
        write_file(path, dump_tensors(tensors))
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def flatten(batch: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors of a nested dict by their paths."""
    tensors: dict[str, torch.Tensor] = {}
    _encode(batch, (), tensors)
    return tensors


def _encode(value: object, path: tuple[str, ...], tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        name = keys.PATH_SEPARATOR.join(path)
        tensors[name] = torch.as_tensor(value)
        return {_TENSOR: name}
    if isinstance(value, Mapping):
        pairs = [(key, _encode(inner, (*path, str(key)), tensors)) for key, inner in value.items()]
        return dict(pairs) if all(isinstance(key, str) for key in value) else {_ITEMS: pairs}
    if isinstance(value, (list, tuple)):
        return [_encode(inner, (*path, str(index)), tensors) for index, inner in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    where = keys.PATH_SEPARATOR.join(path)
    raise StorageError(f"a state cannot hold {type(value).__name__} at {where!r}; give tensors and plain values")


def _decode(value: object, tensors: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(inner, tensors) for inner in value]
    if not isinstance(value, dict):
        return value
    if _TENSOR in value:
        return tensors[value[_TENSOR]]
    return {key: _decode(inner, tensors) for key, inner in value.get(_ITEMS, value.items())}
