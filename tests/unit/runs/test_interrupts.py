"""Ctrl-C waits for the end of a block, once."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from recollect.runs.interrupts import held_back


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    """Ctrl-C as a program finds it; runners of tests have their own ways."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def run(reached: list[str], num_interrupts: int) -> None:
    with held_back():
        for number in range(num_interrupts):
            interrupt()
            reached.append(f"after {number}")


def test_an_interrupt_comes_when_the_block_is_over() -> None:
    reached: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run(reached, 1)
    assert reached == ["after 0"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_one_comes_at_once() -> None:
    reached: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run(reached, 2)
    assert reached == ["after 0"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_interrupts_nothing_happens() -> None:
    with held_back():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_errors_pass() -> None:
    with pytest.raises(ValueError, match="this one"), held_back():
        raise ValueError("this one")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_program_keeps_its_own_handler() -> None:
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    with held_back():
        interrupt()
        assert heard == [signal.SIGINT]


def test_other_threads_are_left_alone() -> None:
    results = []

    def work() -> None:
        with held_back():
            results.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == ["done"]
