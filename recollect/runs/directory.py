"""`RunDirectory`: everything that is kept of a run, in one folder."""

import json
import os
import platform
import warnings
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any, Final

from recollect import __version__
from recollect.config import RunConfig
from recollect.config.files import Document, dump_document, parse_value, read_document
from recollect.config.layers import replace_given
from recollect.config.parts import ACTOR, ALGO, ENV, SCHEME, STORAGE
from recollect.config.trust import lost_parts, references
from recollect.errors import ConfigError, RecollectWarning, StorageError
from recollect.files.disk import PARTIAL, make_folder, remove_file, write_file, write_new_file
from recollect.runs.checkpointing.checkpoints import Checkpoints

# Entries of a config that a run may be resumed with other values of.
CHANGEABLE: Final = ("steps", "threads")
_PACKAGES: Final = ("torch", "numpy", "numba", "gymnasium", "safetensors", "mujoco", "ale-py", "gymnasium-robotics")


class RunDirectory:
    """The folder of one run: config, command, versions, metrics, checkpoints, replay and plots.

    Use `create` for a new run and `open` for one that exists.

    Parameters
    ----------
    path : path-like
        The folder.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.yaml"
        self.command_file = self.path / "command.txt"
        self.versions_file = self.path / "versions.json"
        self.metrics_file = self.path / "metrics.csv"
        self.tensorboard_folder = self.path / "tensorboard"
        self.storage_folder = self.path / "storage"
        self.videos_folder = self.path / "videos"
        self.curve_file = self.path / "curve.png"
        self.batch_file = self.path / "not-finite-batch.safetensors"
        self.changes_file = self.path / "resumed.yaml"
        self.checkpoints = Checkpoints(self.path / "checkpoints", replay_folder=self.storage_folder)
        self.best = Checkpoints(self.path / "best", num_kept=1)

    @classmethod
    def create(
        cls, path: str | PathLike[str], config: Mapping[str, Any] | None = None, command: str | None = None
    ) -> "RunDirectory":
        """Make the folder of a new run and write its config, command line and versions.

        Parameters
        ----------
        path : path-like
            A folder that holds no run yet.
        config : mapping, optional
            The resolved config, plain values.
        command : str, optional
            The command line that started the run.
        """
        run = cls(path)
        document = dump_document(dict(config or {}))
        try:
            make_folder(run.path)
            # Of two processes that choose the same folder at the same time, one gets it.
            write_new_file(run.config_file, document.encode())
            write_file(run.versions_file, (json.dumps(versions_in_use(), indent=1) + "\n").encode(), syncs_folder=False)
            write_file(run.command_file, ((command or "") + "\n").encode())
        except FileExistsError:
            raise ConfigError(f"{run.path} holds a run already; resume it, or name another folder") from None
        except OSError as error:
            raise ConfigError(f"{run.path} cannot be made: {error.strerror}; name another folder") from error
        if lost := lost_parts(dict(config or {})):
            names = ", ".join(f"{keyword} ({name})" for keyword, name in lost.items())
            again = ", ".join(f"{keyword}=..." for keyword in lost)
            warnings.warn(
                f"{run.path} cannot be resumed from its files, which cannot say where to import {names} from: move it "
                f"to a module and import it, or give it again with Agent.load(folder, {again})",
                RecollectWarning,
                stacklevel=2,
            )
        return run

    @classmethod
    def open(cls, path: str | PathLike[str]) -> "RunDirectory":
        """Open the folder of an existing run."""
        run = cls(path)
        if not run.exists:
            raise ConfigError(f"{run.path} holds no run: it has no {run.config_file.name}")
        own = (run.config_file, run.changes_file, run.tensorboard_folder, run.checkpoints.folder, run.best.folder)
        # What is written below these goes into folders that may be there already: of workers, of other videos.
        deep = (run.storage_folder, run.videos_folder)
        inner = (path for folder in deep if folder.is_dir() and not folder.is_symlink() for path in folder.iterdir())
        for path in (*own, *deep, *inner):
            if path.is_symlink():
                raise ConfigError(f"{path} is a link; a run has all of its files in its own folder")
        return run

    @property
    def exists(self) -> bool:
        """Whether the folder holds a run."""
        return self.config_file.is_file()

    def checkpoint(self, *, best: bool = False, with_replay: bool = False) -> Path:
        """The newest whole checkpoint, or the agent with the best evaluation; the replay need not be whole."""
        if best and not self.best.paths():
            raise StorageError(f"{self.path} has no best agent: none was evaluated; train with test_every above 0")
        return (self.best if best else self.checkpoints).newest(with_replay=with_replay)

    @property
    def config(self) -> dict[str, Any]:
        """The resolved config that the run was started with, and what was changed when it was resumed."""
        document = read_document(self.config_file)
        if self.changes_file.exists():
            changes = read_document(self.changes_file)
            if not changes.keys() <= set(CHANGEABLE):
                raise ConfigError(f"{self.changes_file} can change {' and '.join(CHANGEABLE)}, got {list(changes)}")
            document |= changes
        return document

    def change(self, changes: Mapping[str, Any]) -> None:
        """Note what a resumed run does otherwise; the config that it was started with stays as it is."""
        known = self.config
        if all(known.get(entry) == value for entry, value in changes.items()):
            return
        try:
            write_file(self.changes_file, dump_document(dict(changes)).encode())
        except OSError as error:
            raise ConfigError(f"{self.changes_file} cannot be written: {error.strerror}; make room for it") from error

    def sweep(self) -> None:
        """Remove what a process was writing when it was killed."""
        for path in self.path.glob(f"*{PARTIAL}"):
            with suppress(OSError):  # it is of no use, and does no harm either
                remove_file(path)


def load_config(run: RunDirectory, *, trust: bool = False, **parts: object) -> RunConfig:
    """Config of a run for another process than its own: without its workers.

    Parameters
    ----------
    run : RunDirectory
        The run.
    trust : bool
        Whether code that its files name may be imported, see `RunConfig.from_document`.
    **parts
        Parts to take instead of those that the files name.
    """
    kept = {entry: value for entry, value in run.config.items() if entry != SCHEME}
    document = replace_given(kept, parts)
    given = references(document, parts)
    return RunConfig.from_document(document, trust=trust, given=given, source=str(run.config_file))


def folder_for(folder: Path, config: RunConfig) -> RunDirectory:
    """Find or make the folder of an agent's checkpoints: the named one, or the first that is free beside it."""
    for number in count(1):
        run = RunDirectory(folder if number == 1 else folder.with_name(f"{folder.name}-{number}"))
        if not run.exists or _holds(run, config):
            break
    if number > 1:
        warnings.warn(f"{folder} holds another agent; this one is saved in {run.path}", RecollectWarning, stacklevel=3)
    return run if run.exists else RunDirectory.create(run.path, config.to_document())


def _holds(run: RunDirectory, config: RunConfig) -> bool:
    """Whether a folder holds the agent of a config."""
    given = references(config.to_document())
    try:
        return _identity(RunConfig.from_document(run.config, given=given)) == _identity(config)
    except ConfigError:
        return False


def _identity(config: RunConfig) -> Document:
    """What tells agents apart, as a file would say it: all but how long and where one is trained."""
    document = parse_value(dump_document(config.with_defaults().to_document()))
    return {entry: document[entry] for entry in (ALGO, ENV, ACTOR, STORAGE, "wrappers", "seed", "num_envs")}


def versions_in_use() -> dict[str, Any]:
    """Versions of what results depend on."""
    found: dict[str, Any] = {"recollect": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found | {"platform": platform.platform(), "processors": os.cpu_count()}
