"""Episodes in one `.npz` file: arrays of NumPy, nothing pickled."""

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from recollect import keys
from recollect.data.episode import Episode, Spaces, check_is_new, flatten, unflatten
from recollect.errors import SchemaError, StorageError
from recollect.export.spaces import space_from_document, space_to_document
from recollect.files.disk import MAX_BYTES, make_folder, read_file, write_file, write_new_file
from recollect.files.records import PARSE_ERRORS

SUFFIX: Final = ".npz"
_LENGTHS: Final = "lengths"
_REWARDS: Final = "rewards"
_ACTIONS: Final = "actions"
_TERMINATED: Final = "terminated"
_TRUNCATED: Final = "truncated"
_SPACES: Final = "spaces"
_OBSERVATIONS: Final = "observations"
_EXTRAS: Final = "extras"


class NpzSource:
    """Episodes of an `.npz` file; it is read whole.

    Attributes
    ----------
    spaces : Spaces
    num_episodes : int
    """

    def __init__(self, path: Path) -> None:
        try:
            self._arrays: Mapping[str, np.ndarray] = _read_arrays(path)
            self._lengths = [int(length) for length in self._arrays[_LENGTHS]]
            self._observations, self._extras = (self._below(name) for name in (_OBSERVATIONS, _EXTRAS))
            document = json.loads(self._arrays[_SPACES].item())
            observation, action = (space_from_document(document[kind]) for kind in ("observation", "action"))
            self.spaces = Spaces(observation, action, document.get("env"))
            self._check_lengths(path)
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise StorageError(f"{path} cannot be read: {error}") from error
        except (*PARSE_ERRORS, NotImplementedError, MemoryError) as error:
            if isinstance(error, SchemaError):
                raise
            raise SchemaError(f"{path} holds no episodes as Recollect writes them: {error!r}") from error
        self.num_episodes = len(self._lengths)

    def _check_lengths(self, path: Path) -> None:
        num_steps, num_episodes = sum(self._lengths), len(self._lengths)
        expected = {_REWARDS: num_steps, _ACTIONS: num_steps, _TERMINATED: num_episodes, _TRUNCATED: num_episodes}
        found = {name: len(self._arrays[name]) if name in self._arrays else None for name in expected}
        if min(self._lengths, default=1) < 1 or found != expected:
            raise SchemaError(f"{path} is damaged: its arrays have {found} entries, its lengths say {expected}")

    def __iter__(self) -> Iterator[Episode]:
        arrays, begin = self._arrays, 0
        for number, length in enumerate(self._lengths):
            end = begin + length
            # Each episode has one observation more than steps.
            observed = {path: values[begin + number : end + number + 1] for path, values in self._observations.items()}
            yield Episode(
                unflatten(observed),
                arrays[_ACTIONS][begin:end],
                arrays[_REWARDS][begin:end],
                bool(arrays[_TERMINATED][number]),
                bool(arrays[_TRUNCATED][number]) and not bool(arrays[_TERMINATED][number]),
                {name: values[begin:end] for name, values in self._extras.items()},
            )
            begin = end

    def _below(self, name: str) -> dict[str, np.ndarray]:
        """Arrays by their path below a name."""
        found = {path: values for path, values in self._arrays.items() if path.partition("/")[0] == name}
        return {path.removeprefix(name).removeprefix("/"): values for path, values in found.items()}


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a file by name; what they unpack to must fit into memory."""
    buffer = io.BytesIO(read_file(path.resolve()))
    with zipfile.ZipFile(buffer) as archive:
        num_bytes = sum(member.file_size for member in archive.infolist())
    if num_bytes > MAX_BYTES:
        raise StorageError(f"{path} unpacks to {num_bytes:,} bytes, and at most {MAX_BYTES:,} are read")
    with np.load(buffer, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def write_npz(path: Path, episodes: Iterable[Episode], spaces: Spaces, *, overwrite: bool = False) -> Path:
    """Write episodes to a file, whole or not at all; they are all in memory at once."""
    check_is_new(path, path.is_symlink() or path.exists(), overwrite=overwrite)
    found = list(episodes)
    if not found:
        raise SchemaError("there are no episodes to write")
    # Arrays are of all episodes together, so only what each of them has can be kept.
    extras = set.intersection(*(set(episode.extras) for episode in found))
    if keys.RHS not in extras and any(keys.RHS in episode.extras for episode in found):
        raise SchemaError(
            "some episodes have hidden states and others have none, which one .npz file cannot hold; write them to "
            "files of their own"
        )
    observed = [flatten(episode.observations) for episode in found]
    document = {"observation": space_to_document(spaces.observation), "action": space_to_document(spaces.action)}
    arrays: dict[str, Any] = {
        _SPACES: np.array(json.dumps({**document, "env": spaces.env})),
        _LENGTHS: np.array([len(episode) for episode in found]),
        _ACTIONS: np.concatenate([episode.actions for episode in found]),
        _REWARDS: np.concatenate([episode.rewards for episode in found]),
        _TERMINATED: np.array([episode.is_terminated for episode in found]),
        _TRUNCATED: np.array([episode.is_truncated for episode in found]),
    }
    for part in observed[0]:
        name = f"{_OBSERVATIONS}/{part}" if part else _OBSERVATIONS
        arrays[name] = np.concatenate([parts[part] for parts in observed])
    for name in extras:
        arrays[f"{_EXTRAS}/{name}"] = np.concatenate([episode.extras[name] for episode in found])
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    try:
        make_folder(path.parent)
        (write_file if overwrite else write_new_file)(path, buffer.getvalue())
    except FileExistsError:
        check_is_new(path, True, overwrite=False)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}; name another place") from error
    return path
