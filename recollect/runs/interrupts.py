"""Ctrl-C at a moment when everything is whole."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_back() -> Iterator[None]:
    """Hold Ctrl-C back until the block is over; a second one comes through at once.

    A program with its own way to handle Ctrl-C keeps it, and so do threads other than the main one.
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
