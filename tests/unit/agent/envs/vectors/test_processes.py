"""Envs in processes of their own: those that die or hang are replaced, counted, and told of in one line."""

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from recollect.agent.envs import VecEnv
from recollect.errors import ConfigError, EnvError

NUM_ENVS = 3
# As long as a healthy env needs beside a heavy load, and no longer: the test of one that hangs waits for it.
TIMEOUT_S = 5.0


class Fragile(gym.Env[np.ndarray, int]):
    """Tells its process and step; one whose process id is in the file `die` or `hang` does so."""

    observation_space = gym.spaces.Box(0, np.inf, (2,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._time = 0
        self._obey("_in_reset")
        return self._obs(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._obey("")
        self._time += 1
        return self._obs(), 1.0, self._time == 4, False, {}

    def _obey(self, where: str) -> None:
        if self._is_told(f"die{where}"):
            os.kill(os.getpid(), signal.SIGKILL)
        while self._is_told(f"hang{where}"):
            time.sleep(0.01)

    def _is_told(self, name: str) -> bool:
        file = self._folder / name
        return file.exists() and file.read_text() in ("all", str(os.getpid()))

    def _obs(self) -> np.ndarray:
        return np.array([os.getpid(), self._time], np.float64)


@pytest.fixture
def envs(tmp_path: Path) -> Iterator[VecEnv]:
    yield from make_envs(tmp_path)


def make_envs(folder: Path, **options: Any) -> Iterator[VecEnv]:
    given = {"kind": "async", "env_timeout_s": TIMEOUT_S, **options}
    factory, _, _ = VecEnv.create_factory(Fragile, {"folder": str(folder)}, NUM_ENVS, **given)
    found = factory()
    yield found
    found.close()
    assert not [child for child in multiprocessing.active_children() if child.name.startswith("Worker<Watched")]


def step(envs: VecEnv) -> Any:
    return envs.step(np.zeros((NUM_ENVS, 1), np.int64))


@pytest.mark.parametrize("fault", ["die", "hang"])
def test_a_process_that_dies_or_hangs_is_replaced(
    envs: VecEnv, tmp_path: Path, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    pids = envs.reset()[:, 0].astype(int)
    step(envs)
    (tmp_path / fault).write_text(str(pids[1]))
    with caplog.at_level(logging.WARNING):
        lost = step(envs)
    assert lost.cut[:, 0].tolist() == lost.skip[:, 0].tolist() == [False, True, False]
    assert lost.obs[:, 1].tolist() == [2, 0, 2]
    assert lost.obs[1, 0] not in pids
    assert envs.num_failures == 1
    assert len(caplog.messages) == 1
    assert ("exit code -9" if fault == "die" else f"within {TIMEOUT_S:g} s (env_timeout_s)") in caplog.messages[0]
    after = step(envs)
    assert after.next_obs[:, 1].tolist() == [3, 1, 3]
    assert after.skip is None
    assert not Path(f"/proc/{pids[1]}").exists()


def test_a_process_that_dies_between_steps_is_replaced(envs: VecEnv) -> None:
    pids = envs.reset()[:, 0].astype(int)
    os.kill(pids[2], signal.SIGKILL)
    state = envs.state()
    assert isinstance(state, str)
    assert step(envs).cut[:, 0].tolist() == [False, False, True]
    assert envs.num_failures == 1


def test_a_process_that_dies_in_a_reset_ends_no_other_episode(envs: VecEnv, tmp_path: Path) -> None:
    pids = envs.reset()[:, 0].astype(int)
    for _ in range(3):
        step(envs)
    (tmp_path / "die_in_reset").write_text(str(pids[0]))
    ended = step(envs)
    assert ended.terminated.all()
    assert ended.next_obs[:, 1].tolist() == [4, 4, 4]
    assert ended.obs[:, 1].tolist() == [0, 0, 0]
    assert ended.skip is None
    assert not ended.cut.any()
    assert envs.num_failures == 1


def test_repeated_deaths_end_the_run(tmp_path: Path) -> None:
    for envs in make_envs(tmp_path, max_consecutive_failures=2):
        envs.reset()
        (tmp_path / "die_in_reset").write_text("all")
        (tmp_path / "die").write_text("all")
        with pytest.raises(EnvError, match=r"3 times in a row.*exit code -9"):
            step(envs)


def test_the_seeds_of_later_processes_are_their_own(tmp_path: Path) -> None:
    seeds = []
    for envs in make_envs(tmp_path, seed=3):
        pids = envs.reset()[:, 0].astype(int)
        first = envs.vector.get_attr("np_random_seed")
        for pid in pids[:2]:
            os.kill(pid, signal.SIGKILL)
        step(envs)
        seeds = [*first, *envs.vector.get_attr("np_random_seed")[:2]]
    assert len(set(seeds)) == NUM_ENVS + 2


def test_only_processes_can_be_ended() -> None:
    with pytest.raises(ConfigError, match="--vec async"):
        VecEnv.create_factory("CartPole-v1", env_timeout_s=1.0)
