"""The commit record of a checkpoint: its files and its replay, each with size and checksum."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from recollect.agent.storages.experience.persistence.snapshot_files import check_snapshot, find_manifests
from recollect.errors import StorageError
from recollect.files.disk import Seal, check_sealed, read_file, seal
from recollect.files.records import MAX_BYTES, PARSE_ERRORS, as_number, as_whole, dump_record, read_record

COMMIT_FILE: Final = "commit.json"
VERSION: Final = 2
# Records of earlier versions do not say whether episodes are in them.
_GAP_UNKNOWN: Final = "an earlier version wrote it, and did not say whether episodes in progress are in it"
_KIND: Final = "checkpoint of a run"
_FILE: Final = re.compile(r"[a-z]+\.(json|safetensors)")
_MANIFEST: Final = re.compile(r"(worker-\d+/)?manifest-[A-Za-z0-9-]+\.json")
_REPLAY: Final = re.compile(r"[A-Za-z0-9-]+")
# A time that calendars know.
_LATEST_S: Final = float(1 << 36)
_MAX: Final = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The snapshot of the replay that belongs to a checkpoint.

    Attributes
    ----------
    name : str
        What it is called in the folder of the replay.
    num_stored : int
        Transitions in it.
    manifests : dict
        Seals of its manifests, by their paths in that folder; none if nothing was stored yet.
    """

    name: str
    num_stored: int
    manifests: dict[str, Seal]

    @classmethod
    def find(cls, folder: Path, name: str, num_stored: int) -> Self:
        """Seal what was written under a name."""
        paths = find_manifests(folder, name)
        seals = {str(path.relative_to(folder)): seal(read_file(path, MAX_BYTES)) for path in paths}
        return cls(name=name, num_stored=num_stored, manifests=seals)

    def check(self, folder: Path) -> None:
        """Refuse a replay that is not what was written."""
        for file, expected in self.manifests.items():
            check_sealed(folder / file, expected)
            check_snapshot(folder / file)


@dataclass(frozen=True, kw_only=True)
class Commit:
    """What a checkpoint is made of.

    Attributes
    ----------
    num_steps : int
        Env steps so far.
    written_at : float
        Seconds since 1970.
    files : dict
        Seals of its files by name.
    replay : Replay or None
        What belongs to it; None if it was saved without.
    gap : str or None
        Why whoever resumes from it begins new episodes; None if those in progress are in it.
    """

    num_steps: int
    written_at: float
    files: dict[str, Seal] = field(default_factory=dict)
    replay: Replay | None = None
    gap: str | None = None

    @property
    def promise(self) -> str:
        """How exactly a run is resumed from it."""
        if self.replay is None:
            return "resumes with an empty replay"
        return "resumes exactly" if self.gap is None else f"resumes with new episodes: {self.gap}"

    def dump(self) -> bytes:
        """The commit record."""
        return dump_record(_KIND, VERSION, asdict(self))

    def check(self, folder: Path, replay_folder: Path | None) -> None:
        """Refuse files that are not what was written; the replay is looked at if its folder is given."""
        for name, expected in self.files.items():
            check_sealed(folder / name, expected)
        if self.replay is not None and replay_folder is not None:
            self.replay.check(replay_folder)


def read_commit(path: Path) -> Commit:
    """Read the commit record of a checkpoint; what none of ours would say is refused."""
    content = read_record(path / COMMIT_FILE, _KIND, VERSION)
    try:
        found = content["replay"]
        return Commit(
            num_steps=as_whole(content["num_steps"], 0, _MAX),
            written_at=as_number(content["written_at"], 0.0, _LATEST_S),
            files=_load_seals(content["files"], _FILE),
            replay=None if found is None else _load_replay(found),
            gap=None if (gap := content.get("gap", _GAP_UNKNOWN)) is None else str(gap),
        )
    except PARSE_ERRORS as error:
        raise StorageError(f"{path / COMMIT_FILE} is damaged: {error!r}") from error


def _load_seals(found: Mapping[str, Any], names: re.Pattern[str]) -> dict[str, Seal]:
    """Seals by names of the kind that is expected, so that none leads elsewhere."""
    for name in found:
        if not names.fullmatch(name):
            raise ValueError(f"{name!r} is no file of a checkpoint")
    return {name: Seal(as_whole(size, 0, _MAX), str(sha256)) for name, (size, sha256) in found.items()}


def _load_replay(found: Mapping[str, Any]) -> Replay:
    if not _REPLAY.fullmatch(found["name"]):
        raise ValueError(f"{found['name']!r} is no name of a replay")
    manifests = _load_seals(found["manifests"], _MANIFEST)
    return Replay(name=found["name"], num_stored=as_whole(found["num_stored"], 0, _MAX), manifests=manifests)


def written_at(path: Path) -> float:
    """When a checkpoint was written; long ago if it does not say."""
    try:
        return read_commit(path).written_at
    except StorageError:
        return 0.0


def replay_of(path: Path) -> str | None:
    """What the replay of a checkpoint is called; None without one, or if it does not say."""
    try:
        replay = read_commit(path).replay
    except StorageError:
        return None
    return None if replay is None else replay.name
