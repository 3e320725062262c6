"""An actor's weights in a file."""

import os
from pathlib import Path
from typing import Final

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from recollect.errors import ConfigError, SchemaError, StorageError
from recollect.files.disk import make_folder, read_file, write_file

# What the head of a file takes beside the weights, at most.
_HEAD_BYTES: Final = 1 << 20
_HEAD_BYTES_A_TENSOR: Final = 1 << 10


def save_weights(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Write all weights, with running means and variances; replaces an existing file once the new one is complete."""
    target = Path(path)
    try:
        make_folder(target.parent)
        write_file(target, save({name: tensor.contiguous() for name, tensor in module.state_dict().items()}))
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror}") from error


def load_weights(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Read what `save_weights` wrote into a module of the same shape."""
    own = module.state_dict()
    max_bytes = _HEAD_BYTES + sum(tensor.nbytes + _HEAD_BYTES_A_TENSOR for tensor in own.values())
    try:
        weights = load(read_file(Path(path).resolve(), max_bytes))
    except FileNotFoundError:
        raise ConfigError(f"there is no checkpoint at {path}; give the path of an actor's .safetensors file") from None
    except (SafetensorError, OSError, StorageError) as error:
        raise SchemaError(
            f"{path} is not a readable .safetensors file ({error}); give one that an actor saved"
        ) from None
    _check_fits(own, weights, path)
    module.load_state_dict(weights)


def _check_fits(own: dict[str, Tensor], weights: dict[str, Tensor], path: str | os.PathLike[str]) -> None:
    for name in sorted(own.keys() ^ weights.keys()):
        holder = "the file" if name in weights else "this actor"
        raise SchemaError(f"{path} does not fit this actor: only {holder} has {name!r}; build it with the saved config")
    for name, tensor in own.items():
        if tensor.shape != weights[name].shape:
            came, expected = tuple(weights[name].shape), tuple(tensor.shape)
            raise SchemaError(f"{path} does not fit this actor: {name!r} has shape {came}, expected {expected}")
