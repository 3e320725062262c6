"""Compression of bytes on their way between machines, as one zstd frame."""

import importlib
import time
from typing import Any, Final

import numpy as np

from recollect.errors import ConfigError

# The fastest of the ordinary levels: more cost more time than they save on a common network.
_LEVEL: Final = 1


def compress(data: np.ndarray) -> tuple[np.ndarray, float]:
    """Compress bytes, uint8; returns them and the seconds that it took."""
    begin = time.perf_counter()
    frame = np.frombuffer(_zstandard().ZstdCompressor(level=_LEVEL).compress(data.data), np.uint8)
    return frame, time.perf_counter() - begin


def decompress(frame: np.ndarray) -> np.ndarray:
    """Undo `compress`; what comes back cannot be written to."""
    return np.frombuffer(_zstandard().ZstdDecompressor().decompress(frame.data), np.uint8)


def _zstandard() -> Any:
    try:
        return importlib.import_module("zstandard")
    except ImportError as error:
        raise ConfigError(
            "compression needs the extra 'ray': pip install \"recollect[ray]\"; or do not compress"
        ) from error
