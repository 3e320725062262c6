"""Runs what is missing: one process per cell and seed, a few at a time, one thread each."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from benchmarks.learn.configs import config_of
from benchmarks.learn.experiments import RECOLLECT, Cell
from benchmarks.learn.records import Record, hash_of, path_of, read
from benchmarks.learn.sb3 import PACKAGES

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "benchmarks" / "results" / "learn"
THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
POLL_S: Final = 0.5

logger = logging.getLogger("benchmarks")


@dataclass(frozen=True)
class Run:
    """One seed of a cell."""

    cell: Cell
    seed: int

    def __str__(self) -> str:
        return f"{self.cell.key} seed {self.seed}"

    def record(self, folder: Path) -> Record | None:
        """Return the run's record, unless its settings have changed since."""
        record = read(folder, self.cell.key, self.seed)
        if record is None or record.config_hash != hash_of(config_of(self.cell, self.seed)):
            return None
        return record


@dataclass
class Progress:
    """What is left to do, and how long it may take."""

    num_runs: int
    num_jobs: int
    seconds_per_step: dict[str, float]
    """By cell, from runs that have ended; others are taken for as slow as these on average."""
    num_ended: int = 0

    def eta_s(self, left: Sequence[Run]) -> float | None:
        """Estimate the time until nothing is left; None before any run has ended."""
        if not self.seconds_per_step:
            return None
        mean = sum(self.seconds_per_step.values()) / len(self.seconds_per_step)
        rates = ((self.seconds_per_step.get(run.cell.key, mean), run.cell.steps) for run in left)
        return sum(rate * steps for rate, steps in rates) / self.num_jobs

    def line(self, run: Run, outcome: str, left: Sequence[Run]) -> str:
        eta = self.eta_s(left)
        rest = f"ETA {timedelta(seconds=round(eta))}" if left and eta is not None else ""
        return f"[{self.num_ended}/{self.num_runs}] {run}: {outcome}  {rest}".rstrip()


class Runner:
    """Does the runs that have no record yet.

    Parameters
    ----------
    folder : Path
        Where the records lie.
    num_jobs : int
        Processes at a time.
    pythons : mapping
        The interpreter for each library that a cell may need.
    """

    def __init__(self, folder: Path, num_jobs: int, pythons: dict[str, Path]) -> None:
        self._folder = folder
        self._num_jobs = num_jobs
        self._pythons = pythons

    def missing(self, runs: Sequence[Run]) -> list[Run]:
        """Return the runs without a record of their current settings."""
        return [run for run in runs if run.record(self._folder) is None]

    def run(self, runs: Sequence[Run]) -> list[Run]:
        """Do what is missing, and return the runs that failed."""
        waiting = self.missing(runs)
        progress = Progress(len(waiting), self._num_jobs, self._known_rates(runs))
        logger.info("%d of %d runs have their record already", len(runs) - len(waiting), len(runs))
        running: dict[subprocess.Popen[bytes], Run] = {}
        failed: list[Run] = []
        try:
            while waiting or running:
                while waiting and len(running) < self._num_jobs:
                    run = waiting.pop(0)
                    running[self._start(run)] = run
                failed += self._reap(running, waiting, progress)
                time.sleep(POLL_S)
        finally:
            for process in running:
                process.terminate()
        return failed

    def _start(self, run: Run) -> "subprocess.Popen[bytes]":
        self._folder.mkdir(parents=True, exist_ok=True)
        module = ["-m", "benchmarks.learn.worker", run.cell.key, str(run.seed), str(self._folder)]
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
        with self._log(run).open("wb") as log:
            return subprocess.Popen(
                [str(self._pythons[run.cell.library]), *module],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _reap(self, running: "dict[subprocess.Popen[bytes], Run]", waiting: list[Run], progress: Progress) -> list[Run]:
        """Report the processes that have ended; return the runs of those that failed."""
        failed = []
        for process in [process for process in running if process.poll() is not None]:
            run = running.pop(process)
            progress.num_ended += 1
            record = run.record(self._folder) if process.returncode == 0 else None
            if record is None:
                failed.append(run)
                outcome = f"failed with exit code {process.returncode}; see {self._log(run)}"
            else:
                progress.seconds_per_step[run.cell.key] = record.elapsed_s / run.cell.steps
                outcome = f"return {record.evaluation.mean_return:,.1f} in {record.elapsed_s:,.0f} s"
                self._log(run).unlink()
            logger.info("%s", progress.line(run, outcome, [*running.values(), *waiting]))
        return failed

    def _known_rates(self, runs: Sequence[Run]) -> dict[str, float]:
        records = ((run, read(self._folder, run.cell.key, run.seed)) for run in runs)
        return {run.cell.key: record.elapsed_s / run.cell.steps for run, record in records if record is not None}

    def _log(self, run: Run) -> Path:
        return path_of(self._folder, run.cell.key, run.seed).with_suffix(".log")


def find_pythons(peer_python: Path | None) -> dict[str, Path | None]:
    """Return the interpreter for each library: this one for ours, one with Stable-Baselines3 for the peer."""
    candidates = [Path(sys.executable), ROOT / ".venv-bench" / "bin" / "python"]
    candidates = candidates if peer_python is None else [peer_python]
    able = (python for python in candidates if _has_sb3(python))
    return {RECOLLECT: Path(sys.executable), "sb3": next(able, None)}


def _has_sb3(python: Path) -> bool:
    code = f"import importlib.util as u, sys; sys.exit(None in map(u.find_spec, {tuple(PACKAGES)}))"
    return python.exists() and subprocess.run([str(python), "-c", code], check=False).returncode == 0
