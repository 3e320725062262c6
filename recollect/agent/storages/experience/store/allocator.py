"""The memory of a store: RAM, shared memory or a memory-mapped file."""

import logging
import mmap
import os
import re
import warnings
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir, mkdtemp
from typing import Final, Literal, NamedTuple, get_args
from weakref import finalize

import numpy as np
import psutil

from recollect.errors import ConfigError, InUseError, RecollectWarning, StorageError
from recollect.files.lock import FolderLock
from recollect.units import human_bytes

Backing = Literal["ram", "shared", "file"]

_OWN_FILES: Final = re.compile(r"\d+-[a-z]+\d*\.bytes")
_SHARE_TAKEN: Final = 0.9
_log = logging.getLogger(__name__)
_MAP_NORESERVE: Final = getattr(mmap, "MAP_NORESERVE", 0x4000)
_MADV_HUGEPAGE: Final[int | None] = getattr(mmap, "MADV_HUGEPAGE", None)


def machine_memory() -> int:
    """Bytes of RAM that this process may use: the machine's, or its container's if that is less."""
    total = int(psutil.virtual_memory().total)
    for limit_file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limit = Path(limit_file).read_text().strip()
        except OSError:
            continue
        if limit.isdigit():
            total = min(total, int(limit))
    return total


def anonymous(num_bytes: int, *, shared: bool = False, huge_pages: bool = False) -> np.ndarray:
    """Return a zeroed, page-aligned uint8 array of at least `num_bytes` that no file backs."""
    flags = (mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE) | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    try:
        memory = mmap.mmap(-1, max(num_bytes, mmap.PAGESIZE), flags=flags)
    except OSError as error:
        raise StorageError(f"cannot map {human_bytes(num_bytes)}: {error.strerror}") from error
    if huge_pages and _MADV_HUGEPAGE is not None:
        # Advice only: a kernel without huge pages refuses it.
        with suppress(OSError):
            memory.madvise(_MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


class Need(NamedTuple):
    """What a store needs.

    Attributes
    ----------
    num_bytes : int
        Bytes of its steps when it is full, side tables apart.
    num_bytes_an_end : int
        Bytes in the side tables for each end of an episode, or break of a stream.
    num_beside : int
        Bytes in RAM that its owner keeps beside its steps.
    num_held : int
        Bytes of the steps that move to it from a store of another size.
    num_envs : int
        Environments that share it.
    """

    num_bytes: int
    num_bytes_an_end: int = 0
    num_beside: int = 0
    num_held: int = 0
    num_envs: int = 1

    def fitting(self, num_steps: float) -> str:
        """Say that `num_steps`, rounded down to two digits, would fit; of several envs, also how many of each."""
        each = _round_down(num_steps / self.num_envs)
        if self.num_envs == 1:
            return f"about {each:,} steps would fit"
        return f"about {each * self.num_envs:,} steps would fit, {each:,} for each of {self.num_envs} envs"


class NoRoomError(StorageError):
    """Neither memory nor disk can hold a store of this size.

    Attributes
    ----------
    num_fitting : int
        Steps that do fit, with some room to spare.
    """

    def __init__(self, message: str, num_fitting: int) -> None:
        super().__init__(message)
        self.num_fitting = num_fitting


class Allocator:
    """Hands out zeroed byte arrays of one backing; pages are committed when they are first touched.

    Parameters
    ----------
    backing : {"ram", "shared", "file"}
        "ram" is private to this process, "shared" is seen by processes forked from it, "file" maps
        files in the folder `path`, for stores larger than RAM.
    path : path-like, optional
        Folder for "file"; made if absent, and refused if it holds a store that is in use.
    may_overflow : bool
        Whether a store that is larger than RAM goes to a temporary folder, with a warning, instead of being refused;
        where that is too small as well, a `NoRoomError` says how many steps fit.
    """

    def __init__(
        self, backing: Backing = "ram", path: str | os.PathLike[str] | None = None, *, may_overflow: bool = False
    ) -> None:
        if backing not in get_args(Backing):
            raise ConfigError(f"backing must be one of {', '.join(get_args(Backing))}, got {backing!r}")
        if (backing == "file") != (path is not None):
            raise ConfigError(
                "backing='file' needs path=, a folder for the store's files; no other backing takes a path"
            )
        self.backing: Backing = backing
        self._folder = Path(path) if path is not None else None
        self._may_overflow = may_overflow
        self._generation = 0
        self._need = Need(0)
        self._num_steps = 0

    def check(self, num_steps: int, need: "Need") -> None:
        """Log how large a store will be; refuse one that this machine or its disk cannot hold."""
        total = need.num_bytes + need.num_beside
        if self._may_overflow and self._folder is None and total > machine_memory():
            self._overflow(num_steps, total)
        _log.info(
            "store of %s steps: %s when full, %.0f bytes a step and %d more where an episode ends (%s)",
            f"{num_steps:,}",
            human_bytes(total),
            total / num_steps,
            need.num_bytes_an_end,
            self.backing,
        )
        self._need, self._num_steps = need, num_steps
        in_ram, limit = total, machine_memory()
        if self._folder is not None:
            in_ram, free = need.num_beside, _free_bytes(self._folder)
            if need.num_bytes > free:
                raise StorageError(
                    f"a store of {num_steps:,} steps takes {human_bytes(need.num_bytes)} when full, and "
                    f"{human_bytes(free)} are free at {self._folder}: {self._fitting_on_disk(free)}; use a smaller "
                    "size or another path"
                )
        if in_ram > limit:
            raise ConfigError(
                f"a store of {num_steps:,} steps takes {human_bytes(in_ram)} when full, and this machine has "
                f"{human_bytes(limit)}: {need.fitting(num_steps * limit / in_ram)}; use a smaller size"
                + (", or backing='file'" if self._folder is None else "")
            )
        while_moved = need.num_held + min(need.num_held, total)
        if self._folder is None and while_moved > limit:
            raise ConfigError(
                f"steps that move to a store of another size are held twice, which takes {human_bytes(while_moved)}, "
                f"and this machine has {human_bytes(limit)}; make the storage with this size, or use backing='file'"
            )

    def begin(self) -> int:
        """Start a new set of arrays; returns the number that tells its files from earlier ones."""
        if self._folder is not None and self._generation == 0:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(f"path={str(self._folder)!r} cannot be made a folder: {error.strerror}") from error
            self._claim(self._folder)
        self._generation += 1
        return self._generation

    def _claim(self, folder: Path) -> None:
        """Take a folder for this store; files that a process left there when it ended are of no use to anyone."""
        try:
            if FolderLock.is_held(folder):
                raise InUseError("this process has it")
            lock = FolderLock(folder)
        except InUseError as error:
            raise ConfigError(f"the folder {folder} holds a store already, {error}; name another") from error
        finalize(self, lock.release)
        for path in folder.iterdir():
            if _OWN_FILES.fullmatch(path.name):
                path.unlink()

    def allocate(self, name: str, num_bytes: int, *, reserve: bool = True, huge_pages: bool = False) -> np.ndarray:
        """Return a zeroed uint8 array [num_bytes].

        With `reserve`, a file's disk space is taken now, so that a full disk is an error here and
        not a crash later; without it, `reserve_until` takes it bit by bit. With `huge_pages`, RAM is
        committed 2 MB at a time: fewer page table walks where whole pages are read at random.
        """
        num_bytes = max(num_bytes, mmap.PAGESIZE)
        if self._folder is None:
            return anonymous(num_bytes, shared=self.backing == "shared", huge_pages=huge_pages)
        path = self._file(name)
        with open(path, "xb+") as file:
            try:
                if reserve:
                    os.posix_fallocate(file.fileno(), 0, num_bytes)
                else:
                    file.truncate(num_bytes)
                return np.frombuffer(mmap.mmap(file.fileno(), num_bytes), np.uint8)
            except (OSError, OverflowError) as error:
                # What was taken before it was too little is free again.
                file.truncate(0)
                fits = self._fitting_on_disk(_free_bytes(path.parent) + self._num_taken())
                raise _no_room(path, num_bytes, error, f", {fits}") from error

    def reserve_until(self, name: str, num_bytes: int) -> None:
        """Take the disk space of the first `num_bytes` of an array that was allocated without."""
        if self._folder is not None:
            path = self._file(name)
            with open(path, "rb+") as file:
                try:
                    os.posix_fallocate(file.fileno(), 0, num_bytes)
                except OSError as error:
                    raise _no_room(path, num_bytes, error) from error

    def forget(self, generation: int) -> None:
        """Remove the files of an earlier set of arrays."""
        if self._folder is not None:
            for path in self._folder.glob(f"{generation}-*.bytes"):
                path.unlink()

    def _overflow(self, num_steps: int, num_bytes: int) -> None:
        """Let the store live in files of a folder that is removed with it."""
        free = _free_bytes(Path(gettempdir()))
        if num_bytes > free:
            room = _SHARE_TAKEN * max(free, machine_memory() / 2)
            raise NoRoomError(
                f"a store of {num_steps:,} steps takes {human_bytes(num_bytes)} when full, and this machine has "
                f"{human_bytes(machine_memory())}, and {human_bytes(free)} free at {gettempdir()}",
                _round_down(num_steps * room / num_bytes),
            )
        self.backing, self._folder = "file", Path(mkdtemp(prefix="recollect-store-"))
        finalize(self, rmtree, self._folder, ignore_errors=True)
        warnings.warn(
            f"a store of {num_steps:,} steps takes {human_bytes(num_bytes)} when full, and this machine has "
            f"{human_bytes(machine_memory())}: it lives in files at {self._folder}, which is slower; use a smaller "
            "size, or name a folder on a fast disk with backing='file' and path=",
            RecollectWarning,
            stacklevel=2,
        )

    def _fitting_on_disk(self, num_bytes: int) -> str:
        """Say how many steps of the store that was last checked fit into `num_bytes`."""
        return self._need.fitting(self._num_steps * num_bytes / max(1, self._need.num_bytes))

    def _num_taken(self) -> int:
        """Bytes on the disk that the newest set of arrays takes."""
        assert self._folder is not None
        return sum(path.stat().st_blocks * 512 for path in self._folder.glob(f"{self._generation}-*.bytes"))

    def _file(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{name}.bytes"


def _round_down(number: float) -> int:
    """The whole number of two digits and zeros that is not above `number`."""
    whole = int(number)
    unit: int = 10 ** max(0, len(str(whole)) - 2)
    return whole // unit * unit


def _free_bytes(folder: Path) -> int:
    """Bytes that are free on the disk of a folder, which need not be there yet."""
    while not folder.exists():
        folder = folder.parent
    return int(psutil.disk_usage(str(folder)).free)


def _no_room(path: Path, num_bytes: int, error: Exception, fits: str = "") -> StorageError:
    return StorageError(
        f"no room for {human_bytes(num_bytes)} at {path} ({getattr(error, 'strerror', error)}): "
        f"{human_bytes(_free_bytes(path.parent))} are free on that disk{fits}; use a smaller size or another path"
    )
