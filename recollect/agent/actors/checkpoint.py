"""An actor's weights in a file."""

import os
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from recollect.errors import ConfigError, SchemaError, StorageError


def save_weights(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Write all weights, with running means and variances; replaces an existing file once the new one is complete."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".part")
    try:
        save_file({name: tensor.contiguous() for name, tensor in module.state_dict().items()}, unfinished)
    except SafetensorError as error:
        unfinished.unlink(missing_ok=True)
        raise StorageError(f"{target} cannot be written: {error}") from error
    os.replace(unfinished, target)


def load_weights(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Read what `save_weights` wrote into a module of the same shape."""
    try:
        weights = load_file(path)
    except FileNotFoundError:
        raise ConfigError(f"there is no checkpoint at {path}; give the path of an actor's .safetensors file") from None
    except (SafetensorError, OSError) as error:
        raise SchemaError(
            f"{path} is not a readable .safetensors file ({error}); give one that an actor saved"
        ) from None
    _check_fits(module.state_dict(), weights, path)
    module.load_state_dict(weights)


def _check_fits(own: dict[str, Tensor], weights: dict[str, Tensor], path: str | os.PathLike[str]) -> None:
    for name in sorted(own.keys() ^ weights.keys()):
        holder = "the file" if name in weights else "this actor"
        raise SchemaError(f"{path} does not fit this actor: only {holder} has {name!r}; build it with the saved config")
    for name, tensor in own.items():
        if tensor.shape != weights[name].shape:
            came, expected = tuple(weights[name].shape), tuple(tensor.shape)
            raise SchemaError(f"{path} does not fit this actor: {name!r} has shape {came}, expected {expected}")
