"""The files of a snapshot: arrays on disk, each with a checksum, and one move that makes them count."""

import contextlib
import hashlib
import io
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from recollect.disk import sync_folder, write_synced
from recollect.errors import StorageError

MANIFEST: Final = "manifest.json"
PARTIAL: Final = "manifest.json.partial"
_OWN_FILES: Final = re.compile(r"\d+-[a-z0-9-]+\.npy")


class SnapshotWriter:
    """Writes the files of one snapshot under names that no other snapshot here has."""

    def __init__(self, folder: Path, serial: int) -> None:
        self.serial = serial
        self.checksums: dict[str, str] = {}
        self._folder = folder
        self._written: list[Path] = []

    def save(self, name: str, array: np.ndarray) -> str:
        """Write an array and return the name of its file."""
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        file = f"{self.serial:06d}-{name}.npy"
        path = self._folder / file
        self._written.append(path)
        write_synced(path, buffer.getbuffer())
        self.checksums[file] = hashlib.sha256(buffer.getbuffer()).hexdigest()
        return file

    def replace_manifest(self, content: bytes) -> None:
        """Make the files written so far the snapshot."""
        partial = self._folder / PARTIAL
        self._written.append(partial)
        write_synced(partial, content)
        sync_folder(self._folder)
        os.replace(partial, self._folder / MANIFEST)
        self._written.clear()
        sync_folder(self._folder)

    def undo(self) -> None:
        """Remove what was written in vain."""
        for path in self._written:
            path.unlink(missing_ok=True)


def read_array(folder: Path, checksums: Mapping[str, str], file: str) -> np.ndarray:
    """Read a file of the snapshot in `folder` and check it."""
    path = folder / file
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StorageError(f"the snapshot in {folder} lacks {file}: {error}") from error
    if hashlib.sha256(content).hexdigest() != checksums[file]:
        raise StorageError(f"{path} is damaged: its checksum does not fit")
    array: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
    return array


def remove_unused(folder: Path, used: Iterable[str]) -> None:
    """Remove the files of earlier snapshots, and of those that were interrupted."""
    kept = set(used)
    for path in folder.iterdir():
        if _OWN_FILES.fullmatch(path.name) and path.name not in kept:
            # What cannot be removed now will be after the next snapshot.
            with contextlib.suppress(OSError):
                path.unlink()
