"""The contents of a storage as bytes, for libraries that pickle buffers: Recollect's own checked snapshot."""

from pathlib import Path
from tempfile import TemporaryDirectory

from recollect.agent.storages.off_policy.replay_buffer import ReplayBuffer
from recollect.agent.storages.snapshots import load_storage, save_storage
from recollect.errors import StorageError


def contents_of(memory: ReplayBuffer) -> dict[str, bytes]:
    """The files of a snapshot by name."""
    with TemporaryDirectory(prefix="recollect-") as folder:
        save_storage(memory, folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def load_contents(memory: ReplayBuffer, files: dict[str, bytes]) -> None:
    """Fill a storage with the files of a snapshot."""
    with TemporaryDirectory(prefix="recollect-") as folder:
        for name, content in files.items():
            if Path(name).name != name:
                raise StorageError(f"a snapshot has no file {name!r}; it was not written by a buffer")
            (Path(folder) / name).write_bytes(content)
        load_storage(memory, folder)
