"""`SentPiece`: a message of consecutive steps from a worker to the learner's storage."""

import time
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from recollect.agent.storages.experience.store.outbox import Outbox
from recollect.agent.storages.experience.store.ring.ring_piece import RingPiece
from recollect.agent.storages.experience.store.schema.schema import Schema
from recollect.agent.storages.experience.store.schema.schema_text import dump_schema
from recollect.extras import import_extra
from recollect.scheme.normaliser_sums import Statistics

# The fastest of zstd's ordinary levels: more cost more time than they save on a common network.
_LEVEL: Final = 1


@dataclass(frozen=True)
class SentPiece:
    """A piece of a worker's ring, with its metadata.

    Attributes
    ----------
    source : tuple of int
        Index of the worker's parent and its own.
    epoch : int
        Which incarnation of the worker saw the steps; each has a stream of its own.
    version : int
        Version of the weights that were acted with.
    info : dict
        What else is known: time, episodes that ended.
    seen : tuple of dicts of arrays
        Statistics of the normalisers of the worker's actor, before it acted and after, see `normaliser_sums`.
    num_steps : int
        Most steps of an environment.
    data : uint8 array
        The bytes of the piece; none of a worker that was stopped before its first step.
    schema : str
        The fields of its steps, as text, in the first piece of a stream; those after it have the same.
    codec_s : float or None
        Seconds that it took to compress the bytes, None if they are as they were.
    """

    source: tuple[int, int]
    epoch: int
    version: int
    info: dict[str, Any]
    seen: tuple[Statistics, Statistics] = ({}, {})
    num_steps: int = 0
    data: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint8))
    schema: str = ""
    codec_s: float | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes of the steps on their way."""
        return self.data.nbytes

    def piece(self, schema: Schema) -> RingPiece:
        """The steps, which have the fields of `schema`."""
        return RingPiece(schema, self.data if self.codec_s is None else decompress(self.data))


def contents(outbox: Outbox, *, is_compressed: bool) -> dict[str, Any]:
    """The entries of a `SentPiece` that say what its steps are: the newest ones of an outbox."""
    is_first, piece = not outbox.has_sent, outbox.take()
    if piece is None or not piece.num_steps.any():
        return {}
    data, codec_s = compress(piece.data) if is_compressed else (piece.data, None)
    schema = dump_schema(piece.schema) if is_first else ""
    return {"num_steps": int(piece.num_steps.max()), "data": data, "schema": schema, "codec_s": codec_s}


def compress(data: np.ndarray) -> tuple[np.ndarray, float]:
    """Compress bytes, uint8, into one zstd frame; returns them and the seconds that it took."""
    begin = time.perf_counter()
    frame = np.frombuffer(_zstandard().ZstdCompressor(level=_LEVEL).compress(data.data), np.uint8)
    return frame, time.perf_counter() - begin


def decompress(frame: np.ndarray) -> np.ndarray:
    """Undo `compress`; what comes back cannot be written to."""
    return np.frombuffer(_zstandard().ZstdDecompressor().decompress(frame.data), np.uint8)


def _zstandard() -> Any:
    return import_extra("zstandard", "ray", "compression needs", "; or do not compress")
