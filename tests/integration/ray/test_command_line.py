"""`recollect train` with remote workers, and going on with such a run."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from recollect.api import Agent
from recollect.cli import main
from recollect.runs.directory import RunDirectory
from recollect.runs.writers import read_rows
from recollect.scheme.gradients.g_worker import GWorker
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.usefixtures("ray_cluster")

TINY: Final = (
    *("--set", "actor.hidden_sizes=[8]", "--set", "algo.start_steps=20", "--set", "algo.test_every=0"),
    *("--set", "algo.update_every=10", "--final-episodes", "2", "--num-test-envs", "1", "--threads", "1"),
)
WORKERS: Final = (
    *("--col-workers", "1", "--grad-workers", "1"),
    *("--col-resources", "{num_cpus: 0.1}", "--grad-resources", "{num_cpus: 0.1}"),
)


def recollect(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    code = main(words)
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def test_a_run_with_workers_continues_and_its_agent_acts_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("train", "ddqn", "CartPole-v1", "--preset", "none", "--steps", "100", "--name", "mine", *TINY, *WORKERS)
    out = recollect(words, capsys)
    assert "1 collector · 1 gradient worker" in out
    assert "workers 1/1 · " in out
    run = RunDirectory.open("runs/mine")
    row = read_rows(run.metrics_file)[-1]
    assert (row["workers/number"], row["gradients/workers"]) == ("1", "1")
    assert float(row["workers/0.0/steps_per_s"]) > 0
    recollect(("resume", "runs/mine", "--steps", "160"), capsys)
    assert int(read_rows(run.metrics_file)[-1]["steps"]) >= 160
    agent = Agent.load("runs/mine")
    assert agent.num_steps >= 160
    assert isinstance(agent.scheme.gradients, GWorker)
    agent.close()


def worker_processes() -> set[int]:
    """Ids of the processes of all collecting workers of this process's cluster."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        # It may end meanwhile.
        with suppress(psutil.Error):
            if " ".join(process.cmdline()).startswith("ray::CWorker"):
                found.add(process.pid)
    return found


def test_an_interrupt_leaves_no_process_of_the_workers(ray_cluster: Any, tmp_path: Path) -> None:
    # Shells start what runs in the background with SIGINT ignored, and children inherit that.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    wait_until(lambda: not worker_processes(), "the end of all workers")
    words = ("train", "ddqn", "CartPole-v1", "--preset", "none", "--steps", "1000000", "--name", "mine", *TINY)
    joined = ("--ray-address", ray_cluster.address, "--col-workers", "1", "--col-resources", "{num_cpus: 0.1}")
    run = subprocess.Popen(
        [sys.executable, "-m", "recollect", *words, *joined], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    signal.signal(signal.SIGINT, previous)
    try:
        wait_until(worker_processes, "a worker")
        run.send_signal(signal.SIGINT)
        run.wait(PATIENCE_S)
    finally:
        run.kill()
    wait_until(lambda: not worker_processes(), "the end of all workers")
