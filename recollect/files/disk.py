"""The file layer: what is written is whole and survives a power cut; what is read is a regular file of a known size.

Everything that a run or a storage keeps is written and removed here. A file gets its content under another name, is
synced, and is renamed; a name lasts once its folder is synced too. Nothing follows a link, and nothing but a regular
file is opened, because a folder may come from a stranger.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from recollect.errors import StorageError

Content = bytes | memoryview

# Ends the name of a file that is being written; one that a killed process left is of no use.
PARTIAL: Final = ".partial"
_MODE: Final = 0o644
# A FIFO without a writer would block the process that opens it.
_READING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITING: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
_BLOCK_BYTES: Final = 1 << 20
# A file that memory cannot hold is none of ours, whatever it says.
MAX_BYTES: Final = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
# How file systems without hard links, and those of containers, refuse them.
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


class Seal(NamedTuple):
    """Size and SHA-256 of a file, by which it is known again."""

    num_bytes: int
    sha256: str


def seal(content: Content) -> Seal:
    """The seal of what a file holds."""
    return Seal(len(content), hashlib.sha256(content).hexdigest())


def write_file(path: Path, content: Content, *, syncs_folder: bool = True) -> Seal:
    """Write a file whole or not at all, in place of one that is there; returns its seal.

    Parameters
    ----------
    path : Path
        Where; a link there is replaced, not followed.
    content : bytes
        What to write.
    syncs_folder : bool
        Whether its name must last too. With several files, one `sync_folder` behind the last is enough.
    """
    with _written(path, content) as partial:
        os.replace(partial, path)
    if syncs_folder:
        sync_folder(path.parent)
    return seal(content)


def write_new_file(path: Path, content: Content) -> None:
    """Write a file that must not be there yet: of two processes that try, one gets `FileExistsError`."""
    with _written(path, content) as partial:
        try:
            os.link(partial, path, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.close(os.open(path, _WRITING | os.O_EXCL, _MODE))
            os.replace(partial, path)
        else:
            os.unlink(partial)
    sync_folder(path.parent)


def append_file(path: Path, content: Content) -> None:
    """Append to a file, which is made if it is not there; nothing waits for the disk."""
    descriptor = os.open(path, _WRITING | os.O_APPEND, _MODE)
    try:
        _check_regular(path, descriptor)
        _write_all(descriptor, content)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Have a file that was appended to survive a power cut."""
    with open_file(path) as descriptor:
        os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Have a folder's entries survive a power cut: the names of its files, and renames."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, that survive a power cut; one that is there stays."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    with suppress(FileExistsError):
        os.mkdir(folder)
    sync_folder(folder.parent)


def remove_file(path: Path) -> None:
    """Remove a file or a link, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def remove_folder(folder: Path, first: str = "") -> None:
    """Remove a folder of files; `first` names one that must be gone, for good, before any other.

    A folder that others have put folders into stays, with those.
    """
    if first and (folder / first).exists():
        os.unlink(folder / first)
        sync_folder(folder)
    for path in folder.iterdir():
        if not path.is_dir() or path.is_symlink():
            os.unlink(path)
    with suppress(OSError):
        os.rmdir(folder)


@contextmanager
def open_file(path: Path) -> Iterator[int]:
    """Open a regular file for reading, and give its descriptor; links, FIFOs and devices are refused."""
    try:
        descriptor = os.open(path, _READING)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_regular(path) from None
        raise
    try:
        _check_regular(path, descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def read_file(path: Path, max_bytes: int | None = None) -> bytes:
    """Read a file of at most `max_bytes`, by default as much as memory holds; its size is checked first."""
    with open_file(path) as descriptor:
        num_bytes, max_bytes = os.fstat(descriptor).st_size, min(max_bytes or MAX_BYTES, MAX_BYTES)
        if num_bytes > max_bytes:
            raise StorageError(f"{path} has {num_bytes:,} bytes, and at most {max_bytes:,} are read")
        return b"".join(_blocks(descriptor))


def read_sealed(path: Path, expected: Seal) -> bytes:
    """Read a file and check it against its seal."""
    _check_size(path, expected)
    content = read_file(path)
    if seal(content) != expected:
        raise StorageError(f"{path} is damaged: its checksum does not fit")
    return content


def check_sealed(path: Path, expected: Seal) -> None:
    """Check a file against its seal without holding it in memory."""
    _check_size(path, expected)
    digest = hashlib.sha256()
    with open_file(path) as descriptor:
        for block in _blocks(descriptor):
            digest.update(block)
    if digest.hexdigest() != expected.sha256:
        raise StorageError(f"{path} is damaged: its checksum does not fit")


def has_seal(path: Path, expected: Seal) -> bool:
    """Whether a file is there and as large as it should be; its content is not read."""
    try:
        _check_size(path, expected)
    except StorageError:
        return False
    return True


def _check_size(path: Path, expected: Seal) -> None:
    try:
        with open_file(path) as descriptor:
            num_bytes = os.fstat(descriptor).st_size
    except FileNotFoundError:
        raise StorageError(f"{path} is missing") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    if num_bytes != expected.num_bytes:
        raise StorageError(f"{path} is damaged: it has {num_bytes:,} bytes, expected {expected.num_bytes:,}")


@contextmanager
def _written(path: Path, content: Content) -> Iterator[Path]:
    """Write a file under another name and sync it; if anything fails, that one is removed again."""
    partial = path.with_name(path.name + PARTIAL)
    try:
        remove_file(partial)  # of a process that was killed; or a link
        descriptor = os.open(partial, _WRITING | os.O_EXCL, _MODE)
        try:
            _write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        yield partial
    except OSError:
        with suppress(OSError):
            os.unlink(partial)
        raise


def _write_all(descriptor: int, content: Content) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _blocks(descriptor: int) -> Iterator[bytes]:
    while block := os.read(descriptor, _BLOCK_BYTES):
        yield block


def _check_regular(path: Path, descriptor: int) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise _not_regular(path)


def _not_regular(path: Path) -> StorageError:
    return StorageError(f"{path} is no regular file; links, pipes and devices are not opened")
