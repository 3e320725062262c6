"""`FolderLock`: one process at a time writes into the folder of a run, of a store's files or of journals."""

import fcntl
import os
import stat
import warnings
from collections import Counter
from pathlib import Path
from typing import ClassVar, Final, Self

from recollect.errors import ConfigError, InUseError, RecollectWarning

_FILE: Final = ".lock"


class FolderLock:
    """Keeps other processes from writing into a folder until it is released or this process ends.

    The lock is the operating system's, so a process that was killed does not hold it. It belongs to the process:
    learners of one process share it, and processes forked from it do not inherit it.

    Parameters
    ----------
    folder : Path
        An existing folder.
    """

    _descriptors: ClassVar[dict[Path, int]] = {}
    _num_holders: ClassVar[Counter[Path]] = Counter()

    def __init__(self, folder: Path) -> None:
        self._path = folder.resolve() / _FILE
        if not self._num_holders[self._path]:
            self._descriptors[self._path] = _locked(self._path, folder)
        self._num_holders[self._path] += 1
        self._is_held = True

    @classmethod
    def is_held(cls, folder: Path) -> bool:
        """Whether this process has the folder."""
        return cls._num_holders[folder.resolve() / _FILE] > 0

    @classmethod
    def is_left(cls, folder: Path) -> bool:
        """Whether the folder was locked by a process that has ended, and by no other since."""
        if cls.is_held(folder):
            return False
        try:
            descriptor = os.open(folder / _FILE, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Let other processes have the folder, unless another learner of this process still writes there."""
        if not self._is_held:
            return
        self._is_held = False
        self._num_holders[self._path] -= 1
        if not self._num_holders[self._path]:
            os.close(self._descriptors.pop(self._path))


def _locked(path: Path, folder: Path) -> int:
    """Lock a file and return its descriptor; closing that, or any other one of the file, releases it."""
    descriptor = _opened(path, folder)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        owner = os.read(descriptor, 32).decode(errors="replace")
        os.close(descriptor)
        raise InUseError(
            f"{folder} is in use by process {owner or 'unknown'}; wait until it ends, or name another folder"
        ) from None
    except OSError as error:
        warnings.warn(
            f"{folder} cannot be locked: {error.strerror}; make sure that no other process trains there",
            RecollectWarning,
            stacklevel=4,
        )
        return descriptor
    # A file that goes by another name too may be anything, and stays as it is.
    if os.fstat(descriptor).st_nlink == 1:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
    return descriptor


def _opened(path: Path, folder: Path) -> int:
    """Open a file to lock, which may be a stranger's; links, pipes and devices are refused."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be locked: {path} cannot be opened ({error.strerror}); remove it, or name a folder that "
            "you may write to"
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigError(f"{folder} cannot be locked: {path} is no regular file; remove it")
    return descriptor
