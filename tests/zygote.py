"""Children of a process that has imported everything: each begins at once, and may crash, hang or be killed.

Only a process without threads of its own may have such children: `in_child` refuses to fork another one.
"""

import os
import resource
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn


class Ending(NamedTuple):
    """How a child ended: its exit code, or minus the number of the signal that ended it; None if that was sent here."""

    code: int | None
    seconds: float


def in_child(
    function: Callable[[], int],
    log: Path,
    *,
    kill_after_s: float | None = None,
    most_bytes: int | None = None,
    number: int = signal.SIGKILL,
) -> Ending:
    """Run a function in a child and wait for it.

    Parameters
    ----------
    function : callable
        What to run; returns the exit code.
    log : Path
        File that gets what the child prints.
    kill_after_s : float, optional
        Kill it if it runs as long as this.
    most_bytes : int, optional
        Most memory that it may map.
    number : int
        The signal that is sent then.
    """
    assert threading.active_count() == 1, "a fork would copy locks that other threads hold"
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _run(function, log, most_bytes)
    handle = os.pidfd_open(child)
    begin = os.times().elapsed
    try:
        has_ended = bool(select.select([handle], [], [], kill_after_s)[0])
        if not has_ended:
            os.kill(child, number)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(handle)
    seconds = os.times().elapsed - begin
    code = os.waitstatus_to_exitcode(status)
    return Ending(None if not has_ended and code == -number else code, seconds)


def _run(function: Callable[[], int], log: Path, most_bytes: int | None) -> NoReturn:
    code = 70
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
        code = function()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 whatever it is, the child must not continue as its parent
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        leave(code)


def leave(code: int) -> NoReturn:
    """End a forked process without cleaning up what is its parent's."""
    os._exit(code)
