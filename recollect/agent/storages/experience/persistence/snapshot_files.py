"""The files of a folder of snapshots: pieces and arrays with seals, and manifests that make them count."""

import contextlib
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from recollect.agent.storages.experience.persistence.manifest import OWN_FILES, Manifest, read_manifest
from recollect.errors import StorageError
from recollect.files.disk import PARTIAL, Content, Seal, check_sealed, remove_file, sync_folder, write_file

_MANIFESTS: Final = re.compile(r"manifest(-[A-Za-z0-9-]+)?\.json")


class SnapshotWriter:
    """Writes the files of one snapshot under names that no other snapshot has."""

    def __init__(self, folder: Path, token: str) -> None:
        self.token = token
        self.seals: dict[str, Seal] = {}
        self._folder = folder
        self._written: list[Path] = []

    def save(self, name: str, content: Content) -> str:
        """Write a file and return its name."""
        file = f"{self.token}-{name}"
        self._written.append(self._folder / file)
        self.seals[file] = write_file(self._folder / file, content, syncs_folder=False)
        return file

    def commit(self, name: str, content: bytes) -> None:
        """Make the files written so far the snapshot of a name."""
        sync_folder(self._folder)
        # Even if the last step of what follows fails, the manifest may be there, and needs its files.
        self._written.clear()
        write_file(manifest_file(self._folder, name), content)

    def undo(self) -> None:
        """Remove what was written in vain."""
        for path in self._written:
            with contextlib.suppress(OSError):
                remove_file(path)


def manifest_file(folder: Path, name: str) -> Path:
    """Where the manifest of a snapshot lies; the one without a name is alone in its folder."""
    return folder / (f"manifest-{name}.json" if name else "manifest.json")


def find_manifests(folder: Path, name: str) -> list[Path]:
    """Manifests of a name in a folder and in those of workers below it, whole or not."""
    file = manifest_file(folder, name).name
    return sorted(path for path in (folder / file, *folder.glob(f"*/{file}")) if path.is_file())


def check_snapshot(path: Path) -> Manifest:
    """Read a manifest, and check every file that it names."""
    manifest = read_manifest(path)
    for file, seal in manifest.seals.items():
        check_sealed(path.parent / file, seal)
    return manifest


def remove_snapshots(folder: Path, kept: Collection[str]) -> None:
    """Remove all named snapshots from a folder, and from those of workers below it, apart from those to be kept."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for place in (folder, *(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())):
        files = {manifest_file(place, name).name for name in kept}
        for path in list(place.iterdir()):
            if _MANIFESTS.fullmatch(path.name.removesuffix(PARTIAL)) and path.name not in files:
                remove_file(path)
        remove_unused(place)


def remove_unused(folder: Path) -> None:
    """Remove the files that no manifest of a folder names: of snapshots that are gone, or were interrupted."""
    try:
        manifests = [path for path in folder.iterdir() if _MANIFESTS.fullmatch(path.name)]
        used = {file for path in manifests for file in read_manifest(path).seals}
    except StorageError:
        # What a damaged manifest names is not known, so that nothing is removed.
        return
    for name in os.listdir(folder):
        if OWN_FILES.fullmatch(name.removesuffix(PARTIAL)) and name not in used:
            # What cannot be removed now will be after the next snapshot.
            with contextlib.suppress(OSError):
                remove_file(folder / name)
