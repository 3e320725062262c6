"""Ctrl-C between update stages, when the training can be saved."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_back() -> Iterator[None]:
    """Delay Ctrl-C until the block is over; a second one interrupts it at once.

    A program's own handler of Ctrl-C stays in place, and threads other than the main one are unaffected.
    """
    previous = signal.getsignal(signal.SIGINT)
    if previous is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    is_held = False

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal is_held
        if is_held:
            raise KeyboardInterrupt
        is_held = True

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if is_held:
        raise KeyboardInterrupt
