"""Files and folders that are on disk, not only in the cache, before anything relies on them."""

import os
from pathlib import Path


def write_synced(path: Path, content: bytes | memoryview) -> None:
    """Write a file; once this returns, it outlives a machine that is switched off."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Have a file that was written by others on disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Have a folder's entries on disk: the names of its files, and which of them were moved."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
