"""Envs in processes of their own end with the run, whatever they are doing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from recollect.agent.envs import VecEnv
from tests.unit.agent.envs.toys import Toy
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
ACTIONS = np.zeros((2, 1), np.int64)


@pytest.fixture
def envs() -> VecEnv:
    made = VecEnv.create_factory(Toy, None, 2, kind="async")[0]()
    made.reset()
    return made


def processes(envs: VecEnv) -> list[object]:
    return envs.vector.processes  # type: ignore[attr-defined]


def test_close_ends_the_processes_and_may_be_repeated(envs: VecEnv) -> None:
    envs.close()
    envs.close()
    assert not any(process.is_alive() for process in processes(envs))  # type: ignore[attr-defined]


def test_close_after_a_process_was_killed(envs: VecEnv) -> None:
    victim = processes(envs)[1]
    os.kill(victim.pid, signal.SIGKILL)  # type: ignore[attr-defined]
    victim.join()  # type: ignore[attr-defined]
    envs.close()
    assert not any(process.is_alive() for process in processes(envs))  # type: ignore[attr-defined]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_of_others_are_left_to_the_parent(envs: VecEnv, number: signal.Signals) -> None:
    pids = [str(process.pid) for process in processes(envs)]  # type: ignore[attr-defined]
    subprocess.run(["kill", f"-{number:d}", *pids], check=True)
    assert envs.step(ACTIONS).reward.shape == (2, 1)
    envs.close()


@pytest.mark.filterwarnings("ignore:.*Calling `close` while waiting")
def test_close_in_the_middle_of_a_step(envs: VecEnv) -> None:
    """As after Ctrl-C while waiting for the envs."""
    envs.vector.step_async(ACTIONS[:, 0])  # type: ignore[attr-defined]
    envs.close()
    assert not any(process.is_alive() for process in processes(envs))  # type: ignore[attr-defined]


class Hanging(Toy):
    """Never returns from a step."""

    def step(self, action: Any) -> Any:
        while True:
            time.sleep(1)


@pytest.mark.filterwarnings("ignore:.*Calling `close` while waiting")
def test_close_ends_processes_that_hang() -> None:
    envs = VecEnv.create_factory(Hanging, None, 2, kind="async")[0]()
    envs.reset()
    envs.vector.step_async(ACTIONS[:, 0])  # type: ignore[attr-defined]
    envs.close()
    assert not any(process.is_alive() for process in processes(envs))  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:.*Calling `close` while waiting")
def test_close_replaces_no_process(envs: VecEnv, caplog: pytest.LogCaptureFixture) -> None:
    """As after Ctrl-C while a process that was killed is waited for."""
    pids = [process.pid for process in processes(envs)]  # type: ignore[attr-defined]
    os.kill(pids[1], signal.SIGKILL)
    processes(envs)[1].join()  # type: ignore[attr-defined]
    envs.vector.step_async(ACTIONS[:, 0])  # type: ignore[attr-defined]
    envs.close()
    assert [process.pid for process in processes(envs)] == pids  # type: ignore[attr-defined]
    assert not any(process.is_alive() for process in processes(envs))  # type: ignore[attr-defined]
    assert not caplog.messages


def hang() -> None:
    """Tell the ids of the processes of envs, and wait for ever for a step of theirs."""
    envs = VecEnv.create_factory(Hanging, None, 2, kind="async")[0]()
    envs.reset()
    pids = [str(process.pid) for process in processes(envs)]  # type: ignore[attr-defined]
    sys.stdout.write(" ".join(pids) + "\n")
    sys.stdout.flush()
    envs.step(ACTIONS)


def test_processes_that_hang_end_with_their_parent() -> None:
    command = [sys.executable, "-c", f"from {__name__} import hang; hang()"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
    assert len(children) == 2
    _, left = psutil.wait_procs(children, timeout=PATIENCE_S)
    for child in left:
        child.kill()
    assert not left


@pytest.mark.parametrize("is_deleted", [False, True])
def test_envs_that_nobody_closes_do_not_keep_their_parent_from_ending(is_deleted: bool) -> None:
    factory = "VecEnv.create_factory('CartPole-v1', None, 2, kind='async')[0]"
    words = f"from recollect.agent.envs import VecEnv; envs = {factory}()" + ("; del envs" if is_deleted else "")
    subprocess.run([sys.executable, "-c", words], cwd=ROOT, check=True, timeout=PATIENCE_S)


INTERRUPTED = """
import logging, os, signal, threading
from recollect.agent.envs import VecEnv

to_come = [signal.SIGINT]

def interrupt():
    if to_come:
        os.kill(os.getpid(), to_come.pop())

os.register_at_fork(after_in_parent=interrupt)
try:
    VecEnv.create_factory("CartPole-v1", {}, 2, kind="async")[0]().reset()
    print("the interrupt is lost")
except KeyboardInterrupt:
    print("interrupted")
asking = threading.Thread(target=logging.getLogger("other").isEnabledFor, args=(5,), daemon=True)
asking.start()
asking.join(10)
print("stuck" if asking.is_alive() else "free", flush=True)
os._exit(0)
"""


def test_an_interrupt_in_the_middle_of_a_fork_is_neither_lost_nor_leaves_a_lock() -> None:
    words = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT, check=False)
    assert done.stdout.split() == ["interrupted", "free"], done.stderr
