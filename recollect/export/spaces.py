"""Spaces as plain documents, for files that are read without the environment."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import gymnasium as gym
import numpy as np

from recollect.errors import SchemaError
from recollect.files.records import PARSE_ERRORS

_KIND: Final = "kind"
# What a float has no number for in JSON.
_INFINITE: Final = {np.inf: "inf", -np.inf: "-inf"}


def space_to_document(space: gym.Space[Any]) -> dict[str, Any]:
    """Describe a space by names, numbers and lists."""
    kind = {_KIND: type(space).__name__}
    match space:
        case gym.spaces.Dict():
            return {**kind, "spaces": {name: space_to_document(inner) for name, inner in space.items()}}
        case gym.spaces.Box():
            bounds = {"low": _plain(space.low), "high": _plain(space.high)}
            return {**kind, "shape": list(space.shape), "dtype": np.dtype(space.dtype).name, **bounds}
        case gym.spaces.Discrete():
            return {**kind, "n": int(space.n), "start": int(space.start), "dtype": np.dtype(space.dtype).name}
        case gym.spaces.MultiDiscrete():
            lists = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
            return {**kind, **lists, "dtype": np.dtype(space.dtype).name}
        case gym.spaces.MultiBinary():
            return {**kind, "shape": space.n if isinstance(space.n, int) else list(space.shape)}
    raise SchemaError(
        f"the space {space} cannot be described; expected Box, Discrete, MultiDiscrete, MultiBinary, Dict"
    )


def space_from_document(document: Any) -> gym.Space[Any]:
    """Make the space that a document describes; anything else is refused."""
    try:
        return _read(document)
    except (AssertionError, *PARSE_ERRORS) as error:
        raise SchemaError(
            f"{_shortened(document)} describes no space: {error!r}; it must be as exports have it"
        ) from None


def _read(document: Mapping[str, Any]) -> gym.Space[Any]:
    match document[_KIND]:
        case "Dict":
            return gym.spaces.Dict({str(name): _read(inner) for name, inner in document["spaces"].items()})
        case "Box":
            shape, dtype = _lengths(document["shape"]), np.dtype(document["dtype"])
            if dtype.kind not in "biuf":
                raise ValueError(f"a Box of {dtype}")
            exact = np.float64 if dtype.kind == "f" else dtype  # which a float does not know of 64 bits
            low, high = (np.broadcast_to(np.asarray(document[bound], exact), shape) for bound in ("low", "high"))
            return gym.spaces.Box(low.astype(dtype), high.astype(dtype), shape, dtype.type)
        case "Discrete":
            return gym.spaces.Discrete(int(document["n"]), start=int(document["start"]), **_dtype_of(document))
        case "MultiDiscrete":
            numbers, start = np.array(document["nvec"]), np.array(document["start"])
            return gym.spaces.MultiDiscrete(numbers, start=start, **_dtype_of(document))
        case "MultiBinary":
            shape = document["shape"]
            return gym.spaces.MultiBinary(*_lengths([shape]) if isinstance(shape, int) else [_lengths(shape)])
    raise ValueError(f"no such kind: {document[_KIND]!r}")


def _dtype_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Dtype of choices, as an option of their space; none where it is int64, which older versions of it take alone."""
    dtype = np.dtype(document.get("dtype", "int64"))
    if dtype.kind not in "iu":
        raise ValueError(f"choices of {dtype}")
    return {} if dtype == np.int64 else {"dtype": dtype.type}


def _lengths(shape: Iterable[int]) -> tuple[int, ...]:
    lengths = tuple(int(length) for length in shape)
    if any(length < 0 for length in lengths) or np.prod(lengths, dtype=np.float64) > 2**31:
        raise ValueError(f"the shape {shape}")
    return lengths


def _plain(bounds: np.ndarray) -> Any:
    """Bounds as numbers: a single one where all are the same."""
    if bounds.size and (bounds == bounds.flat[0]).all():
        value = bounds.flat[0].item()
        return _INFINITE.get(value, value)
    return [_plain(row) for row in bounds]


def _shortened(document: object, most: int = 80) -> str:
    text = repr(document)
    return text if len(text) <= most else f"{text[:most]}..."
