"""A disk that fails, tears what is written, ends the process, or loses power, in place of `os` in the file layer."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from recollect.files import disk

# Calls of the file layer that change something.
OPERATIONS = ("open", "write", "fsync", "replace", "link", "unlink", "mkdir", "rmdir")


class Killed(BaseException):
    """Stands for the end of the process."""


class WatchedOS:
    """Stands for the module `os` in the file layer, and is told of each operation before it happens."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        value = getattr(os, name)
        return partial(self.call, name, value) if name in OPERATIONS else value

    def call(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if name == "open" and not args[1] & os.O_CREAT:
            return function(*args, **kwargs)
        self.calls.append(name)
        return self.change(name, function, *args, **kwargs)

    def change(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)


class FailingOS(WatchedOS):
    """Fails in the operation of a number, and in all after it if it lasts: a disk that is full, or a process that ends.

    Parameters
    ----------
    number : int
        How many operations succeed.
    error : exception
        What the next one raises; `Killed` stands for the end of the process, after which nothing happens any more.
    tears : bool
        Whether half of what was to be written then is written.
    """

    def __init__(self, number: int, error: BaseException, *, tears: bool = False) -> None:
        super().__init__()
        self.number = number
        self.error = error
        self.tears = tears

    def change(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if len(self.calls) <= self.number:
            return function(*args, **kwargs)
        is_first = len(self.calls) == self.number + 1
        if is_first and self.tears and name == "write":
            function(args[0], args[1][: len(args[1]) // 2])
        # A full disk can still remove files; nothing follows on the end of a process.
        if is_first or isinstance(self.error, Killed) or name == "write":
            raise self.error
        return function(*args, **kwargs)


class Inode:
    """What a file holds, and what of it would be there after a power cut."""

    def __init__(self, content: bytes = b"", *, is_synced: bool = False) -> None:
        self.content = content
        self.synced = content if is_synced else None

    @property
    def after_power_cut(self) -> bytes:
        """What was synced, and zeros where that is nothing, as file systems leave them."""
        return bytes(len(self.content)) if self.synced is None else self.synced


State = dict[str, bytes | None]


class PowerCutOS(WatchedOS):
    """Remembers for every operation what a power cut right after it would leave on the disk below a folder.

    Attributes
    ----------
    states : list of dict
        Distinct contents: files by their paths below the folder, None for folders. Of each moment there are two: what
        was synced alone, and what was synced under all names that were given, because file systems may write names
        early.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.names: dict[Path, Inode | None] = {folder: None}
        for path in sorted(folder.rglob("*")):
            self.names[path] = Inode(path.read_bytes(), is_synced=True) if path.is_file() else None
        self.lasting = dict(self.names)
        self.opened: dict[int, Path | Inode] = {}
        self.states: list[State] = []

    def call(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = super().call(name, function, *args, **kwargs)
        if name == "open":
            path = Path(args[0])
            if args[1] & os.O_CREAT and path not in self.names:
                self.names[path] = Inode()
            inode = self.names.get(path)
            self.opened[result] = path if inode is None else inode
        elif name in OPERATIONS:
            getattr(self, f"on_{name}")(*args)
        self.keep()
        return result

    def on_write(self, descriptor: int, data: Any) -> None:
        inode = self.opened[descriptor]
        assert isinstance(inode, Inode)
        inode.content += bytes(data)

    def on_fsync(self, descriptor: int) -> None:
        target = self.opened[descriptor]
        if isinstance(target, Inode):
            target.synced = target.content
            return
        children = {path: inode for path, inode in self.names.items() if path.parent == target}
        self.lasting = {path: inode for path, inode in self.lasting.items() if path.parent != target} | children

    def on_replace(self, source: Any, target: Any) -> None:
        self.names[Path(target)] = self.names.pop(Path(source))

    def on_link(self, source: Any, target: Any) -> None:
        self.names[Path(target)] = self.names[Path(source)]

    def on_unlink(self, path: Any) -> None:
        del self.names[Path(path)]

    on_rmdir = on_unlink

    def on_mkdir(self, path: Any) -> None:
        self.names[Path(path)] = None

    def what_lasts(self) -> State:
        """What is there after a power cut now, of names and contents that were synced alone."""
        return self._state(self.lasting)

    def keep(self) -> None:
        for state in (self._state(self.lasting), self._state(self.names)):
            if state not in self.states:
                self.states.append(state)

    def _state(self, names: dict[Path, Inode | None]) -> State:
        state: State = {}
        for path in sorted(names):
            if path != self.folder and (path.parent == self.folder or self._key(path.parent) in state):
                inode = names[path]
                state[self._key(path)] = None if inode is None else inode.after_power_cut
        return state

    def _key(self, path: Path) -> str:
        return str(path.relative_to(self.folder))


def restore(state: State, folder: Path) -> Path:
    """Make a folder with what a power cut has left."""
    for key, content in state.items():
        if content is None:
            (folder / key).mkdir(parents=True)
        else:
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(content)
    return folder


def on_disk(faulty: WatchedOS, patch: pytest.MonkeyPatch) -> None:
    """Let the file layer use a faulty disk."""
    patch.setattr(disk, "os", faulty)
