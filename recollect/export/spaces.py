"""Spaces as plain documents, for files that are read where nobody makes the environment."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import gymnasium as gym
import numpy as np

from recollect.errors import SchemaError
from recollect.records import PARSE_ERRORS

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
            return {**kind, "n": int(space.n), "start": int(space.start)}
        case gym.spaces.MultiDiscrete():
            return {**kind, "nvec": space.nvec.tolist(), "start": space.start.tolist()}
        case gym.spaces.MultiBinary():
            return {**kind, "shape": list(space.shape)}
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
            low, high = (np.broadcast_to(np.asarray(document[bound], np.float64), shape) for bound in ("low", "high"))
            return gym.spaces.Box(low.astype(dtype), high.astype(dtype), shape, dtype.type)
        case "Discrete":
            return gym.spaces.Discrete(int(document["n"]), start=int(document["start"]))
        case "MultiDiscrete":
            return gym.spaces.MultiDiscrete(np.array(document["nvec"]), start=np.array(document["start"]))
        case "MultiBinary":
            return gym.spaces.MultiBinary(_lengths(document["shape"]))
    raise ValueError(f"no such kind: {document[_KIND]!r}")


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
