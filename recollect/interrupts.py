"""Signals that end a training, taken where it can be saved: Ctrl-C, SIGTERM and SIGHUP."""

import _signal  # type: ignore[import-not-found]
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any, Final, NoReturn

# Schedulers of clusters preempt with the first; a terminal that is closed sends the second.
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_ALL: Final = (signal.SIGINT, *_ENDING)
# Shells add the number of the signal that ended a process to this.
_BY_SIGNAL: Final = 128


class Terminated(SystemExit):
    """SIGTERM or SIGHUP came, or nobody sees what is shown any more.

    Uncaught, it ends the process with 128 plus the signal's number, as shells put it.

    Parameters
    ----------
    number : int
        Number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(_BY_SIGNAL + number)


Interrupts: Final = (KeyboardInterrupt, Terminated)
"""What a training is interrupted by."""


def exit_code(interrupt: BaseException) -> int:
    """Exit code of a process that an interrupt ends: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return int(interrupt.code or 0) if isinstance(interrupt, Terminated) else _BY_SIGNAL + signal.SIGINT


def interruptible() -> AbstractContextManager[None]:
    """Let SIGTERM and SIGHUP raise `Terminated` in the block, as Ctrl-C raises `KeyboardInterrupt`."""
    return _Handling(_ENDING, _Raise())


def held_back() -> AbstractContextManager[None]:
    """Delay Ctrl-C, SIGTERM and SIGHUP until the block is over; a second one interrupts it at once."""
    return _Handling(_ALL, _Hold())


@contextmanager
def hang_ups() -> Iterator[None]:
    """Raise `Terminated` where the block cannot write because its terminal, or who reads its pipe, is gone.

    It is what the signal would raise that the process was spared, so that a training is saved all the same.
    """
    try:
        yield
    except Terminated:
        raise
    except (BrokenPipeError, SystemExit) as error:  # Rich silences a console whose pipe is broken, and exits
        raise Terminated(signal.SIGPIPE) from error
    except OSError as error:
        raise Terminated(signal.SIGHUP) from error


class _Raise:
    """Raises the interrupt that a signal stands for."""

    def __init__(self) -> None:
        self._process = os.getpid()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if number in _ENDING and os.getpid() != self._process:
            # A process that was forked meanwhile, such as an environment's, ends at once when it is asked to.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.take(number)

    def take(self, number: int) -> None:
        _interrupt(number)

    def release(self) -> None:
        """Raise what was kept: nothing."""


class _Hold(_Raise):
    """Keeps the first signal; a second one raises."""

    held: int | None = None

    def take(self, number: int) -> None:
        if self.held is not None:
            _interrupt(number)
        self.held = number

    def release(self) -> None:
        if self.held is not None:
            _interrupt(self.held)


def _interrupt(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(number)


class _Handling(AbstractContextManager[None]):
    """Handles signals in a block; a program's own handlers stay, and only the main thread handles any.

    Every update stage comes through here. The functions below `signal` make no enums, which would take 20 µs a stage.
    """

    def __init__(self, numbers: tuple[signal.Signals, ...], handler: _Raise) -> None:
        self._numbers = numbers
        self._handler = handler
        self._replaced: list[tuple[int, Any]] = []

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                old = _signal.getsignal(number)
                if _may_replace(old):
                    self._replaced.append((number, old))
                    _signal.signal(number, self._handler)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        for number, old in self._replaced:
            _signal.signal(number, old)
        if error is None:
            self._handler.release()


def _may_replace(handler: object) -> bool:
    """Whether a handler is Python's default, that of `interruptible`, or Ray's, which only ends the process."""
    if handler in (signal.SIG_DFL, signal.default_int_handler) or type(handler) is _Raise:
        return True
    return str(getattr(handler, "__module__", "")).startswith("ray.")
