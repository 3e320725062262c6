"""`WorkerSet`: workers of one kind in processes of their own, kept alive."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from recollect.errors import WorkerError
from recollect.scheme.base import engine, resources
from recollect.scheme.base.commands import Command
from recollect.scheme.base.member import Answer, Call, Member, WorkerProcess, end_workers
from recollect.scheme.base.resources import Demand, Resources
from recollect.scheme.base.supervision import FinalWorkerError, Heartbeat, RestartLog, Supervision
from recollect.scheme.base.worker import Worker

_LOG = logging.getLogger(__name__)
_MAX_REFUSALS: Final = 2
# Names of constructor parameters that differ from worker to worker.
_INDEX: Final = "index_worker"
_EPOCH: Final = "epoch"
_EXECUTE: Final = "execute"


class WorkerSet:
    """Remote workers of one class: calls them, replaces those that die, raise or hang, adds and removes some.

    Parameters
    ----------
    worker_class : type
        Class of the workers. Beside `worker_params` its constructor takes `index_worker` and `epoch`, which
        counts the restarts of the worker with that index.
    worker_params : mapping
        Arguments of the constructor, by name.
    worker_remote_config : mapping or None
        Ray's resource options of one worker, passed on as they are; None asks for an equal share of what the cluster
        has, see `resources.share`. Workers start when Ray has placed them; a warning says what they wait for then.
    num_workers : int
        Remote workers to begin with.
    supervision : Supervision, optional
        When workers count as hung, and how often they may be restarted.
    placement : {"DEFAULT", "SPREAD"}
        Ray's strategy for where workers go, unless the resources have a `scheduling_strategy` of their own.
    beside : sequence of Demand
        Other workers of the training, whose part of the cluster is left to them.

    Attributes
    ----------
    remote_config : dict
        Resources of one worker.
    on_loss : callable or None
        Called with the index and the epoch of every incarnation that has ended, as soon as the next one is started,
        whatever the worker was doing. Callers learn here, and only here, what is gone with it.
    """

    def __init__(
        self,
        worker_class: type[Worker],
        worker_params: Mapping[str, Any],
        worker_remote_config: Resources | None,
        num_workers: int,
        *,
        supervision: Supervision | None = None,
        placement: str = resources.DEFAULT,
        beside: Sequence[Demand] = (),
    ) -> None:
        self.worker_class = worker_class
        self.worker_params = dict(worker_params)
        self.remote_config = dict(worker_remote_config or resources.default_resources())
        self.supervision = supervision or Supervision()
        self._is_default_config = worker_remote_config is None
        self._placement = resources.check_placement(placement)
        self._beside = beside
        self._members: dict[int, Member] = {}
        self._restarts = RestartLog(self.supervision)
        self._commands: dict[tuple[object, ...], Command] = {}
        self._next_check = 0.0
        self._next_warning = 0.0
        self._num_waits = 0
        self._num_incarnations: Counter[int] = Counter()
        self.on_loss: Callable[[int, int], None] | None = None
        if num_workers:
            engine.connect()
            if worker_remote_config is None:
                self.remote_config = resources.share(num_workers, beside, engine.nodes())
            if worker_remote_config and worker_remote_config.get(resources.OBJECT_STORE_MEMORY):
                _LOG.warning(
                    "object_store_memory of a worker is not reserved, because Ray breaks down when such a worker ends; "
                    "leave it out, and give the size of the object store to ray.init or `ray start`"
                )
            for index in range(num_workers):
                self._members[index] = self._create(index, self.remote_config)

    @property
    def num_workers(self) -> int:
        """Remote workers."""
        return len(self._members)

    @property
    def indices(self) -> list[int]:
        """Indices of the remote workers."""
        return list(self._members)

    @property
    def num_restarts(self) -> int:
        """Restarts of workers so far."""
        return sum(self._restarts.counts.values())

    @property
    def restarts(self) -> dict[int, int]:
        """Restarts of each worker so far, by its index; 0 is left out."""
        return dict(self._restarts.counts)

    @property
    def progress(self) -> int:
        """A number that moves while workers do, wait for resources, or are built and it does not take too long."""
        progress = sum(member.heartbeat.progress or 0 for member in self._members.values())
        return progress + self.num_restarts + self._num_waits

    def processes(self, timeout_s: float = 10.0) -> list[WorkerProcess]:
        """Ask all workers where they run; they answer while they are busy, but not before Ray has started them."""
        members = list(self._members.values())
        asked = [member.handle.process.options(concurrency_group=engine.CONTROL_GROUP).remote() for member in members]
        engine.all_ready(asked, timeout_s)
        answers = [engine.outcome(each).value if engine.ready([each], 0.0) else None for each in asked]
        return [
            WorkerProcess(member.index, member.epoch, self.restarts.get(member.index, 0), *(answer or (None, None)))
            for member, answer in zip(members, answers, strict=True)
        ]

    def epoch(self, index: int) -> int:
        """How often a worker was started before; no two incarnations share a number."""
        return self._members[index].epoch

    def handle(self, index: int) -> engine.RemoteHandle:
        """Ray's handle of a worker."""
        return self._members[index].handle

    def call(self, index: int, method: str, *args: object) -> Call:
        """Give a worker something to do after what it was given before; see `wait` for the result."""
        member = self._members[index]
        if member.num_calls == 0:
            member.heartbeat.restart_clock()
        member.num_calls += 1
        return Call(getattr(member.handle, method).remote(*args), index, member.epoch)

    def tell(self, index: int, method: str, *args: object) -> None:
        """Tell a worker something that reaches it while it is busy; nobody waits for an answer."""
        method_of = getattr(self._members[index].handle, method)
        method_of.options(concurrency_group=engine.CONTROL_GROUP).remote(*args)

    def wait(self, calls: Collection[Call]) -> list[Answer]:
        """Wait until at least one of the calls has ended, and return how; in the order of `calls`.

        A worker that died, raised an error, or was silent for too long is restarted. Too many restarts
        end the run with a `FinalWorkerError` in the words of the worker, and so does one that could never be built,
        or whose own workers have come to that.
        """
        references = [call.reference for call in calls]
        while True:
            found = set(engine.ready(references, self.supervision.check_every_s))
            self._check_all(call for call in calls if call.reference not in found)
            if found:
                return [self._answer(call) for call in calls if call.reference in found]

    def wait_all(self, calls: Iterable[Call]) -> list[Answer]:
        """Wait until all of the calls have ended, and return how; in the order of `calls`."""
        pending = list(calls)
        order = {call.reference: number for number, call in enumerate(pending)}
        answers: list[Answer] = []
        while pending:
            answers += self.wait(pending)
            ended = {answer.call.reference for answer in answers}
            pending = [call for call in pending if call.reference not in ended]
        return sorted(answers, key=lambda answer: order[answer.call.reference])

    def broadcast(self, command: Command) -> None:
        """Have every worker execute a command, and wait until all have; workers that start later execute it first.

        A worker that dies meanwhile is asked again, for as long as workers may be restarted. A command that a worker
        refuses twice, or hangs in twice, is a `WorkerError`, and is not repeated to others.
        """
        asked, num_refusals = self.indices, Counter[int]()
        while asked:
            answers = self.wait_all([self.call(index, _EXECUTE, command) for index in asked])
            failures = {answer.call.worker: answer.error for answer in answers if answer.error is not None}
            for index, error in failures.items():
                num_refusals[index] += not engine.is_loss(error)
                if num_refusals[index] == _MAX_REFUSALS:
                    words = engine.original_text(error)
                    raise WorkerError(f"worker {index} cannot execute {command}:\n{words}") from engine.cause_of(error)
            asked = list(failures)
        self._keep(command)

    def add(self, num_workers: int = 1) -> list[int]:
        """Build more workers, and return their indices."""
        engine.connect()
        first = max(self._members, default=-1) + 1
        added = list(range(first, first + num_workers))
        config = self._config_beside(self._members.values(), num_workers)
        for index in added:
            self._members[index] = self._create(index, config)
        return added

    def remove(self, index: int) -> None:
        """End a worker; what it was given and has not returned is lost."""
        end_workers([self._members.pop(index).handle])

    def stop(self) -> None:
        """End all workers."""
        members, self._members = self._members, {}
        if members and engine.is_connected():
            end_workers([member.handle for member in members.values()])

    def _keep(self, command: Command) -> None:
        """Have workers that start later execute a command before all else, in the order of the broadcasts."""
        self._commands.pop(command.key, None)
        self._commands[command.key] = command

    def _create(self, index: int, config: Resources) -> Member:
        """Build a worker; no two incarnations of the same index have the same epoch."""
        epoch = self._num_incarnations[index]
        self._num_incarnations[index] += 1
        # Ray's scheduler breaks down when an actor gives a share of the object store back, so none is asked for.
        asked = {name: amount for name, amount in config.items() if name != resources.OBJECT_STORE_MEMORY}
        remote_class = self.worker_class.as_remote(**{"scheduling_strategy": self._placement, **asked})
        handle = remote_class.remote(**{**self.worker_params, _INDEX: index, _EPOCH: epoch})
        preparations = [handle.build.remote(), *(handle.execute.remote(command) for command in self._commands.values())]
        self._next_warning = time.monotonic() + self.supervision.warn_every_s
        return Member(index, epoch, config, handle, Heartbeat(handle, self.supervision), preparations)

    def _config_beside(self, others: Iterable[Member], num_workers: int = 1) -> dict[str, Any]:
        """Resources of workers that start beside others: those given, or what is left of the cluster."""
        if not self._is_default_config:
            return self.remote_config
        present = [Demand(1, other.config) for other in others]
        elsewhere = [kind._replace(resources=kind.resources or self.remote_config) for kind in self._beside]
        return resources.share(num_workers, [*present, *elsewhere], engine.nodes())

    def _config_of_restart(self, member: Member) -> Resources:
        """Resources of a worker that restarts: what it had. If the cluster has lost that, it reserves nothing."""
        left = self._config_beside(other for other in self._members.values() if other is not member)
        if not self._is_default_config:
            return left
        return {name: amount if amount <= left[name] else 0 for name, amount in member.config.items()}

    def _is_current(self, call: Call) -> bool:
        return call.worker in self._members and self._members[call.worker].epoch == call.epoch

    def _check_all(self, calls: Iterable[Call]) -> None:
        """From time to time, end the workers that are silent for too long; their calls end with an error then."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + self.supervision.check_every_s / 2
        members = [self._members[index] for index in {call.worker for call in calls if self._is_current(call)}]
        for member in members:
            self._check(member)
        waiting = [member for member in members if not member.heartbeat.has_started]
        if waiting and now >= self._next_warning:
            self._next_warning = now + self.supervision.warn_every_s
            self._warn_of_waiting(waiting)

    def _check(self, member: Member) -> None:
        if member.reason is not None:
            return
        if member.heartbeat.is_silent():
            member.reason = WorkerError(
                f"worker {member.index} has had no heartbeat for {member.heartbeat.limit_s:g} s while it had "
                "something to do: an environment hangs, or the machine is overloaded (worker_timeout_s)"
            )
            engine.kill(member.handle)
        elif member.heartbeat.progress is None:
            # Who waits for a worker that is being built is no less alive for it.
            self._num_waits += 1

    def _warn_of_waiting(self, waiting: Sequence[Member]) -> None:
        """Say what workers that have not started wait for."""
        _LOG.warning(
            "waiting for resources: %d of %d %ss have not started; each asks for %s; the nodes have %s; free are %s. "
            "An autoscaler may add nodes; otherwise ask for less, or use fewer workers",
            len(waiting),
            self.num_workers,
            self.worker_class.__name__,
            resources.phrase(waiting[0].config),
            "; ".join(resources.phrase(node) for node in engine.nodes()),
            resources.phrase(engine.free_resources()),
        )

    def _answer(self, call: Call) -> Answer:
        if not self._is_current(call):
            return Answer(call, *engine.outcome(call.reference))
        member = self._members[call.worker]
        unprepared = member.unprepared()
        value, error = engine.outcome(call.reference)
        member.num_calls -= 1
        error = unprepared or error
        if error is not None:
            error = member.reason or error
            self._rebuild(member, error)
            return Answer(call, error=error)
        return Answer(call, value)

    def _rebuild(self, member: Member, error: Exception) -> None:
        name = f"{self.worker_class.__name__} {member.index}"
        cause = engine.cause_of(error)
        if isinstance(cause, FinalWorkerError):
            raise FinalWorkerError(f"{name} cannot continue: {cause}") from cause
        if member.epoch == 0 and (member.has_failed_to_build or engine.is_build_failure(error)):
            raise FinalWorkerError(f"{name} cannot be built:\n{engine.original_text(error)}") from error
        self._restarts.add(name, member.index, error)
        _LOG.warning("%s failed and is restarted (%s)", name, engine.one_line(error))
        engine.kill(member.handle)
        self._members[member.index] = self._create(member.index, self._config_of_restart(member))
        if self.on_loss is not None:
            self.on_loss(member.index, member.epoch)
