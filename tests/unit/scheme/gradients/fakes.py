"""Gradient workers in this process that are called as those in others are, one after the other."""

from collections.abc import Callable, Sequence
from typing import Any

from recollect.scheme.base.commands import Command
from recollect.scheme.base.member import Answer, Call
from recollect.scheme.gradients.g_worker import GWorker


class WorkersHere:
    """Runs a call when its answer is waited for; workers can be told to be slow, or to die of their next call.

    Parameters
    ----------
    workers : sequence of GWorker
        The workers.
    """

    def __init__(self, workers: Sequence[GWorker]) -> None:
        self.workers = dict(enumerate(workers))
        self.restarts: dict[int, int] = {}
        self.on_loss: Callable[[int, int], None] | None = None
        self.dying: set[int] = set()
        self.slow: set[int] = set()
        self.commands: list[Command] = []
        self._asked: dict[int, tuple[int, str, tuple[Any, ...]]] = {}

    @property
    def indices(self) -> list[int]:
        return list(self.workers)

    @property
    def num_restarts(self) -> int:
        return sum(self.restarts.values())

    @property
    def num_workers(self) -> int:
        return len(self.workers)

    def call(self, index: int, method: str, *args: Any) -> Call:
        number = len(self._asked)
        self._asked[number] = (index, method, args)
        return Call(number, index, 0)

    def wait(self, calls: Sequence[Call]) -> list[Answer]:
        quick = [call for call in calls if call.worker not in self.slow]
        return [self._answer((quick or list(calls))[0])]

    def wait_all(self, calls: Sequence[Call]) -> list[Answer]:
        return [self._answer(call) for call in calls]

    def broadcast(self, command: Command) -> None:
        self.commands.append(command)
        for worker in self.workers.values():
            worker.execute(command)

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.stop()

    def _answer(self, call: Call) -> Answer:
        index, method, args = self._asked[call.reference]
        if index in self.dying:
            self.dying.discard(index)
            self.restarts[index] = self.restarts.get(index, 0) + 1
            assert self.on_loss is not None
            self.on_loss(index, call.epoch)
            return Answer(call, error=RuntimeError("killed"))
        return Answer(call, getattr(self.workers[index], method)(*args))
