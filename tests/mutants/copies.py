"""Copies of package and tests that mutants are planted into, and a pool of them that works in parallel."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar

from tests.mutants.mutant import PACKAGE, ROOT, Mutant

_COPIED: Final = (PACKAGE, "tests", "pyproject.toml")
_FRESH_CACHE: Final = "fresh_kernels"
_TIMEOUT_S: Final = 900
_FAILED: Final = 1  # pytest's status when tests ran and some failed
_TIMED_OUT: Final = 1000

Job = TypeVar("Job")
Result = TypeVar("Result")


class Copy:
    """A copy of package and tests in which one file at a time is changed.

    Compiled kernels are copied too, with the dates that say which source they belong to.

    Parameters
    ----------
    folder : Path
        Where the copy is made.
    source : Path
        What is copied.
    """

    def __init__(self, folder: Path, source: Path = ROOT) -> None:
        self.folder = folder
        folder.mkdir()
        for name in _COPIED:
            if (source / name).is_dir():
                shutil.copytree(source / name, folder / name, ignore=shutil.ignore_patterns("*.pyc"))
            else:
                shutil.copy2(source / name, folder)

    def compile_kernels(self) -> bool:
        """Compile what is not compiled yet; returns whether that worked."""
        return self._run(["-c", f"import {PACKAGE}.agent.storages"]) == 0

    def test(self, tests: tuple[str, ...], *, is_compiled: bool = True) -> int:
        """Run tests until the first failure and return pytest's status; `is_compiled` uses the cached kernels."""
        arguments = ["-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
        return self._run(arguments, {} if is_compiled else {"NUMBA_CACHE_DIR": str(self.folder / _FRESH_CACHE)})

    def test_mutant(self, mutant: Mutant) -> int:
        """Plant a mutant, run its tests and take it out again; the file keeps its date, and so the cache its truth."""
        path = self.folder / PACKAGE / mutant.file
        source, times = path.read_text(), path.stat()
        try:
            _write(path, source.replace(mutant.old, mutant.new), times)
            return self.test(mutant.tests, is_compiled=not mutant.has_kernels)
        finally:
            _write(path, source, times)
            shutil.rmtree(self.folder / _FRESH_CACHE, ignore_errors=True)

    def _run(self, arguments: list[str], variables: dict[str, str] | None = None) -> int:
        environment = os.environ | {
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "RECOLLECT_PROGRAMS": "small",
        }
        try:
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=self.folder,
                env=environment | (variables or {}),
                capture_output=True,
                check=False,
                timeout=_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return _TIMED_OUT
        return done.returncode


class CopyPool:
    """Several copies that take turns at jobs, each one job at a time.

    Parameters
    ----------
    folder : Path
        Where the copies are made.
    num_copies : int
        How many work side by side.
    """

    def __init__(self, folder: Path, num_copies: int) -> None:
        first = Copy(folder / "copy_0")
        self.is_compiled = first.compile_kernels()
        self._idle: SimpleQueue[Copy] = SimpleQueue()
        self._idle.put(first)
        for number in range(1, num_copies):
            self._idle.put(Copy(folder / f"copy_{number}", first.folder))
        self._num_copies = num_copies

    def run(self, work: Callable[[Copy, Job], Result], jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        """Do the work of each job with a copy; yields jobs with their results in the order in which they end."""
        with ThreadPoolExecutor(self._num_copies) as threads:
            futures = {threads.submit(self._with_copy, work, job): job for job in jobs}
            for future in as_completed(futures):
                yield futures[future], future.result()

    def _with_copy(self, work: Callable[[Copy, Job], Result], job: Job) -> Result:
        copy = self._idle.get()
        try:
            return work(copy, job)
        finally:
            self._idle.put(copy)


def verdict(status: int) -> str:
    """Say what a status of pytest means for a mutant."""
    if status < 0:
        return "killed (crash)"
    known = {0: "SURVIVED", _FAILED: "killed", _TIMED_OUT: "killed (timeout)"}
    return known.get(status, f"broken (status {status})")


def _write(path: Path, text: str, times: os.stat_result) -> None:
    path.write_text(text)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
