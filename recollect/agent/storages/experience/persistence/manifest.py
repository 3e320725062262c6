"""The manifest of a snapshot: what its files hold, as a record. All that it says is checked before it is used."""

import re
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.store.ring.ring_builder import SequenceShape
from recollect.agent.storages.experience.store.schema.schema import Schema
from recollect.agent.storages.experience.store.schema.schema_text import dump_schema, load_schema
from recollect.agent.storages.experience.store.sources import StoreState
from recollect.errors import StorageError
from recollect.files.disk import Seal
from recollect.files.records import PARSE_ERRORS, as_whole, dump_record, read_record

VERSION: Final = 3
KIND: Final = "snapshot's manifest"
HEADS: Final = "heads"
FIRSTS: Final = "firsts"
# Numbers of steps that ids hold, and counts that int64 holds.
MAX_STEPS: Final = layout.ID_MASK >> 1
_MAX: Final = 1 << 62
_MAX_LANES: Final = 1 << 20
OWN_FILES: Final = re.compile(r"[0-9a-f]{32}-[a-z0-9-]+\.(piece|safetensors)")


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
    token : str
        What tells this snapshot from any other.
    cursors : dict
        Heads and firsts of the lanes, by name.
    arrays : str
        File of the arrays that are written again each time.
    seals : dict
        Size and checksum of each file.
    state : dict
        What the owner of the store adds.
    """

    token: str
    num_envs: int
    sequence: SequenceShape | None
    schema: Schema
    store: StoreState
    cursors: dict[str, list[int]]
    num_cuts: int
    num_ends: int
    arrays: str
    chunks: list[Chunk] = field(default_factory=list)
    seals: dict[str, Seal] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def num_lanes(self) -> int:
        """Streams of steps."""
        return len(self.cursors[HEADS])

    def dump(self) -> bytes:
        """Write it as a record."""
        content = {key: value for key, value in vars(self).items() if key not in ("schema", "store", "chunks")}
        content["schema"] = dump_schema(self.schema)
        content["store"] = dump_store(self.store)
        content["chunks"] = [asdict(chunk) for chunk in self.chunks]
        return dump_record(KIND, VERSION, content)


def read_manifest(path: Path) -> Manifest:
    """Read a manifest; one that is damaged, foreign, of another version, or that no storage would write is refused."""
    content = read_record(path, KIND, VERSION)
    try:
        return _load(content)
    except PARSE_ERRORS as error:
        raise StorageError(f"{path} is damaged: {error!r}") from error


def _load(content: dict[str, Any]) -> Manifest:
    num_envs = as_whole(content["num_envs"], 1, _MAX_LANES)
    standing = load_standing(content, num_envs)
    num_groups = len(standing["cursors"][HEADS]) // num_envs
    seals = {_as_file(file): Seal(as_whole(size, 0, _MAX), str(sha)) for file, (size, sha) in content["seals"].items()}
    chunks = [
        Chunk(as_whole(each["group"], 0, num_groups - 1), as_whole(each["end"], 0, _MAX), *_final(each, seals))
        for each in content["chunks"]
    ]
    shape = content["sequence"]
    return Manifest(
        token=str(content["token"]),
        num_envs=num_envs,
        sequence=None if shape is None else SequenceShape(*(as_whole(number, 0, MAX_STEPS) for number in shape)),
        schema=load_schema(content["schema"]),
        arrays=_known(content["arrays"], seals),
        chunks=chunks,
        seals=seals,
        **standing,
    )


def load_standing(content: Mapping[str, Any], num_envs: int) -> dict[str, Any]:
    """The entries of a manifest that say how far a store has got, checked; others are left out."""
    heads = [as_whole(number, 0, MAX_STEPS) for number in content["cursors"][HEADS]]
    firsts = [as_whole(number, 0, MAX_STEPS) for number in content["cursors"][FIRSTS]]
    if not heads or len(heads) % num_envs or len(heads) != len(firsts) or len(heads) > _MAX_LANES:
        raise ValueError(f"{len(heads)} and {len(firsts)} cursors are not those of sources with {num_envs} envs")
    if any(first > head for first, head in zip(firsts, heads, strict=True)):
        raise ValueError("a lane begins behind its end")
    return {
        "cursors": {HEADS: heads, FIRSTS: firsts},
        "store": _load_store(content["store"], num_envs, heads),
        "num_cuts": as_whole(content["num_cuts"], 0, _MAX),
        "num_ends": as_whole(content["num_ends"], 0, _MAX),
        "state": {**content["state"]},
    }


def dump_store(state: StoreState) -> dict[str, Any]:
    """Who feeds a store, as JSON."""
    sources = [[_dump_source(source), lane, received] for source, lane, received in state.sources]
    return {**vars(state), "sources": sources}


def _load_store(content: Mapping[str, Any], num_envs: int, heads: list[int]) -> StoreState:
    """Who feeds a store, from what `dump_store` made of it."""
    sources = tuple(
        (_load_source(source), lane, tuple(as_whole(number, 0, MAX_STEPS) for number in received))
        for source, lane, received in content["sources"]
    )
    vacant = tuple(content["vacant_lanes"])
    lanes = [as_whole(lane, 0, len(heads) - num_envs) for lane in (*(lane for _, lane, _ in sources), *vacant)]
    if any(lane % num_envs for lane in lanes) or len({*lanes}) < len(lanes):
        raise ValueError(f"sources cannot have the lanes {lanes}")
    if len({name for name, _, _ in sources}) < len(sources) or any(len(got) != num_envs for _, _, got in sources):
        raise ValueError("sources are named twice, or have lanes of others")
    return StoreState(sources, vacant, bool(content["warned_of_cuts"]), as_whole(content["cleared_at"], 0, heads[0]))


def _dump_source(source: Hashable) -> Any:
    """A source as JSON: lists stand for tuples, which alone can be told apart again."""
    if isinstance(source, tuple):
        return [_dump_source(part) for part in source]
    if source is None or isinstance(source, (bool, int, float, str)):
        return source
    raise StorageError(f"the source {source!r} cannot be written to a snapshot; use numbers, strings or tuples of them")


def _load_source(source: object) -> Hashable:
    return tuple(_load_source(part) for part in source) if isinstance(source, list) else source


def _final(chunk: Mapping[str, Any], seals: Mapping[str, Seal]) -> tuple[bool, str]:
    return bool(chunk["is_final"]), _known(chunk["file"], seals)


def _known(file: str, seals: Mapping[str, Seal]) -> str:
    if file not in seals:
        raise ValueError(f"{file!r} has no checksum")
    return file


def _as_file(name: str) -> str:
    """A name that snapshots give their files, and no path that leads elsewhere."""
    if not OWN_FILES.fullmatch(name):
        raise ValueError(f"{name!r} is no file of a snapshot")
    return name
