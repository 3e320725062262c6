"""Training with several seeds, each in a process of its own."""

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from recollect.cli.seeds_display import SeedsDisplay
from recollect.cli.session import EVALUATION_FILE
from recollect.cli.summary import free_path, say, stem_of
from recollect.config import RunConfig
from recollect.interrupts import Interrupts, exit_code, hang_ups
from recollect.runs.plots import plot_runs

# What shells add to the number of the signal that ended a process.
_BY_SIGNAL: Final = 128
_THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def train_seeds(config: RunConfig, options: argparse.Namespace) -> int:
    """Train with several seeds, some at a time, and draw their curve; returns an exit code."""
    stem = options.name or stem_of(config)
    seeds = range(config.seed, config.seed + options.seeds)
    folders = [free_path(options.out, f"{stem}-{seed}") for seed in seeds]
    with SeedsDisplay([folder.name for folder in folders]) as display:
        trainings = _Trainings(display)
        pool = ThreadPoolExecutor(options.jobs)
        futures = [
            pool.submit(trainings.run, [*options.words, *_changes(config, seed, folder)], folder.name)
            for seed, folder in zip(seeds, folders, strict=True)
        ]
        try:
            codes = [future.result() for future in futures]
        except Interrupts as interrupt:
            trainings.interrupt()
            _wait(pool, trainings)
            return exit_code(interrupt)
    _report(folders, free_path(options.out, stem, ".png"))
    return max(codes)


def _wait(pool: ThreadPoolExecutor, trainings: "_Trainings") -> None:
    """Wait until all trainings have saved a checkpoint; a second interrupt is forwarded too."""
    while True:
        try:
            pool.shutdown()
        except Interrupts:
            trainings.interrupt(again=True)
        else:
            return


def _changes(config: RunConfig, seed: int, folder: Path) -> list[str]:
    """Arguments of one seed, appended to the user's own so that they take precedence."""
    threads = str(config.threads or 1)
    return ["--seeds", "1", "--seed", str(seed), "--threads", threads, "--name", folder.name]


class _Trainings:
    """Trainings in processes of their own, which receive Ctrl-C from here only, and so once each time."""

    def __init__(self, display: SeedsDisplay) -> None:
        self._display = display
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._is_over = False

    def run(self, arguments: Sequence[str], name: str) -> int:
        """Train in a process and show its output."""
        process = self._start(arguments)
        if process is None:
            return exit_code(KeyboardInterrupt())
        for line in process.stdout or ():
            self._show(name, line.rstrip("\n"))
        code = process.wait()
        # One that has just ended may have no handler left for the interrupt that was forwarded to all.
        if code < 0 and not (self._is_over and code == -signal.SIGINT):
            self._show(name, f"error: the process was ended by signal {-code}")
        return code if code >= 0 else _BY_SIGNAL - code

    def interrupt(self, *, again: bool = False) -> None:
        """Forward Ctrl-C to the running trainings, which then save a checkpoint; no other one is started.

        A second one ends them at once, and so is forwarded only where it is one.
        """
        with self._lock:
            if self._is_over and not again:
                return
            self._is_over = True
            for process in self._processes:
                process.send_signal(signal.SIGINT)

    def _show(self, name: str, line: str) -> None:
        try:
            with hang_ups():
                self._display.tell(name, line)
        except Interrupts:
            # Nobody sees it any more. What the trainings print while they end is still read, or they would wait.
            self.interrupt()

    def _start(self, arguments: Sequence[str]) -> "subprocess.Popen[str] | None":
        with self._lock:
            if self._is_over:
                return None
            process = subprocess.Popen(
                [sys.executable, "-m", "recollect", "train", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=os.environ | dict.fromkeys(_THREAD_VARIABLES, "1"),
                process_group=0,  # the terminal signals a group; a second signal would break the saving off
            )
            self._processes.append(process)
            return process


def _report(folders: Sequence[Path], out: Path) -> None:
    """Print the mean over seeds, and plot their curve."""
    done = [folder for folder in folders if (folder / EVALUATION_FILE).is_file()]
    if not done:
        return
    means = [json.loads((folder / EVALUATION_FILE).read_text())["mean"] for folder in done]
    spread = f" ± {statistics.stdev(means) / math.sqrt(len(means)):,.1f}" if len(means) > 1 else ""
    curve, _ = plot_runs(done, out)
    mean = f"{statistics.fmean(means):,.1f}".replace("-", "−")
    say(f"mean over {len(means)} of {len(folders)} seeds: {mean}{spread}   curve: {curve}")
