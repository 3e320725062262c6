"""Ctrl-C, SIGTERM and SIGHUP wait for the end of a block, once, and end a process as shells expect."""

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from recollect.interrupts import Interrupts, Terminated, exit_code, hang_ups, held_back, interruptible
from tests.waiting import PATIENCE_S

USUAL = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.fixture(autouse=True)
def usual_handlers() -> Iterator[None]:
    """Signals as a program finds them; runners of tests have their own ways."""
    previous = {number: signal.signal(number, handler) for number, handler in USUAL.items()}
    yield
    for number, handler in previous.items():
        signal.signal(number, handler)


def handlers() -> dict[signal.Signals, Any]:
    return {number: signal.getsignal(number) for number in USUAL}


def interrupt(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def run(reached: list[str], numbers: list[signal.Signals]) -> None:
    with held_back():
        for number in numbers:
            interrupt(number)
            reached.append(f"after {number.name}")


@pytest.mark.parametrize("number", USUAL)
def test_an_interrupt_comes_when_the_block_is_over(number: signal.Signals) -> None:
    reached: list[str] = []
    with pytest.raises(Interrupts) as caught:
        run(reached, [number])
    assert reached == [f"after {number.name}"]
    assert exit_code(caught.value) == CODES[number]
    assert handlers() == USUAL


@pytest.mark.parametrize("number", USUAL)
def test_a_second_one_comes_at_once(number: signal.Signals) -> None:
    reached: list[str] = []
    with pytest.raises(Interrupts) as caught:
        run(reached, [signal.SIGTERM, number])
    assert reached == ["after SIGTERM"]
    assert exit_code(caught.value) == CODES[number]
    assert handlers() == USUAL


def test_without_interrupts_nothing_happens() -> None:
    with interruptible(), held_back():
        pass
    assert handlers() == USUAL


def test_other_errors_pass() -> None:
    with pytest.raises(ValueError, match="this one"), interruptible(), held_back():
        raise ValueError("this one")
    assert handlers() == USUAL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_that_would_kill_are_raised_as_ctrl_c_is(number: signal.Signals) -> None:
    with pytest.raises(Terminated) as caught, interruptible():
        interrupt(number)
    assert caught.value.code == CODES[number]
    assert handlers() == USUAL


def test_they_are_held_back_within_an_interruptible_block_too() -> None:
    reached: list[str] = []
    with pytest.raises(Terminated), interruptible():
        run(reached, [signal.SIGTERM])
    assert reached == ["after SIGTERM"]


@pytest.mark.parametrize("number", USUAL)
def test_a_program_keeps_its_own_handler(number: signal.Signals) -> None:
    heard: list[int] = []
    signal.signal(number, lambda number, frame: heard.append(number))
    with interruptible(), held_back():
        interrupt(number)
        assert heard == [number]


def test_what_ignores_a_hangup_keeps_ignoring_it() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interruptible(), held_back():
        interrupt(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_the_handler_of_ray_is_replaced_as_long_as_it_takes() -> None:
    def end(number: int, frame: object) -> None:
        raise SystemExit(number)

    end.__module__ = "ray._private.worker"
    signal.signal(signal.SIGTERM, end)
    with pytest.raises(Terminated), interruptible():
        interrupt(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is end


def test_other_threads_are_left_alone() -> None:
    results = []

    def work() -> None:
        with interruptible(), held_back():
            results.append(handlers() == USUAL)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [True]


def test_uncaught_it_ends_the_process_with_the_code_that_shells_expect() -> None:
    code = (
        "import os, signal\nfrom recollect.interrupts import interruptible\n"
        "with interruptible():\n    os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stderr) == (143, "")


def test_a_forked_process_ends_when_it_is_told_to() -> None:
    code = (
        "import os, signal\nfrom recollect.interrupts import held_back\n"
        "with held_back():\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        os._exit(0)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.stdout.strip() == str(-signal.SIGTERM)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BrokenPipeError(), 141),
        (SystemExit(1), 141),  # as Rich ends a program whose pipe is broken
        (OSError(errno.EIO, "Input/output error"), 129),
        (Terminated(signal.SIGTERM), 143),
        (Terminated(signal.SIGHUP), 129),
    ],
)
def test_what_cannot_be_shown_any_more_interrupts(error: BaseException, code: int) -> None:
    with pytest.raises(Terminated) as caught, hang_ups():
        raise error
    assert exit_code(caught.value) == code
