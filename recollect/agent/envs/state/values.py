"""Values of envs as trees of plain data, which a file can hold and reading cannot execute."""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from gymnasium.wrappers.utils import RunningMeanStd

from recollect.errors import StorageError

_ARRAY: Final = "#array"
_NUMBER: Final = "#number"
_TUPLE: Final = "#tuple"
_QUEUE: Final = "#queue"
_DICT: Final = "#dict"
_STATISTICS: Final = "#statistics"
_GENERATOR: Final = "#generator"
_MAX_LENGTH: Final = "max_length"
# Bit generators of NumPy; a file names one of them, never anything else to be made.
_BIT_GENERATORS: Final = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}
# Kinds of arrays that mean something in another process: flags, numbers, and nothing that is an address.
_ARRAY_KINDS: Final = "biuf"


def pack(value: object) -> Any:
    """Turn a value into a tree of dicts with names, lists, arrays and plain values; the types are kept beside them.

    Raises
    ------
    StorageError
        If the value, or a part of it, is something else.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in _ARRAY_KINDS:
        return {_ARRAY: value.copy()}
    if isinstance(value, np.generic) and value.dtype.kind in _ARRAY_KINDS:
        return {_NUMBER: np.array(value)}
    if isinstance(value, list):
        return [pack(inner) for inner in value]
    if isinstance(value, tuple):
        return {_TUPLE: [pack(inner) for inner in value]}
    if isinstance(value, deque):
        return {_QUEUE: [pack(inner) for inner in value], _MAX_LENGTH: value.maxlen}
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {_DICT: {name: pack(inner) for name, inner in value.items()}}
    if isinstance(value, RunningMeanStd):
        return {_STATISTICS: {name: pack(inner) for name, inner in vars(value).items()}}
    if isinstance(value, np.random.Generator) and type(value.bit_generator).__name__ in _BIT_GENERATORS:
        return {_GENERATOR: pack(value.bit_generator.state)}
    raise StorageError(f"{type(value).__name__} is not plain data")


def unpack(tree: Any) -> Any:
    """Turn what `pack` gave, from memory or from a file, into the value again."""
    if isinstance(tree, list):
        return [unpack(inner) for inner in tree]
    if not isinstance(tree, Mapping):
        return tree
    tag = next(iter(tree), None)
    content = tree.get(tag)
    if tag == _ARRAY:
        return np.asarray(content).copy()
    if tag == _NUMBER:
        return np.asarray(content)[()]
    if tag == _TUPLE:
        return tuple(unpack(content))
    if tag == _QUEUE:
        return deque(unpack(content), maxlen=tree[_MAX_LENGTH])
    if tag == _DICT:
        return {name: unpack(inner) for name, inner in content.items()}
    if tag == _STATISTICS:
        statistics = RunningMeanStd()
        statistics.mean, statistics.var, statistics.count = (unpack(content[name]) for name in ("mean", "var", "count"))
        return statistics
    if tag == _GENERATOR:
        return _generator(unpack(content))
    raise StorageError(f"a state has the unknown kind of value {tag!r}")


def _generator(state: Mapping[str, Any]) -> np.random.Generator:
    name = state["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise StorageError(f"a state has the unknown bit generator {name!r}")
    bit_generator = _BIT_GENERATORS[name]()
    bit_generator.state = state
    return np.random.Generator(bit_generator)
