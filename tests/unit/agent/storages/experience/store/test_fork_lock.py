"""A process may be forked while other threads use storages: neither it nor its parent hangs, and nothing is torn."""

import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from recollect import keys
from recollect.agent.storages import PERBuffer
from recollect.agent.storages.experience.store.fork_lock import make_lock
from recollect.agent.storages.off_policy.nstep_replay_storage import NStepReplayStorage
from tests.zygote import leave

pytestmark = pytest.mark.slow

PATIENCE_S = 30
NUM_FORKS = 8


@contextmanager
def busy(use: Callable[[], object], num_threads: int = 1) -> Iterator[None]:
    """Have other threads do something over and over again."""
    is_over, has_begun = threading.Event(), threading.Event()

    def work() -> None:
        while not is_over.is_set():
            use()
            has_begun.set()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(num_threads)]
    for thread in threads:
        thread.start()
    assert has_begun.wait(PATIENCE_S)
    yield
    is_over.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)


def forked(use: Callable[[], Any]) -> None:
    """Fork a process, have it do something, and see that it ends."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            use()
            code = 0
        finally:
            leave(code)
    handle = os.pidfd_open(child)
    has_ended = bool(select.select([handle], [], [], PATIENCE_S)[0])
    os.close(handle)
    if not has_ended:
        os.kill(child, 9)
    status = os.waitpid(child, 0)[1]
    assert has_ended, "the forked process hangs"
    assert os.waitstatus_to_exitcode(status) == 0


def steps(num_steps: int) -> dict[str, np.ndarray]:
    """Steps whose every value is the same number, so that torn ones show."""
    numbers = np.random.default_rng().integers(1000, size=(num_steps, 2, 1)).astype(np.float32)
    wide = np.repeat(numbers, 64, -1)
    flags = np.zeros((num_steps, 2, 1), np.float32)
    sample = {keys.OBS: wide, keys.NEXT_OBS: wide, keys.ACTION: numbers, keys.REWARD: numbers}
    return {**sample, keys.DONE: flags, keys.NEXT_DONE: flags + 1, keys.NEXT_TERMINATED: flags}


def test_a_process_forked_while_a_buffer_is_used_can_use_it() -> None:
    buffer = PERBuffer.standalone(64, num_envs=2, alpha=0.6, seed=1)
    buffer.insert_data_slice(steps(40))

    def use() -> None:
        buffer.insert_data_slice(steps(16))
        batch = buffer.sample(64)
        buffer.update_priorities(batch, np.ones(64))

    def check() -> None:
        use()
        batch = buffer.sample(64)
        assert (batch[keys.OBS] == batch[keys.REWARD]).all()

    with busy(use, num_threads=2):
        for _ in range(NUM_FORKS):
            forked(check)


@pytest.mark.parametrize("num_workers", [0, 3])
def test_a_process_forked_while_batches_are_prefetched_can_continue(num_workers: int) -> None:
    spaces = gym.spaces.Box(-1, 1, (512,)), gym.spaces.Box(-1, 1, (1,))
    storage = NStepReplayStorage(
        *spaces, storage_size=400, num_envs=2, batch_size=64, fetch_every=1000, num_workers=num_workers, seed=1
    )
    obs, ends = np.ones((2, 512), np.float32), np.zeros(2, bool)

    def use() -> None:
        storage.add(obs, obs[:, :1], ends.astype(np.float32), ends, ends, {}, obs)
        for _ in range(5):
            storage.sample()

    with busy(use):
        for _ in range(NUM_FORKS):
            forked(use)
    storage.close()


def test_locks_that_threads_take_in_any_order_do_not_stop_a_fork() -> None:
    left, right = make_lock(), make_lock()

    def use() -> None:
        with left, right:
            pass

    def both() -> None:
        assert left.acquire(timeout=PATIENCE_S)
        assert right.acquire(timeout=PATIENCE_S)

    with busy(use):
        for _ in range(NUM_FORKS):
            forked(both)
            with left:  # re-entrant, also here
                forked(both)
