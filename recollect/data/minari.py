"""Minari datasets: read episode by episode, and written without loss."""

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
import numpy as np

from recollect.agent.storages.experience.sampling.outputs import map_arrays
from recollect.data.episode import Episode, Spaces, check_is_new
from recollect.errors import ConfigError, SchemaError, StorageError
from recollect.extras import import_extra
from recollect.files.disk import open_file, read_file
from recollect.files.records import PARSE_ERRORS

_EXTRA: Final = "minari"
_ARROW: Final = "arrow"
_FORMATS: Final = ("hdf5", _ARROW)
_METADATA: Final = "metadata.json"
_DATA: Final = "data"
_HDF5: Final = ".hdf5"
_MAX_BYTES: Final = 1 << 24
# What a storage keeps beside observations, actions and rewards lies in the infos under names that begin so. They are
# not nested, because Minari's Arrow files do not give nested infos back.
_EXTRAS: Final = "recollect:"
_NO_SPACES: Final = (
    "does not name the spaces of its observations and actions; Minari would make the environment that it names, and "
    "nothing is imported because a file says so"
)


class MinariSource:
    """Episodes of a Minari dataset, one in memory at a time.

    Attributes
    ----------
    spaces : Spaces
    num_episodes : int
    """

    def __init__(self, name: str) -> None:
        minari_storage = _import("minari.dataset.minari_storage").MinariStorage
        folder = find_folder(name)
        if folder is None:
            raise ConfigError(f"there is no dataset {name!r} here; download it with `minari download {name}`")
        _check_files(folder)
        metadata = _read_metadata(folder)
        if not all(isinstance(metadata.get(f"{kind}_space"), str) for kind in ("observation", "action")):
            raise SchemaError(f"{folder} {_NO_SPACES}")
        _check_format(metadata.get("data_format"))
        try:
            self._storage = minari_storage.read(folder)
            self.spaces = Spaces(self._storage.observation_space, self._storage.action_space, _env_in(metadata))
            self.num_episodes = int(self._storage.total_episodes)
        except (*PARSE_ERRORS, OSError, AssertionError) as error:
            raise StorageError(f"the dataset in {folder} cannot be read: {error}") from error

    def __iter__(self) -> Iterator[Episode]:
        for index in range(self.num_episodes):
            try:
                (found,) = self._storage.get_episodes([index])
                yield _read(found)
            except (*PARSE_ERRORS, OSError, AssertionError) as error:
                raise StorageError(f"episode {index} of the dataset cannot be read: {error}") from error


def find_folder(name: str) -> Path | None:
    """Folder of a dataset, from its path or from its name among Minari's; None if there is none."""
    places = [Path(name), Path(name) / _DATA]
    if not name.startswith((".", "/", "~")):
        root = _import("minari.storage.datasets_root_dir").get_dataset_path("")
        places.append(Path(root) / name / _DATA)
    return next((place for place in places if (place / _METADATA).is_file()), None)


def write_minari(
    name: str, episodes: Iterable[Episode], spaces: Spaces, *, data_format: str = "hdf5", overwrite: bool = False
) -> Path:
    """Write episodes as a Minari dataset, whole or not at all, one in memory at a time; returns its folder.

    Parameters
    ----------
    name : str
        Name among Minari's datasets, such as `pendulum/medium-v0`, or a path, which begins with `.` or `/`.
    episodes : iterable of Episode
        What to write. Images are kept as they are, not as JPEG.
    spaces : Spaces
        Of one environment.
    data_format : str
        Minari's: hdf5 or arrow.
    overwrite : bool
        Put it in the place of a dataset of that name, which stays until the new one is whole.
    """
    _check_format(data_format)
    root, dataset_id = _place(name)
    if (root / _METADATA).exists():
        raise ConfigError(f"{root} is the inside of a dataset; name the folder around it, or another place")
    check_is_new(root, (root / _DATA / _METADATA).exists(), overwrite=overwrite)
    partial = root / f"{_DATA}.partial"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _write(partial, dataset_id, episodes, spaces, data_format)
        if overwrite:
            shutil.rmtree(root / _DATA, ignore_errors=True)
        partial.rename(root / _DATA)
    except OSError as error:
        raise StorageError(f"{root} cannot be written: {error}; name another place") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return root


def _place(name: str) -> tuple[Path, str]:
    """Folder and id of the dataset of a name or path."""
    is_path = name.startswith((".", "/", "~"))
    dataset_id = re.sub(r"[^-\w]+", "-", Path(name).name).strip("-") if is_path else name
    if is_path and not re.search(r"-v\d+$", dataset_id):
        dataset_id += "-v0"
    try:
        _import("minari.dataset.minari_dataset").parse_dataset_id(dataset_id)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{name!r} is no name of a Minari dataset; expected one such as pendulum/medium-v0, or a path that begins "
            "with . or /"
        ) from None
    root = (
        Path(name).expanduser() if is_path else Path(_import("minari.storage.datasets_root_dir").get_dataset_path(name))
    )
    return root.resolve(), dataset_id  # Minari takes paths within a dataset relative to it


def _write(folder: Path, dataset_id: str, episodes: Iterable[Episode], spaces: Spaces, data_format: str) -> None:
    minari_storage = _import("minari.dataset.minari_storage").MinariStorage
    buffer_class = _import("minari.data_collector.episode_buffer").EpisodeBuffer
    storage = minari_storage.new(
        folder, spaces.observation, spaces.action, _spec(spaces.env), data_format, jpeg_encoding=False
    )
    storage.update_metadata({"dataset_id": dataset_id, "minari_version": _import("minari").__version__})
    storage.update_episodes(_buffer(buffer_class, number, episode) for number, episode in enumerate(episodes))
    if not storage.total_episodes:
        raise SchemaError("there are no episodes to write")


def _buffer(buffer_class: Any, number: int, episode: Episode) -> Any:
    ends = np.zeros((2, len(episode)), np.bool_)
    ends[:, -1] = episode.is_terminated, episode.is_truncated
    # Infos have an entry more than steps: that of the reset.
    extras = {f"{_EXTRAS}{name}": np.concatenate([values, values[-1:]]) for name, values in episode.extras.items()}
    return buffer_class(
        id=number,
        observations=episode.observations,
        actions=episode.actions,
        rewards=episode.rewards,
        terminations=ends[0],
        truncations=ends[1],
        infos=extras,
    )


def _read(found: Mapping[str, Any]) -> Episode:
    rewards = np.asarray(found["rewards"], np.float32)
    terminated, truncated = np.asarray(found["terminations"], bool), np.asarray(found["truncations"], bool)
    if terminated[:-1].any() or truncated[:-1].any():
        raise SchemaError("an episode of the dataset ends before its last step; split it there")
    infos = found.get("infos") or {}
    own = (name for name in infos if name.startswith(_EXTRAS))
    extras = {name.removeprefix(_EXTRAS): np.asarray(infos[name])[: len(rewards)] for name in own}
    return Episode(
        map_arrays(np.asarray, found["observations"]),
        np.asarray(found["actions"]),
        rewards,
        bool(terminated[-1]),
        bool(truncated[-1]) and not bool(terminated[-1]),
        extras,
    )


def _check_format(data_format: object) -> None:
    """Refuse a format that Minari does not have, or that it needs another library for."""
    if data_format not in _FORMATS:
        raise ConfigError(f"data_format must be one of {', '.join(_FORMATS)}, got {data_format!r}")
    if data_format == _ARROW and find_spec("pyarrow") is None:
        raise ConfigError("Minari's Arrow files need pyarrow: pip install pyarrow; or use data_format='hdf5'")


def _check_files(folder: Path) -> None:
    """Refuse a dataset that has, or names, anything but regular files of its own."""
    for path in (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()):
        with open_file(path):
            pass
        if path.suffix == _HDF5:
            _check_hdf5(path)


def _check_hdf5(path: Path) -> None:
    """Refuse a file that takes some of its data from others."""
    h5py = _import("h5py")

    # What a visitor returns ends the visit; h5py cannot pass on what it raises.
    def foreign_link(name: bytes, link: Any) -> str | None:
        return name.decode(errors="replace") if link.type == h5py.h5l.TYPE_EXTERNAL else None

    def foreign_data(name: str, item: Any) -> str | None:
        return name if isinstance(item, h5py.Dataset) and (item.external or item.is_virtual) else None

    try:
        with h5py.File(path, "r") as file:
            found = file.id.links.visit(foreign_link, info=True) or file.visititems(foreign_data)
    except (*PARSE_ERRORS, OSError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    if found is not None:
        raise StorageError(f"{path} takes {found!r} from another file; a dataset has all of its data in its own")


def _read_metadata(folder: Path) -> dict[str, Any]:
    try:
        metadata = json.loads(read_file(folder / _METADATA, _MAX_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{folder / _METADATA} cannot be read: {error}") from error
    if not isinstance(metadata, dict):
        raise SchemaError(f"{folder / _METADATA} describes no dataset; expected a JSON object")
    return metadata


def _env_in(metadata: Mapping[str, Any]) -> str | None:
    """Id of the environment that a dataset names; it is not made."""
    try:
        name = json.loads(metadata["env_spec"])["id"]
    except (KeyError, TypeError, ValueError):
        return None
    return name if isinstance(name, str) else None


def _spec(env: str | None) -> Any:
    """Gymnasium's record of an environment, without making it; None where it has none."""
    return gym.envs.registry.get(env) if env is not None else None


def _import(module: str) -> Any:
    return import_extra(module, _EXTRA, "Reading and writing Minari datasets needs")
