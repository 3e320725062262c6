"""Where episodes are: runs, snapshots of storages, Minari datasets, `.npz` files."""

from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import track

from recollect.agent.storages.base_buffer import BaseBuffer
from recollect.agent.storages.experience.persistence.manifest import FIRSTS, HEADS
from recollect.agent.storages.experience.persistence.snapshot import Snapshot
from recollect.agent.storages.off_policy.replay_buffer import ReplayBuffer
from recollect.agent.storages.snapshots import StorageSnapshot
from recollect.config import build
from recollect.data.episode import Episode, Spaces
from recollect.data.minari import MinariSource, write_minari
from recollect.data.npz import SUFFIX, NpzSource, write_npz
from recollect.data.storing import episodes_in, fill, spaces_of
from recollect.errors import ConfigError
from recollect.runs.checkpointing.saving import restore_training
from recollect.runs.directory import RunDirectory, load_config


class Source(Protocol):
    """Episodes that can be read again and again."""

    @property
    def spaces(self) -> Spaces:
        """Spaces of one environment."""

    @property
    def num_episodes(self) -> int:
        """How many episodes there are."""

    def __iter__(self) -> Iterator[Episode]: ...


class StorageSource:
    """Episodes of a storage."""

    def __init__(self, storage: BaseBuffer, spaces: Spaces | None = None) -> None:
        self._storage = storage
        self.spaces = spaces_of(storage) if spaces is None else spaces

    @property
    def num_episodes(self) -> int:
        """How many episodes there are, unfinished ones included."""
        return self._storage.num_episodes

    def __iter__(self) -> Iterator[Episode]:
        return episodes_in(self._storage)


def open_source(place: str | PathLike[str], *, trust: bool = False) -> Source:
    """Open what a path or name leads to: a run, a snapshot, an `.npz` file, or a Minari dataset.

    Parameters
    ----------
    place : path-like
        Where the data are.
    trust : bool
        Whether code that a run's files name may be imported.
    """
    path = Path(place)
    if path.suffix == SUFFIX:
        return NpzSource(path)
    if path.is_dir():
        run = RunDirectory(path)
        if run.exists:
            return StorageSource(*_of_run(run, trust=trust))
        if Snapshot(path).exists():
            return StorageSource(_of_snapshot(path))
    return MinariSource(fspath(place))


def write_episodes(
    place: str | PathLike[str], episodes: Iterable[Episode], spaces: Spaces, *, overwrite: bool = False
) -> Path:
    """Write episodes to an `.npz` file, or else as a Minari dataset of that name or path; returns where they are."""
    path = Path(place)
    if path.suffix == SUFFIX:
        return write_npz(path, episodes, spaces, overwrite=overwrite)
    return write_minari(fspath(place), episodes, spaces, overwrite=overwrite)


def load_into(
    storage: BaseBuffer, source: Source, *, part: str | None = None, shows_progress: bool | None = None
) -> int:
    """Stream the episodes of a source into a storage, or a part of it; returns how many steps they have."""
    console = Console(stderr=True)
    is_shown = console.is_terminal if shows_progress is None else shows_progress
    episodes = track(source, "loading", source.num_episodes, console=console, transient=True, disable=not is_shown)
    return fill(storage, episodes, part)


def load_minari(
    name_or_path: str | PathLike[str], into: BaseBuffer, *, part: str | None = None, progress: bool | None = None
) -> BaseBuffer:
    """Stream a Minari dataset into a storage, and return the storage.

    One episode at a time is in memory: a storage with `backing="file"` takes datasets larger than that. Actions are
    taken into the units of the storage's actor, if it has one. A full storage keeps the newest.

    Parameters
    ----------
    name_or_path : path-like
        Name among Minari's datasets, or the folder of one.
    into : storage
        What to fill.
    part : str, optional
        Which part of a `MixedBuffer`; by default the first that its `data_share` names.
    progress : bool, optional
        Show progress; by default on a terminal.
    """
    load_into(into, MinariSource(fspath(name_or_path)), part=part, shows_progress=progress)
    return into


def save_minari(
    data: BaseBuffer | str | PathLike[str],
    name: str | PathLike[str],
    *,
    env: str | None = None,
    data_format: str = "hdf5",
    overwrite: bool = False,
    trust: bool = False,
) -> Path:
    """Write what a storage or a run holds as a Minari dataset, and return its folder.

    Parameters
    ----------
    data : storage or path-like
        The storage, or the folder of a run.
    name : path-like
        Name among Minari's datasets, such as `pendulum/medium-v0`, or a path that begins with `.` or `/`.
    env : str, optional
        Id of the environment; that of a run is known.
    data_format : str
        Minari's: hdf5 or arrow.
    overwrite : bool
        Put it in the place of a dataset of that name.
    trust : bool
        Whether code that the run's files name may be imported.
    """
    if isinstance(data, BaseBuffer):
        spaces = spaces_of(data)
        source: Source = StorageSource(data, Spaces(spaces.observation, spaces.action, env))
    else:
        source = open_source(data, trust=trust)
    return write_minari(fspath(name), source, source.spaces, data_format=data_format, overwrite=overwrite)


def _of_run(run: RunDirectory, *, trust: bool) -> tuple[BaseBuffer, Spaces]:
    config = load_config(run, trust=trust)
    scheme = build(config)
    try:
        restore_training(run, scheme)
        storage = scheme.col_worker.storage
    finally:
        scheme.stop()
    if not isinstance(storage, BaseBuffer) or not len(storage):
        raise ConfigError(f"{run.path} has no replay; train it without --no-replay")
    found = spaces_of(storage)
    return storage, Spaces(found.observation, found.action, config.env)


def _of_snapshot(path: Path) -> BaseBuffer:
    """A storage that holds what any kind of storage wrote."""
    manifest = Snapshot(path).manifest()
    lengths = [head - first for head, first in zip(manifest.cursors[HEADS], manifest.cursors[FIRSTS], strict=True)]
    size = max(1, *lengths) * max(1, manifest.num_lanes // manifest.num_envs)
    sequence = manifest.sequence
    shape: dict[str, Any] = (
        {} if sequence is None else {"sequence_length": sequence.length, "sequence_overlap": sequence.overlap}
    )
    storage = ReplayBuffer.standalone(size, num_envs=manifest.num_envs, **shape)
    StorageSnapshot(path).load(storage)
    return storage
