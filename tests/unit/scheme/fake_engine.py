"""Stands in for Ray: workers are objects of this process, and what is slow, dead or stuck is as a test says."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from recollect.scheme.base import engine
from recollect.scheme.base.labels import labels_as_resources
from recollect.scheme.base.worker import Worker


class LostError(Exception):
    """What is heard of a worker that died."""


class Reference:
    """A call that is run when somebody looks for its result."""

    def __init__(self, handle: "Handle", run: Callable[[], Any]) -> None:
        self.handle = handle
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


class Method:
    def __init__(self, handle: "Handle", name: str, is_control: bool = False) -> None:
        self._handle, self._name, self._is_control = handle, name, is_control

    def options(self, concurrency_group: str) -> "Method":
        assert concurrency_group == engine.CONTROL_GROUP
        return Method(self._handle, self._name, True)

    def remote(self, *args: Any) -> Reference:
        reference = Reference(self._handle, lambda: getattr(self._handle.worker, self._name)(*args))
        if self._is_control:
            reference.outcome()
        else:
            self._handle.calls.append((self._name, args))
        return reference


class Handle:
    """A worker; it is slow if all others come first, and stuck if nothing comes from it."""

    def __init__(self, worker: Any, params: dict[str, Any], options: dict[str, Any]) -> None:
        self.worker, self.params, self.options = worker, params, options
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.is_dead = self.is_slow = self.is_stuck = False

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
        labels = labels_as_resources({"pool": "collect"})
        monkeypatch.setattr(engine, "nodes", lambda: [{"CPU": 4.0, "memory": 1e9, **labels}])
        monkeypatch.setattr(engine, "free_resources", lambda: {"CPU": 4.0, "memory": 1e9})
        monkeypatch.setattr(Worker, "as_remote", classmethod(lambda cls, **options: _Class(self, cls, options)))

    def ready(self, references: Sequence[Reference], timeout_s: float) -> list[Reference]:
        waiting = [each for each in references if not each.handle.is_stuck or each.handle.is_dead]
        fast = [each for each in waiting if not each.handle.is_slow]
        return fast or waiting

    def all_ready(self, references: Sequence[Reference], timeout_s: float) -> None:
        for reference in references:
            reference.outcome()

    def outcome(self, reference: Reference) -> engine.Outcome:
        return reference.outcome()

    def kill(self, handle: Handle) -> None:
        handle.is_dead = True

    def put(self, value: Any) -> Any:
        return value


class _Class:
    def __init__(self, fake: FakeEngine, worker_class: type, options: dict[str, Any]) -> None:
        self._fake, self._class, self._options = fake, worker_class, options

    def remote(self, **params: Any) -> Handle:
        handle = Handle(self._class(**params), params, self._options)
        self._fake.handles.append(handle)
        return handle
