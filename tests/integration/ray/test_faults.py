"""Workers are killed, raise and hang: the run continues, and nothing that was received is lost or counted twice."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import ray

from recollect import keys
from recollect.errors import WorkerError
from recollect.scheme.base.supervision import Supervision
from recollect.scheme.collection.c_worker_set import CWorkerSet
from tests.integration.ray.parts import TellTaleEnv, make_set

# `test_killed_runs` kills five.
NUM_KILLS = 50 if os.environ.get("RECOLLECT_LONG") else 2

# Far longer than anything takes, however busy the machine is.
DEADLINE_S = 300.0

Make = Callable[..., CWorkerSet]


@pytest.fixture
def make(ray_cluster: None) -> Iterator[Make]:
    """Makes sets of workers that end with the test."""
    made: list[CWorkerSet] = []

    def make_one(*args: Any, **options: Any) -> CWorkerSet:
        made.append(make_set(*args, env=TellTaleEnv, **options))
        return made[-1]

    yield make_one
    for workers in made:
        workers.stop()


def pid_of(workers: CWorkerSet, index: int) -> int:
    """Process of a worker."""
    pid = workers.processes(DEADLINE_S)[index].pid
    assert pid is not None
    return pid


def node_of(workers: CWorkerSet, index: int) -> str:
    """Node of a worker."""
    node = workers.processes(DEADLINE_S)[index].node
    assert node is not None
    return node


def wait_for_end(pids: list[int]) -> None:
    """Wait until processes have ended, which takes a moment after they were told to."""
    deadline = time.monotonic() + DEADLINE_S
    while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def check_streams(workers: CWorkerSet) -> None:
    """Every stored step of every process follows on the one before it, and none is there twice."""
    storage = workers.local_worker().storage
    assert len(storage) == workers.local_worker().num_steps
    for source in storage.sources:
        _check_lanes(storage.get_all_buffer_data(source=source))


def _check_lanes(data: dict[str, Any]) -> None:
    obs, next_obs = data[keys.OBS].numpy(), data[keys.NEXT_OBS].numpy()  # [time, num_envs, pid + episode + step]
    ended = data[keys.NEXT_DONE].numpy()[..., 0] > 0
    assert (next_obs[..., 2] == obs[..., 2] + 1).all()
    for env in range(obs.shape[1]):
        for pid in np.unique(obs[:, env, 0]):
            mine = obs[:, env, 0] == pid
            assert np.flatnonzero(np.diff(mine.astype(int), prepend=0, append=0)).size == 2
            numbers = obs[mine, env, 1] * 1000 + obs[mine, env, 2]
            assert (np.diff(numbers) > 0).all()
            follows = numbers[1:] == numbers[:-1] + 1
            assert (follows | ended[mine, env][:-1]).all()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_killed_workers_lose_nothing_and_count_nothing_twice(make: Make, mode: str) -> None:
    workers = make(
        2, mode=mode, size=200_000, env_kwargs={"step_s": 0.0005}, supervision=Supervision(max_restarts=2 * NUM_KILLS)
    )
    chance = random.Random(1)
    workers.collector.collect()
    num_received = workers.local_worker().num_steps
    for _ in range(NUM_KILLS if mode == "async" else 2):
        victim = chance.choice(workers.indices)
        os.kill(pid_of(workers, victim), signal.SIGKILL)
        num_restarts = workers.num_restarts
        while workers.num_restarts == num_restarts:
            num_received += workers.collector.collect()
            assert workers.local_worker().num_steps == num_received
    while {source[1] for source in workers.local_worker().storage.sources} != {0, 1}:
        workers.collector.collect()
    check_streams(workers)
    assert workers.num_restarts >= (NUM_KILLS if mode == "async" else 2)
    assert sum(report.restarts for report in workers.collector.reports()) == workers.num_restarts
    # Successors take the lanes of those that died: the store is not divided any further.
    assert workers.local_worker().storage.num_lanes == 4


def test_an_env_that_raises_ends_the_run_in_its_own_words(make: Make, tmp_path: Path) -> None:
    workers = make(1, env_kwargs={"folder": str(tmp_path)}, supervision=Supervision(max_restarts=1))
    workers.collector.collect()
    (tmp_path / "raise").touch()
    with pytest.raises(WorkerError, match="the file told me to raise") as raised:
        workers.collector.collect()
    assert "at most 1 are allowed" in str(raised.value)
    # The lines of the worker's traceback.
    assert "in collect_piece" in str(raised.value)
    assert len(workers.local_worker().storage) == 20


def test_a_worker_that_hangs_is_replaced(make: Make, tmp_path: Path) -> None:
    kwargs = {"folder": str(tmp_path), "step_s": 0.001}
    workers = make(2, mode="async", size=200_000, env_kwargs=kwargs, supervision=Supervision(timeout_s=10))
    workers.collector.collect()
    hung = pid_of(workers, 1)
    (tmp_path / "hang").write_text(str(hung))
    deadline = time.monotonic() + DEADLINE_S
    while 1 not in workers.restarts:
        workers.collector.collect()
        assert time.monotonic() < deadline
    assert pid_of(workers, 1) != hung
    wait_for_end([hung])
    check_streams(workers)


def test_stopping_leaves_no_process(make: Make) -> None:
    workers = make(2)
    workers.collector.collect()
    pids = [pid_of(workers, index) for index in (0, 1)]
    workers.stop()
    wait_for_end(pids)


def test_workers_of_a_lost_node_are_built_on_another(make: Make, ray_cluster: Any) -> None:
    lost = ray_cluster.add_node(num_cpus=4, object_store_memory=100 * 1024**2)
    workers = make(2, placement="SPREAD", size=200_000)
    workers.collector.collect()
    head, second = ray.get_runtime_context().get_node_id(), lost.node_id
    assert {node_of(workers, index) for index in (0, 1)} == {head, second}
    ray_cluster.remove_node(lost, allow_graceful=False)
    for _ in range(3):
        assert workers.collector.collect() == 40
    # More than once if Ray has placed a successor on the same node before it knew of its end.
    assert workers.num_restarts >= 1
    assert {node_of(workers, index) for index in (0, 1)} == {head}
    check_streams(workers)
