"""Compression of arrays on their way between machines: their raw bytes, one after the other, as one zstd frame."""

import importlib
import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from recollect.errors import ConfigError

Arrays = dict[str, np.ndarray]

# Arrays begin at multiples of this many bytes, so that they can be used where they lie.
_ALIGNMENT: Final = 16
# The fastest of the ordinary levels: more cost more time than they save on a common network.
_LEVEL: Final = 1


@dataclass(frozen=True)
class Packed:
    """Compressed arrays, and what is needed to lay them out again.

    Attributes
    ----------
    layout : tuple
        Name, dtype and shape of each array, in the order of their bytes.
    frame : uint8 array
        The compressed bytes.
    elapsed_s : float
        Seconds that compression took.
    """

    layout: tuple[tuple[str, str, tuple[int, ...]], ...]
    frame: np.ndarray
    elapsed_s: float


def pack(arrays: Arrays) -> Packed:
    """Compress arrays."""
    begin = time.perf_counter()
    layout = tuple((name, array.dtype.str, array.shape) for name, array in arrays.items())
    raw = b"".join(_aligned_bytes(array) for array in arrays.values())
    frame = np.frombuffer(_zstandard().ZstdCompressor(level=_LEVEL).compress(raw), np.uint8)
    return Packed(layout, frame, time.perf_counter() - begin)


def unpack(packed: Packed) -> Arrays:
    """Undo `pack`; the arrays share one block of memory that cannot be written to."""
    raw = _zstandard().ZstdDecompressor().decompress(packed.frame.data)
    arrays, begin = {}, 0
    for name, dtype, shape in packed.layout:
        size = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(raw, np.dtype(dtype), size, begin) if size else np.empty(0, dtype)
        arrays[name] = array.reshape(shape)
        begin += array.nbytes + _num_padding(array)
    return arrays


def count_bytes(arrays: Arrays) -> int:
    """Bytes of all arrays together."""
    return sum(array.nbytes for array in arrays.values())


def _aligned_bytes(array: np.ndarray) -> bytes:
    return array.tobytes() + bytes(_num_padding(array))


def _num_padding(array: np.ndarray) -> int:
    return -array.nbytes % _ALIGNMENT


def _zstandard() -> Any:
    try:
        return importlib.import_module("zstandard")
    except ImportError as error:
        raise ConfigError(
            "compression needs the extra 'ray': pip install \"recollect[ray]\"; or do not compress"
        ) from error
