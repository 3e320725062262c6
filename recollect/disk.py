"""Durable writes: files and folders that are on disk, not only in the cache, before anything relies on them."""

import os
from pathlib import Path


def write_synced(path: Path, content: bytes | memoryview) -> None:
    """Write a file; once this returns, it survives a power failure."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Flush a file that others wrote to disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk: the names of its files, and renames."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
