"""Stands in for Ray: workers are objects of this process, and what is slow, dead or stuck is as a test says."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from recollect.scheme.base import engine
from recollect.scheme.base.worker import Worker


class LostError(Exception):
    """What is heard of a worker that died."""


class Reference:
    """A call that is run when somebody looks for its result."""

    def __init__(self, handle: "Handle", run: Callable[[], Any], is_control: bool = False) -> None:
        self.handle, self.is_control = handle, is_control
        self._run = run
        self._outcome: engine.Outcome | None = None

    def outcome(self) -> engine.Outcome:
        if self._outcome is None:
            self._outcome = self._find()
        return self._outcome

    def _find(self) -> engine.Outcome:
        if self.handle.is_dead:
            return engine.Outcome(error=LostError("the worker is gone"))
        try:
            return engine.Outcome(self._run())
        except Exception as error:  # noqa: BLE001
            return engine.Outcome(error=error)


def throw(error: Exception) -> None:
    raise error


class Method:
    def __init__(self, handle: "Handle", name: str, is_control: bool = False) -> None:
        self._handle, self._name, self._is_control = handle, name, is_control

    def options(self, concurrency_group: str) -> "Method":
        assert concurrency_group == engine.CONTROL_GROUP
        return Method(self._handle, self._name, True)

    def remote(self, *args: Any) -> Reference:
        reference = Reference(self._handle, lambda: getattr(self._handle.worker, self._name)(*args), self._is_control)
        if self._is_control:
            reference.outcome()
        else:
            self._handle.calls.append((self._name, args))
        return reference


class Handle:
    """A worker; slow ones come last, a stuck one has only a heartbeat, one that is not placed not even that."""

    def __init__(self, worker_class: type, params: dict[str, Any], options: dict[str, Any]) -> None:
        self.params, self.options = params, options
        self.worker: Any = None
        self._build = Reference(self, lambda: None)
        try:
            self.worker = worker_class(**params)
        except Exception as error:  # noqa: BLE001
            self._build = Reference(self, lambda error=error: throw(error))
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.is_dead = self.is_slow = self.is_stuck = False
        self.is_placed = True

    @property
    def build(self) -> "Handle":
        return self

    def remote(self) -> Reference:
        return self._build

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)


class FakeEngine:
    """All handles that were made, oldest first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.handles: list[Handle] = []
        for name in ("ready", "all_ready", "outcome", "kill", "put"):
            monkeypatch.setattr(engine, name, getattr(self, name))
        monkeypatch.setattr(engine, "is_loss", lambda error: isinstance(error, LostError))
        monkeypatch.setattr(engine, "connect", lambda *args: False)
        monkeypatch.setattr(engine, "is_connected", lambda: True)
        monkeypatch.setattr(engine, "nodes", lambda: [{"CPU": 4.0, "memory": 1e9}])
        monkeypatch.setattr(engine, "free_resources", lambda: {"CPU": 4.0, "memory": 1e9})
        monkeypatch.setattr(Worker, "as_remote", classmethod(lambda cls, **options: _Class(self, cls, options)))

    def ready(self, references: Sequence[Reference], timeout_s: float) -> list[Reference]:
        ended = [each for each in references if _has_ended(each)]
        fast = [each for each in ended if not each.handle.is_slow]
        return fast or ended

    def all_ready(self, references: Sequence[Reference], timeout_s: float) -> None:
        for reference in references:
            reference.outcome()

    def outcome(self, reference: Reference) -> engine.Outcome:
        return reference.outcome()

    def kill(self, handle: Handle) -> None:
        handle.is_dead = True

    def put(self, value: Any) -> Any:
        return value


def _has_ended(reference: Reference) -> bool:
    handle = reference.handle
    return handle.is_dead or (handle.is_placed and (reference.is_control or not handle.is_stuck))


class _Class:
    def __init__(self, fake: FakeEngine, worker_class: type, options: dict[str, Any]) -> None:
        self._fake, self._class, self._options = fake, worker_class, options

    def remote(self, **params: Any) -> Handle:
        handle = Handle(self._class, params, self._options)
        self._fake.handles.append(handle)
        return handle
