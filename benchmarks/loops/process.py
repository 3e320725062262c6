"""A competitor's process, as the parent sees it."""

import json
import os
import select
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal, TextIO

from benchmarks.loops.catalog import Competitor
from benchmarks.loops.tasks import Task

ROOT: Final = Path(__file__).resolve().parents[2]
THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
Clock = Literal["wall", "cpu"]
PATIENCE_S: Final = 300.0
"""How long an answer may take beyond the window that was asked for: set-up, filling buffers and compiling."""


@dataclass(frozen=True)
class Failure:
    """Why a competitor does not take part."""

    reason: str


@dataclass(frozen=True)
class Window:
    """One timed window: steps or updates, and the seconds that they took, on the wall and of the processor."""

    count: float
    seconds: float
    cpu_seconds: float

    def per_second(self, clock: Clock) -> float:
        return self.count / (self.seconds if clock == "wall" else self.cpu_seconds)


class LoopProcess:
    """A competitor that trains on a task, pinned to some cores, and stands still unless a window is open.

    Parameters
    ----------
    competitor, task
        Who, and what.
    cores : sequence of int
        Cores that it may use; it has as many threads, of which Recollect may leave some idle.
    python : Path
        Interpreter that has its library.
    log : TextIO or None
        Where it writes what its libraries print; None to drop it.
    """

    def __init__(
        self, competitor: Competitor, task: Task, cores: Sequence[int], python: Path, log: TextIO | None = None
    ) -> None:
        numbers = [str(core) for core in cores]
        environment = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
        # Recollect chooses for itself, among as many.
        names = () if competitor.package == "recollect" else THREAD_VARIABLES
        threads = dict.fromkeys(names, str(len(cores)))
        self._process = subprocess.Popen(
            [str(python), "-m", "benchmarks.loops.worker", competitor.name, task.key, *numbers],
            cwd=ROOT,
            env=environment | threads | {"JAX_PLATFORMS": "cpu"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log or subprocess.DEVNULL,
        )
        self._unread = b""

    def ask(self, what: str, seconds: float) -> Window | Failure:
        """Open a window and wait until it is over."""
        try:
            self._stdin.write(json.dumps([what, seconds]).encode() + b"\n")
            self._stdin.flush()
        except BrokenPipeError:
            return self._end()
        answer = self.receive(seconds + PATIENCE_S)
        return answer if isinstance(answer, Failure) else Window(**answer)

    def receive(self, patience_s: float = PATIENCE_S) -> dict[str, Any] | Failure:
        """Wait for the next message."""
        deadline = monotonic() + patience_s
        while b"\n" not in self._unread:
            if not select.select([self._stdout], [], [], max(0.0, deadline - monotonic()))[0]:
                self.close()
                return Failure(f"no answer within {patience_s:.0f} s")
            read = os.read(self._stdout.fileno(), 1 << 16)
            if not read:
                return self._end()
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return Failure(message["failure"]) if "failure" in message else message

    def close(self) -> None:
        """End the process."""
        self._stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()

    @property
    def _stdin(self) -> Any:
        return self._process.stdin

    @property
    def _stdout(self) -> Any:
        return self._process.stdout

    def _end(self) -> Failure:
        code = self._process.wait()
        if code < 0:
            return Failure(f"its process died of {signal.Signals(-code).name}")
        return Failure(f"its process ended with code {code}")
