"""The manifest of a snapshot: what its files hold, in JSON, with a checksum over itself."""

import hashlib
import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from recollect.agent.storages.experience.store.ring_builder import SequenceShape
from recollect.agent.storages.experience.store.schema import Schema
from recollect.agent.storages.experience.store.schema_text import dump_schema, load_schema
from recollect.agent.storages.experience.store.sources import StoreState
from recollect.errors import StorageError

VERSION: Final = 2
_FORMAT: Final = "recollect lane store"


@dataclass(frozen=True)
class Chunk:
    """A file with a piece of the lanes of one source: of each, the steps of a range of numbers before `end`.

    A final chunk does not change any more: every step of it has a successor.
    """

    group: int
    end: int
    is_final: bool
    file: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """All of a snapshot but the arrays themselves.

    Attributes
    ----------
    serial, token : int, str
        How many snapshots were written here before, and what tells this one from any other.
    cursors : dict
        Heads and firsts of the lanes, by name.
    arrays : dict
        Files of arrays that are written again each time, by name.
    checksums : dict
        SHA-256 of each file.
    state : dict
        What the owner of the store adds.
    """

    serial: int
    token: str
    num_envs: int
    sequence: SequenceShape | None
    schema: Schema
    store: StoreState
    cursors: dict[str, list[int]]
    num_cuts: int
    num_ends: int
    chunks: list[Chunk] = field(default_factory=list)
    arrays: dict[str, str] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)

    def dump(self) -> bytes:
        """Write it as JSON."""
        content = {key: value for key, value in vars(self).items() if key not in ("schema", "store", "chunks")}
        content["schema"] = dump_schema(self.schema)
        content["store"] = dump_store(self.store)
        content["chunks"] = [vars(chunk) for chunk in self.chunks]
        try:
            text = json.dumps(content)
        except (TypeError, ValueError) as error:
            raise StorageError(f"a snapshot's state must be JSON: {error}") from error
        head = {"format": _FORMAT, "version": VERSION, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        return (json.dumps(head) + "\n" + text + "\n").encode()


def load_manifest(data: bytes, where: str) -> Manifest:
    """Read a manifest; one that is damaged, foreign or of another version is refused."""
    first, _, rest = data.partition(b"\n")
    try:
        head = json.loads(first)
        if not isinstance(head, dict) or head.get("format") != _FORMAT:
            raise StorageError(f"{where} is not the manifest of a snapshot")
        if head["version"] != VERSION:
            raise StorageError(f"{where} has the version {head['version']}; this release reads {VERSION}")
        text = rest.removesuffix(b"\n")
        if hashlib.sha256(text).hexdigest() != head["sha256"]:
            raise StorageError(f"{where} is damaged: its checksum does not fit")
        return _load(json.loads(text))
    except (KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
        raise StorageError(f"{where} is damaged: {error!r}") from error


def _load(content: dict[str, Any]) -> Manifest:
    content["schema"] = load_schema(content["schema"])
    content["store"] = load_store(content["store"])
    content["chunks"] = [Chunk(**chunk) for chunk in content["chunks"]]
    content["sequence"] = None if content["sequence"] is None else SequenceShape(*content["sequence"])
    return Manifest(**content)


def dump_store(state: StoreState) -> dict[str, Any]:
    """Who feeds a store, as JSON."""
    sources = [[_dump_source(source), lane, received] for source, lane, received in state.sources]
    return {**vars(state), "sources": sources}


def load_store(content: Mapping[str, Any]) -> StoreState:
    """Who feeds a store, from what `dump_store` made of it."""
    sources = tuple((_load_source(source), lane, tuple(received)) for source, lane, received in content["sources"])
    return StoreState(sources, tuple(content["vacant_lanes"]), content["warned_of_cuts"], content["cleared_at"])


def _dump_source(source: Hashable) -> Any:
    """A source as JSON: lists stand for tuples, which alone can be told apart again."""
    if isinstance(source, tuple):
        return [_dump_source(part) for part in source]
    if source is None or isinstance(source, (bool, int, float, str)):
        return source
    raise StorageError(f"the source {source!r} cannot be written to a snapshot; use numbers, strings or tuples of them")


def _load_source(source: Any) -> Hashable:
    return tuple(_load_source(part) for part in source) if isinstance(source, list) else source
