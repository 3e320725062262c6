"""`RunDirectory`: everything that is kept of a run, in one folder."""

import json
import os
import platform
import warnings
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any, Final

from recollect import __version__
from recollect.config import RunConfig
from recollect.config.files import dump_document, read_document
from recollect.config.layers import give_again
from recollect.config.parts import SCHEME
from recollect.config.trust import lost_parts
from recollect.errors import ConfigError, RecollectWarning, StorageError
from recollect.runs.checkpoints import Checkpoints

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
        self.curve_file = self.path / "curve.png"
        self.batch_file = self.path / "not-finite-batch.safetensors"
        self.checkpoints = Checkpoints(self.path / "checkpoints")
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
        if run.exists:
            raise _holds_a_run(run.path)
        document = dump_document(dict(config or {}))
        if lost := lost_parts(dict(config or {})):
            names = ", ".join(f"{keyword} ({name})" for keyword, name in lost.items())
            again = ", ".join(f"{keyword}=..." for keyword in lost)
            warnings.warn(
                f"{run.path} cannot be resumed from its files, which cannot say where to import {names} from: move it "
                f"to a module and import it, or give it again with Agent.load(folder, {again})",
                RecollectWarning,
                stacklevel=2,
            )
        try:
            run.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{run.path} cannot be made: {error.strerror}; name another folder") from error
        try:
            # Of two processes that choose the same folder at the same time, one gets it.
            with open(run.config_file, "x", encoding="utf-8") as file:
                file.write(document)
        except FileExistsError:
            raise _holds_a_run(run.path) from None
        run.versions_file.write_text(json.dumps(_versions(), indent=1) + "\n")
        run.command_file.write_text((command or "") + "\n")
        return run

    @classmethod
    def open(cls, path: str | PathLike[str]) -> "RunDirectory":
        """Open the folder of an existing run."""
        run = cls(path)
        if not run.exists:
            raise ConfigError(f"{run.path} holds no run: it has no {run.config_file.name}")
        return run

    @property
    def exists(self) -> bool:
        """Whether the folder holds a run."""
        return self.config_file.is_file()

    def checkpoint(self, *, best: bool = False) -> Path:
        """The newest checkpoint, or the agent with the best evaluation."""
        if best and not self.best.paths():
            raise StorageError(f"{self.path} has no best agent: none was evaluated; train with test_every above 0")
        return (self.best if best else self.checkpoints).newest()

    @property
    def config(self) -> dict[str, Any]:
        """The resolved config that the run was started with."""
        return read_document(self.config_file)


def load_config(run: RunDirectory, *, trust: bool = False, **parts: object) -> RunConfig:
    """Config of a run for another process than its own: without its workers and threads.

    Parameters
    ----------
    run : RunDirectory
        The run.
    trust : bool
        Whether code that its files name may be imported, see `RunConfig.from_document`.
    **parts
        Parts to take instead of those that the files name.
    """
    kept = {entry: value for entry, value in run.config.items() if entry not in (SCHEME, "threads")}
    return RunConfig.from_document(give_again(kept, parts), trust=trust, source=str(run.config_file))


def _holds_a_run(path: Path) -> ConfigError:
    return ConfigError(f"{path} holds a run already; resume it, or name another folder")


def _versions() -> dict[str, Any]:
    """Versions of what results depend on."""
    found: dict[str, Any] = {"recollect": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found | {"platform": platform.platform(), "processors": os.cpu_count()}
