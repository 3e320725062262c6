"""Ray is imported when it is needed; what it says of errors is put in short and in full."""

import importlib
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from recollect.errors import ConfigError
from recollect.scheme.base import engine


@pytest.mark.slow
def test_modules_of_workers_do_not_import_ray() -> None:
    code = (
        "import sys, recollect.scheme.config, recollect.scheme.collection.c_worker_set; assert 'ray' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(ConfigError, match=r'pip install "recollect\[ray\]"'):
        engine.connect()


@pytest.mark.parametrize("error", [ValueError("Invalid address format: nonsense"), TypeError("runtime_env")])
def test_what_ray_does_not_take_is_refused_and_nothing_of_it_left(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    ray = Mock()
    ray.is_initialized.return_value = False
    ray.init.side_effect = error
    monkeypatch.setattr(engine, "require_ray", lambda: ray)
    with pytest.raises(ConfigError, match=f"does not take the address 'nonsense'.*{error}"):
        engine.connect("nonsense", {"pip": 5})
    ray.shutdown.assert_called_once()


class TaskError(Exception):
    def __init__(self, cause: Exception) -> None:
        super().__init__("a long traceback\nof many lines")
        self.cause = cause


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TaskError(ValueError("first line\nsecond line")), "ValueError: first line"),
        (TaskError(KeyError()), "KeyError: no message"),
        (RuntimeError("The actor died. It was killed.\nMore."), "The actor died"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_errors_in_short(error: Exception, expected: str) -> None:
    assert engine.one_line(error) == expected


def test_the_cause_is_what_the_worker_raised() -> None:
    cause = ValueError("x")
    assert engine.cause_of(TaskError(cause)) is cause
    assert engine.cause_of(cause) is cause


def test_processes_that_ray_starts_are_deaf_to_signals_that_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """They inherit what is blocked here."""
    blocked: list[set[int]] = []

    def start(**options: object) -> None:
        blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))

    context = SimpleNamespace(gcs_address="here")
    ray = SimpleNamespace(is_initialized=lambda: False, init=start, get_runtime_context=lambda: context)
    monkeypatch.setattr(engine, "require_ray", lambda: ray)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert engine.connect()
    assert blocked[0] >= {signal.SIGTERM, signal.SIGHUP}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert signal.SIGTERM not in before
