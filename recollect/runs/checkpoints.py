"""`Checkpoints`: saved states of a run, each of them complete or absent."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch

from recollect.disk import sync_folder
from recollect.errors import NotFiniteError, StorageError
from recollect.roles import Actor
from recollect.runs.state_files import read_state, write_state

ACTOR_FILE: Final = "actor.safetensors"
_STATE: Final = "state"
_PARTIAL: Final = ".partial-"
_NAME: Final = re.compile(r"\d{6}-step-\d+")
_FORMAT: Final = {"format": "recollect checkpoint", "version": 1}


class Checkpoints:
    """Checkpoints of one run, the newest few kept.

    A checkpoint is a folder with the actor's weights and the rest of the training's state. It is written under
    a temporary name and renamed once it is complete.

    Parameters
    ----------
    folder : Path
        Where they are; created with the first checkpoint.
    num_kept : int
        How many to keep; older ones are removed.
    """

    def __init__(self, folder: Path, num_kept: int = 2) -> None:
        self.folder = folder
        self.num_kept = num_kept

    def paths(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))

    def newest(self) -> Path:
        """The checkpoint to resume from."""
        paths = self.paths()
        if not paths:
            raise StorageError(f"there is no checkpoint in {self.folder}; train first, or name another run")
        return paths[-1]

    def num_steps(self) -> int:
        """Env steps at the checkpoint to resume from."""
        return int(self.newest().name.rpartition("-")[2])

    def write(self, actor: Actor, state: Mapping[str, Any], num_steps: int) -> Path:
        """Write a checkpoint and return its folder.

        Parameters
        ----------
        actor : Actor
            Whose weights to write; they must be finite.
        state : dict
            Tensors and plain values, nested; tensors must be finite, too.
        num_steps : int
            Env steps so far, for the name.
        """
        check_finite("actor", actor.state_dict())
        check_finite("state", state)
        paths = self.paths()
        serial = int(paths[-1].name[:6]) + 1 if paths else 0
        path = self.folder / f"{serial:06d}-step-{num_steps}"
        partial = self.folder / f"{_PARTIAL}{path.name}"
        self._remove_partials()
        try:
            partial.mkdir(parents=True)
            actor.save(partial / ACTOR_FILE)
            write_state(partial, _STATE, {**_FORMAT, "content": state})
            sync_folder(partial)
            partial.rename(path)
            sync_folder(self.folder)
        except (OSError, StorageError) as error:
            self._remove_partials()
            last = f"the one before it, {paths[-1].name}, stays" if paths else "there is none before it"
            raise StorageError(f"no checkpoint could be made: {error}; {last}") from error
        for old in self.paths()[: -self.num_kept]:
            shutil.rmtree(old, ignore_errors=True)
        return path

    def _remove_partials(self) -> None:
        """Remove checkpoints that an earlier process did not complete."""
        for path in self.folder.glob(f"{_PARTIAL}*"):
            shutil.rmtree(path, ignore_errors=True)


def read_checkpoint(path: Path, actor: Actor) -> dict[str, Any]:
    """Load the weights of a checkpoint into `actor` and return the rest of its state."""
    try:
        found = read_state(path, _STATE)
    except StorageError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(found, dict) or {name: found.get(name) for name in _FORMAT} != _FORMAT:
        raise StorageError(f"{path} is not a checkpoint that this release reads")
    if not (path / ACTOR_FILE).is_file():
        raise _damaged(path, f"it has no {ACTOR_FILE}")
    actor.load(path / ACTOR_FILE)
    content: dict[str, Any] = found["content"]
    return content


def _damaged(path: Path, reason: str) -> StorageError:
    return StorageError(f"{path} is damaged: {reason}; remove that folder to resume from the checkpoint before it")


def check_finite(owner: str, values: Mapping[str, Any]) -> None:
    """Refuse tensors that are NaN or infinite: no training could resume from them."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            check_finite(owner, value)
        elif isinstance(value, torch.Tensor) and value.is_floating_point() and not torch.isfinite(value).all():
            raise NotFiniteError(f"{name} of the {owner} is NaN or infinite, so no checkpoint was written")
