"""A tree of tensors and plain values in two files, JSON and safetensors, that reading cannot execute."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from recollect import keys
from recollect.disk import sync_file, write_synced
from recollect.errors import StorageError

_TENSOR: Final = "#tensor"
_ITEMS: Final = "#items"


def write_state(folder: Path, name: str, state: object) -> None:
    """Write a tree of dicts, lists, tensors, arrays and plain values as `name.json` and `name.safetensors`.

    Tuples come back as lists, arrays as tensors, NumPy's numbers as Python's.
    """
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(_encode(state, (), tensors), indent=1)
    write_tensors(folder / f"{name}.safetensors", tensors)
    write_synced(folder / f"{name}.json", text.encode())


def read_state(folder: Path, name: str) -> Any:
    """Read what `write_state` wrote."""
    try:
        tree = json.loads((folder / f"{name}.json").read_bytes())
        return _decode(tree, load_file(folder / f"{name}.safetensors"))
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise StorageError(f"{folder / name}.* cannot be read: {error}") from error


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors by name, wherever they live and whatever memory they share."""
    try:
        save_file({name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        raise StorageError(f"{path} cannot be written: {error}") from error
    sync_file(path)


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
