"""`Member`: one incarnation of a remote worker; calls to workers, and their answers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from recollect.scheme.base import engine
from recollect.scheme.base.resources import Resources
from recollect.scheme.base.supervision import Heartbeat

_STOP_TIMEOUT_S: Final = 5.0


class Call(NamedTuple):
    """A call that a worker was given: the reference of its result, and which incarnation of which worker."""

    reference: object
    worker: int
    epoch: int


class Answer(NamedTuple):
    """How a call ended. After an error the worker has already been restarted."""

    call: Call
    value: Any = None
    error: Exception | None = None


class WorkerProcess(NamedTuple):
    """Where a worker runs, for those who watch the run; `pid` and `node` are None until its first heartbeat."""

    index_worker: int
    epoch: int
    restarts: int
    pid: int | None
    node: str | None


@dataclass(eq=False)
class Member:
    """One incarnation of a remote worker."""

    index: int
    epoch: int
    config: Resources
    handle: engine.RemoteHandle
    heartbeat: Heartbeat
    preparations: Sequence[object]
    has_failed_to_build: bool = False
    num_calls: int = 0
    reason: Exception | None = None

    def unprepared(self) -> Exception | None:
        """Why it could not be built, or not do what it had to do before its first call, which has ended; else None."""
        preparations, self.preparations = self.preparations, ()
        errors = [engine.outcome(reference).error for reference in preparations]
        self.has_failed_to_build = bool(errors) and errors[0] is not None and not engine.is_loss(errors[0])
        return next((error for error in errors if error is not None), None)


def end_workers(handles: Iterable[engine.RemoteHandle]) -> None:
    """Let workers release what they hold, then end their processes."""
    handles = list(handles)
    stopping = [handle.stop.options(concurrency_group=engine.CONTROL_GROUP).remote() for handle in handles]
    engine.all_ready(stopping, _STOP_TIMEOUT_S)
    for handle in handles:
        engine.kill(handle)
