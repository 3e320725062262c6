"""Values of envs as trees of plain data, which a file can hold and reading cannot execute."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from gymnasium.wrappers.utils import RunningMeanStd

from recollect.errors import StorageError
from recollect.files.records import PARSE_ERRORS, as_whole

_ARRAY: Final = "#array"
_NUMBER: Final = "#number"
_TUPLE: Final = "#tuple"
_QUEUE: Final = "#queue"
_DICT: Final = "#dict"
_STATISTICS: Final = "#statistics"
_GENERATOR: Final = "#generator"
# Bit generators of NumPy; a file names one of them, never anything else to be made.
_BIT_GENERATORS: Final = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}
# Where they are in a table of their own: NumPy reads there unchecked. Entries, entry, and the most that it can be.
_POSITIONS: Final = {"MT19937": (("state", "pos", 624),), "Philox": (("", "buffer_pos", 4),)}
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
        return {_QUEUE: [[pack(inner) for inner in value], value.maxlen]}
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {_DICT: {name: pack(inner) for name, inner in value.items()}}
    if isinstance(value, RunningMeanStd):
        return {_STATISTICS: {name: pack(inner) for name, inner in vars(value).items()}}
    if isinstance(value, np.random.Generator) and type(value.bit_generator).__name__ in _BIT_GENERATORS:
        return {_GENERATOR: pack(value.bit_generator.state)}
    raise StorageError(f"{type(value).__name__} is not plain data")


def unpack(tree: object) -> Any:
    """Turn what `pack` gave, from memory or from a file, into the value again.

    Raises
    ------
    StorageError
        If `pack` cannot have given it.
    """
    if isinstance(tree, list):
        return [unpack(inner) for inner in tree]
    if not isinstance(tree, Mapping):
        return tree
    tag: str = next(iter(tree), "nothing")
    if tag not in _UNPACK:
        raise StorageError(f"a state has the unknown kind of value {tag!r}")
    try:
        return _UNPACK[tag](tree[tag])
    except PARSE_ERRORS as error:
        raise StorageError(f"a state has a damaged {tag[1:]}: {error}") from error


def _unpack_array(content: Any) -> np.ndarray:
    array = np.asarray(content).copy()
    if array.dtype.kind not in _ARRAY_KINDS:
        raise StorageError(f"a state has an array of {array.dtype}")
    return array


def _unpack_queue(content: Any) -> deque[Any]:
    values, max_length = content
    return deque(unpack(values), maxlen=max_length)


def _unpack_statistics(content: Any) -> RunningMeanStd:
    statistics = RunningMeanStd()  # type: ignore[no-untyped-call]
    for name in vars(statistics):
        setattr(statistics, name, unpack(content[name]))
    return statistics


def _unpack_generator(content: Any) -> np.random.Generator:
    state = unpack(content)
    name = state["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise StorageError(f"a state has the unknown bit generator {name!r}")
    for entries, entry, most in _POSITIONS.get(name, ()):
        as_whole(int((state[entries] if entries else state)[entry]), 0, most)
    bit_generator = _BIT_GENERATORS[name]()
    bit_generator.state = state
    return np.random.Generator(bit_generator)


_UNPACK: Final[dict[str, Callable[[Any], Any]]] = {
    _ARRAY: _unpack_array,
    _NUMBER: lambda content: _unpack_array(content)[()],
    _TUPLE: lambda content: tuple(unpack(inner) for inner in content),
    _QUEUE: _unpack_queue,
    _DICT: lambda content: {name: unpack(inner) for name, inner in content.items()},
    _STATISTICS: _unpack_statistics,
    _GENERATOR: _unpack_generator,
}
