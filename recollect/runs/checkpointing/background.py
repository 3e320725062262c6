"""`BackgroundWriter`: writes a checkpoint in a thread while the training continues."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

Write = Callable[[], Path]


class BackgroundWriter:
    """Writes one checkpoint at a time in a thread; its result waits to be taken.

    The thread is no daemon, so that a process that ends waits until its last checkpoint is whole. A process that was
    forked meanwhile has no such thread and nothing to take. Where no thread can be started, and on request, it writes
    before `begin` returns.

    Parameters
    ----------
    is_inline : bool
        Whether to write in the thread that asks for it.

    Attributes
    ----------
    write_s : float or None
        How long the newest checkpoint that was written took.
    """

    def __init__(self, *, is_inline: bool = False) -> None:
        self._is_inline = is_inline
        self._thread: threading.Thread | None = None
        self._path: Path | None = None
        self._error: BaseException | None = None
        self.write_s: float | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a checkpoint is being written now."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def has_result(self) -> bool:
        """Whether a checkpoint was written, or could not be, since one was last taken."""
        return not self.is_busy and (self._path is not None or self._error is not None)

    def begin(self, write: Write) -> None:
        """Write a checkpoint; the one before must have been taken."""
        thread = None if self._is_inline else threading.Thread(target=self._run, args=(write,), name="checkpoint")
        try:
            if thread is not None:
                thread.start()
        except RuntimeError:  # as many threads as the system allows
            thread = None
        self._thread = thread
        if thread is None:
            self._run(write)

    def wait(self) -> None:
        """Wait until nothing is being written."""
        if self._thread is not None:
            self._thread.join()

    def take(self) -> Path | None:
        """The folder of a checkpoint that was written since the last time, or the error that it ended in."""
        if not self.has_result:
            return None
        path, error = self._path, self._error
        self._path = self._error = self._thread = None
        if error is not None:
            raise error
        return path

    def _run(self, write: Write) -> None:
        begin = time.perf_counter()
        try:
            self._path = write()
        except BaseException as error:  # noqa: BLE001  # of whatever kind: the training learns of it when it takes it
            self._error = error
        self.write_s = time.perf_counter() - begin
