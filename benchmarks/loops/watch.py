"""The stopwatch that a competitor's training loop carries, and that the parent process starts and stops.

A competitor runs its loop as it always would and calls `tick` once per update stage. Between turns `tick` does not
return, so the loop waits exactly there while the other competitors run.
"""

import json
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any, Final, TextIO

LOOP: Final = "loop"
UPDATES: Final = "updates"
MATMULS: Final = "matmuls"


class Watch:
    """Times whole loops and updates, as the parent asks.

    Parameters
    ----------
    commands, answers : text streams
        One JSON document a line: `["loop", seconds]` in, `{"count": …, "seconds": …, "cpu_seconds": …}` out.
    start_steps : int
        Steps before the first command is taken.
    """

    def __init__(self, commands: TextIO, answers: TextIO, start_steps: int) -> None:
        self._commands = commands
        self._answers = answers
        self._start_steps = start_steps
        self._deadline = 0.0
        self._begin = (0, 0.0, 0.0)
        self._is_running = False

    def ready(self, update: Callable[[], int], num_parameters: int, note: str = "") -> None:
        """Say what was built.

        Parameters
        ----------
        update : callable
            Makes the updates of one stage with what is stored, and returns how many; called inside `tick`.
        num_parameters : int
            Weights that are trained, without target networks and temperatures.
        note : str
            In what the competitor differs from the task.
        """
        self._update = update
        self.answer({"num_parameters": num_parameters, "note": note})

    def tick(self, num_steps: int) -> None:
        """Take note of all env steps so far; returns at once while a window is open, else waits for the next."""
        now = perf_counter()
        if self._is_running:
            if now < self._deadline:
                return
            first_step, begin, cpu_begin = self._begin
            cpu_seconds = process_time() - cpu_begin
            self.answer({"count": num_steps - first_step, "seconds": now - begin, "cpu_seconds": cpu_seconds})
        elif num_steps < self._start_steps:
            return
        self._is_running = True
        seconds = self._await_loop()
        begin = perf_counter()
        self._begin, self._deadline = (num_steps, begin, process_time()), begin + seconds

    def _await_loop(self) -> float:
        """Do what is asked for until it is the loop's turn; returns the length of its window."""
        for line in self._commands:
            what, seconds = json.loads(line)
            if what == LOOP:
                return float(seconds)
            self.answer(self._time(self._update if what == UPDATES else self._matmuls(), seconds))
        raise SystemExit  # the parent has hung up

    def _time(self, call: Callable[[], int], seconds: float) -> dict[str, float]:
        count, begin, cpu_begin, now = 0, perf_counter(), process_time(), 0.0
        while now < seconds:
            count += call()
            now = perf_counter() - begin
        return {"count": count, "seconds": now, "cpu_seconds": process_time() - cpu_begin}

    def _matmuls(self) -> Callable[[], int]:
        from benchmarks.loops.matmuls import recorded

        return recorded(self._update)

    def answer(self, message: dict[str, Any]) -> None:
        """Send one message to the parent."""
        self._answers.write(json.dumps(message) + "\n")
        self._answers.flush()
