"""What happens to envs that live in processes of their own."""

import os
import signal

import numpy as np
import pytest

from recollect.agent.envs import VecEnv
from recollect.errors import EnvError
from tests.unit.agent.envs.toys import Toy

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


@pytest.mark.parametrize("call", ["step", "reset"])
def test_killed_process_is_a_clear_error(envs: VecEnv, call: str) -> None:
    victim = processes(envs)[1]
    os.kill(victim.pid, signal.SIGKILL)  # type: ignore[attr-defined]
    victim.join()  # type: ignore[attr-defined]
    with pytest.raises(EnvError, match="the process of an env is gone"):
        envs.step(ACTIONS) if call == "step" else envs.reset()
    envs.close()
    assert not any(process.is_alive() for process in processes(envs))  # type: ignore[attr-defined]


def test_interrupt_is_left_to_the_parent(envs: VecEnv) -> None:
    for process in processes(envs):
        os.kill(process.pid, signal.SIGINT)  # type: ignore[attr-defined]
    assert envs.step(ACTIONS).reward.shape == (2, 1)
    envs.close()


@pytest.mark.filterwarnings("ignore:.*Calling `close` while waiting")
def test_close_in_the_middle_of_a_step(envs: VecEnv) -> None:
    """As after Ctrl-C while waiting for the envs."""
    envs.vector.step_async(ACTIONS[:, 0])  # type: ignore[attr-defined]
    envs.close()
    assert not any(process.is_alive() for process in processes(envs))  # type: ignore[attr-defined]
