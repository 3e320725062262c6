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
from pathlib import Path
from typing import Final

from recollect import keys
from recollect.agent.storages.experience.persistence.snapshot_files import remove_snapshots
from recollect.errors import RecollectWarning, StorageError
from recollect.files.disk import Content, make_folder, remove_folder, sync_folder, write_file
from recollect.runs.checkpointing.commit import COMMIT_FILE, Commit, Replay, read_commit, replay_of, written_at

_NAME: Final = re.compile(r"\d{6}-step-\d{1,18}")


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
            What they hold, see `CapturedAgent.dump`, by name.
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
            Also remove those that are older, in seconds.
        """
        paths = self.paths()
        removed = paths[: -max(1, num_kept)]
        if oldest_s is not None:
            limit = time.time() - oldest_s
            removed = [path for path in paths[:-1] if path in removed or written_at(path) < limit]
        kept = [path for path in paths if path not in removed]
        try:
            # What was begun before the newest one and never committed is of no use either.
            for path in [folder for folder in self._folders() if folder not in kept and folder < paths[-1]]:
                remove_folder(path, first=COMMIT_FILE)
            if self.replay_folder is not None:
                remove_snapshots(self.replay_folder, {name for path in kept if (name := replay_of(path))})
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
