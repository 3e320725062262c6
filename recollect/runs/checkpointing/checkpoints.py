"""`Checkpoints`: saved states of a run, each of them whole or not there.

A checkpoint is a folder, and counts once its commit record is there, which is written last. The record names every
file with its size and checksum, and the snapshot of the replay that belongs to the weights.
"""

import os
import re
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import torch
from safetensors.torch import save

from recollect import keys
from recollect.agent.storages.experience.persistence.snapshot_files import (
    check_snapshot,
    find_manifests,
    remove_snapshots,
)
from recollect.errors import NotFiniteError, RecollectWarning, StorageError
from recollect.files.disk import (
    Content,
    Seal,
    check_sealed,
    make_folder,
    read_file,
    remove_folder,
    seal,
    sync_folder,
    write_file,
)
from recollect.files.records import MOST_BYTES, PARSE_ERRORS, as_whole, dump_record, read_record
from recollect.roles import Actor
from recollect.runs.checkpointing.state_files import CapturedState, copy_tensors, read_state

ACTOR_FILE: Final = "actor.safetensors"
COMMIT_FILE: Final = "commit.json"
VERSION: Final = 2
# Records of earlier versions do not say whether episodes are in them.
_UNTOLD: Final = "an earlier version wrote it, and did not say whether episodes in progress are in it"
_KIND: Final = "checkpoint of a run"
_STATE: Final = "state"
_NAME: Final = re.compile(r"\d{6}-step-\d{1,18}")
_FILE: Final = re.compile(r"[a-z]+\.(json|safetensors)")
_MANIFEST: Final = re.compile(r"(worker-\d+/)?manifest-[A-Za-z0-9-]+\.json")
_REPLAY: Final = re.compile(r"[A-Za-z0-9-]+")
_MOST: Final = 1 << 62


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
        seals = {str(path.relative_to(folder)): seal(read_file(path, MOST_BYTES)) for path in paths}
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


class Checkpoints:
    """Checkpoints of one run, the newest few kept.

    Parameters
    ----------
    folder : Path
        Where they are; made with the first checkpoint.
    num_kept : int
        How many to keep; older ones are removed.
    replay_folder : Path, optional
        Where the replay is written that belongs to them.

    Attributes
    ----------
    oldest_s : float or None
        Seconds after which all but the newest are removed.
    """

    def __init__(self, folder: Path, num_kept: int = keys.KEPT_CHECKPOINTS, replay_folder: Path | None = None) -> None:
        self.folder = folder
        self.num_kept = num_kept
        self.oldest_s: float | None = None
        self.replay_folder = replay_folder

    def paths(self) -> list[Path]:
        """Checkpoints that were committed, oldest first."""
        return [path for path in self._folders() if (path / COMMIT_FILE).exists()]

    def newest(self, *, with_replay: bool = True) -> Path:
        """The newest checkpoint that is whole; those that are damaged are skipped with a warning.

        Parameters
        ----------
        with_replay : bool
            Whether its replay must be whole too.
        """
        skipped = []
        for path in reversed(self.paths()):
            try:
                self.check(path, with_replay=with_replay)
            except StorageError as error:
                skipped.append(f"{path.name} is skipped: {error}")
                continue
            for reason in skipped:
                warnings.warn(f"the checkpoint {reason}", RecollectWarning, stacklevel=2)
            return path
        if skipped:
            raise StorageError(f"no checkpoint in {self.folder} is whole: {'; '.join(skipped)}")
        raise StorageError(f"there is no checkpoint in {self.folder}; train first, or name another run")

    def check(self, path: Path, *, with_replay: bool = True) -> Commit:
        """Refuse a checkpoint that is not what was written; returns its commit record."""
        commit = read_commit(path)
        try:
            commit.check(path, self.replay_folder if with_replay else None)
        except OSError as error:
            raise StorageError(f"{error.filename or path} cannot be read: {error.strerror}") from error
        return commit

    def num_steps(self) -> int:
        """Env steps at the checkpoint to resume from; 0 if there is none yet."""
        return read_commit(self.newest()).num_steps if self.paths() else 0

    def next_name(self, num_steps: int) -> str:
        """What the next checkpoint will be called."""
        folders = self._folders()
        return f"{int(folders[-1].name[:6]) + 1 if folders else 0:06d}-step-{num_steps}"

    def write(
        self, files: Mapping[str, Content], num_steps: int, replay: Replay | None = None, gap: str | None = None
    ) -> Path:
        """Write a checkpoint and return its folder; older ones are removed, with what belongs to them.

        Parameters
        ----------
        files : mapping
            What they hold, see `dump_checkpoint`, by name.
        num_steps : int
            Env steps so far.
        replay : Replay, optional
            The replay that belongs to it.
        gap : str, optional
            Why episodes in progress cannot be continued from it, if they cannot.
        """
        before, path = self.paths(), self.folder / self.next_name(num_steps)
        try:
            make_folder(path)
            seals = {name: write_file(path / name, content, syncs_folder=False) for name, content in files.items()}
            sync_folder(path)
            commit = Commit(num_steps=num_steps, written_at=time.time(), files=seals, replay=replay, gap=gap)
            write_file(path / COMMIT_FILE, commit.dump())
        except OSError as error:
            with suppress(OSError):
                remove_folder(path, first=COMMIT_FILE)
            last = f"the one before it, {before[-1].name}, stays" if before else "there is none before it"
            raise StorageError(f"no checkpoint could be made: {error}; {last}") from error
        self.prune(self.num_kept, self.oldest_s)
        return path

    def prune(self, num_kept: int, oldest_s: float | None = None) -> list[Path]:
        """Remove all but the newest checkpoints, and what none of those that stay needs; returns what was removed.

        Parameters
        ----------
        num_kept : int
            How many to keep at most; the newest one always stays.
        oldest_s : float, optional
            Remove those too that are older than so many seconds.
        """
        paths = self.paths()
        removed = paths[: -max(1, num_kept)]
        if oldest_s is not None:
            limit = time.time() - oldest_s
            removed = [path for path in paths[:-1] if path in removed or _written_at(path) < limit]
        kept = [path for path in paths if path not in removed]
        try:
            # What was begun before the newest one and never committed is of no use either.
            for path in [folder for folder in self._folders() if folder not in kept and folder < paths[-1]]:
                remove_folder(path, first=COMMIT_FILE)
            if self.replay_folder is not None:
                remove_snapshots(self.replay_folder, {name for path in kept if (name := _replay_of(path))})
        except OSError as error:
            warnings.warn(f"old checkpoints stay in {self.folder}: {error}", RecollectWarning, stacklevel=2)
        return removed

    def _folders(self) -> list[Path]:
        """Folders of checkpoints, committed or not, oldest first; links are none."""
        if self.folder.is_symlink() or not self.folder.is_dir():
            return []
        with os.scandir(self.folder) as entries:
            names = [each.name for each in entries if _NAME.fullmatch(each.name) and each.is_dir(follow_symlinks=False)]
        return [self.folder / name for name in sorted(names)]


def read_commit(path: Path) -> Commit:
    """Read the commit record of a checkpoint; what none of ours would say is refused."""
    content = read_record(path / COMMIT_FILE, _KIND, VERSION)
    try:
        found = content["replay"]
        return Commit(
            num_steps=as_whole(content["num_steps"], 0, _MOST),
            written_at=float(content["written_at"]),
            files=_load_seals(content["files"], _FILE),
            replay=None if found is None else _load_replay(found),
            gap=None if (gap := content.get("gap", _UNTOLD)) is None else str(gap),
        )
    except PARSE_ERRORS as error:
        raise StorageError(f"{path / COMMIT_FILE} is damaged: {error!r}") from error


class CapturedAgent(NamedTuple):
    """Weights of an actor and the state of its training at one moment, copied."""

    weights: dict[str, torch.Tensor]
    state: CapturedState

    @classmethod
    def of(cls, actor: Actor, state: Mapping[str, Any]) -> Self:
        """Copy both.

        Parameters
        ----------
        actor : Actor
            Whose weights to write; they must be finite.
        state : dict
            Tensors and plain values, nested; tensors must be finite, too.
        """
        weights = actor.state_dict()
        check_finite("actor", weights)
        check_finite("state", state)
        return cls(copy_tensors(weights), CapturedState.of(state))

    def dump(self) -> dict[str, bytes]:
        """The files of a checkpoint by name."""
        return {ACTOR_FILE: save(self.weights), **self.state.dump(_STATE)}


def dump_checkpoint(actor: Actor, state: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a checkpoint by name, see `CapturedAgent.of`."""
    return CapturedAgent.of(actor, state).dump()


def read_checkpoint(path: Path, actor: Actor) -> dict[str, Any]:
    """Load the weights of a checkpoint into `actor` and return the rest of its state."""
    state = read_state(path, _STATE)
    if not isinstance(state, dict):
        raise StorageError(f"{path} is damaged: its state is no mapping")
    actor.load(path / ACTOR_FILE)
    return state


def check_finite(owner: str, values: Mapping[str, Any]) -> None:
    """Refuse tensors that are NaN or infinite: no training could resume from them."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            check_finite(owner, value)
        elif isinstance(value, torch.Tensor) and value.is_floating_point() and not torch.isfinite(value).all():
            raise NotFiniteError(f"{name} of the {owner} is NaN or infinite, so no checkpoint was written")


def _load_seals(found: Mapping[str, Any], names: re.Pattern[str]) -> dict[str, Seal]:
    """Seals by names of the kind that is expected, so that none leads elsewhere."""
    for name in found:
        if not names.fullmatch(name):
            raise ValueError(f"{name!r} is no file of a checkpoint")
    return {name: Seal(as_whole(size, 0, _MOST), str(sha256)) for name, (size, sha256) in found.items()}


def _load_replay(found: Mapping[str, Any]) -> Replay:
    if not _REPLAY.fullmatch(found["name"]):
        raise ValueError(f"{found['name']!r} is no name of a replay")
    manifests = _load_seals(found["manifests"], _MANIFEST)
    return Replay(name=found["name"], num_stored=as_whole(found["num_stored"], 0, _MOST), manifests=manifests)


def _written_at(path: Path) -> float:
    """When a checkpoint was written; long ago if it does not say."""
    try:
        return read_commit(path).written_at
    except StorageError:
        return 0.0


def _replay_of(path: Path) -> str | None:
    """What the replay of a checkpoint is called; None without one, or if it does not say."""
    try:
        replay = read_commit(path).replay
    except StorageError:
        return None
    return None if replay is None else replay.name
