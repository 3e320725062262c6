"""Ray is imported when it is needed; what it says of errors is put in short and in full."""

import importlib
import subprocess
import sys
from typing import Any

import pytest

from recollect.errors import ConfigError
from recollect.scheme.base import engine


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
    assert engine.in_short(error) == expected


def test_the_cause_is_what_the_worker_raised() -> None:
    cause = ValueError("x")
    assert engine.cause_of(TaskError(cause)) is cause
    assert engine.cause_of(cause) is cause
