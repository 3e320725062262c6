"""Collector on Ray: exactly what workers saw, straggling, hot changes, workers that join and leave."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch

from recollect import keys
from recollect.agent.envs import VecEnv
from recollect.errors import ConfigError
from recollect.scheme.base import worker_set
from recollect.scheme.base.commands import ReplaceComponent, SetAlgorithmParameter, SetStorageParameter
from recollect.scheme.base.supervision import Supervision
from recollect.scheme.collection.c_worker_set import CWorkerSet
from recollect.scheme.weights import pack_weights
from tests.integration.ray.parts import ImageEnv, TellTaleEnv, learn, make_factory, make_set
from tests.masked_envs import Gates
from tests.schemes import make_scheme

ROOT = Path(__file__).parents[3]

Make = Callable[..., CWorkerSet]


@pytest.fixture
def make(ray_cluster: None) -> Iterator[Make]:
    """Makes sets of workers that end with the test."""
    made: list[CWorkerSet] = []

    def make_one(*args: Any, **options: Any) -> CWorkerSet:
        made.append(make_set(*args, **options))
        return made[-1]

    yield make_one
    for workers in made:
        workers.stop()


def stored(workers: CWorkerSet, source: Any) -> dict[str, Any]:
    data: dict[str, Any] = workers.local_worker().storage.get_all_buffer_data(source=source)
    return data


def sources(workers: CWorkerSet) -> list[Any]:
    found: list[Any] = workers.local_worker().storage.sources
    return found


def collect_until(workers: CWorkerSet, is_enough: Callable[[], bool]) -> None:
    """Collect until it is enough, which takes longer if a worker begins later than the others."""
    deadline = time.monotonic() + 300
    while not is_enough():
        workers.collector.collect()
        assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("algo", "storage", "options"),
    [
        ("ddqn", "per", {"storage_options": {"n_step": 3, "alpha": 0.6, "epsilon": 0.01}}),
        ("sac", "ere", {"actor_options": {"normalise_observations": True, "normalise_rewards": True}}),
        ("ppo", "gae", {"size": 10, "actor_options": {"normalise_observations": True}}),
        ("ddqn", "replay", {"actor_options": {"memory": "gru"}, "compress_data_to_send": True}),
    ],
)
def test_one_synchronous_worker_gives_the_same_batches_as_none(
    make: Make, algo: str, storage: str, options: dict[str, Any]
) -> None:
    local, remote = make(0, algo, storage, **options), make(1, algo, storage, **options)
    num_batches = 0
    for _ in range(8):
        batches = []
        for workers in (local, remote):
            worker = workers.local_worker()
            if worker.algo.is_on_policy:
                worker.storage.reset()
            workers.collector.collect()
            batches.append(learn(worker))
        assert len(batches[0]) == len(batches[1])
        for left, right in zip(*batches, strict=True):
            assert left.keys() == right.keys()
            assert all(torch.equal(left[key], right[key]) for key in left)
        num_batches += len(batches[0])
    assert num_batches >= 10
    assert local.local_worker().num_steps == remote.local_worker().num_steps == 160
    weights = [workers.local_worker().actor.state_dict() for workers in (local, remote)]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())


def test_masks_travel_with_the_observations(make: Make) -> None:
    workers = make(1, "ddqn", "replay", env=Gates)
    for _ in range(6):
        workers.collector.collect()
    data = stored(workers, (0, 0, 0))
    taken = data[keys.OBS][keys.ACTION_MASK].gather(-1, data[keys.ACTION])  # [time, num_envs, 1]
    assert taken.numel() >= 100
    assert taken.all()
    assert workers.collector.num_env_failures == 0


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_store_is_the_union_of_what_workers_saw(make: Make, mode: str) -> None:
    options = {"mode": mode, "size": 100_000, "numbers": {"start_steps": 10**6}}
    workers = make(2, "ddqn", "nstep", env=TellTaleEnv, elastic=False, **options)
    collect_until(workers, lambda: len(sources(workers)) == 2)
    for _ in range(5):
        workers.collector.collect()
    num_steps, pids = 0, set()
    for index in (0, 1):
        found = stored(workers, (0, index, 0))
        time_steps = len(found[keys.REWARD])
        expected = _alone(workers, index, time_steps)
        for key in found:
            left, right = found[key].clone(), expected[key].clone()
            if key in (keys.OBS, keys.NEXT_OBS):
                pids |= set(left[..., 0].unique().tolist())
                left[..., 0] = right[..., 0] = 0
            assert torch.equal(left, right), key
        num_steps += time_steps * 2
    assert num_steps == workers.local_worker().num_steps == len(workers.local_worker().storage)
    assert len(pids) == 2


def _alone(workers: CWorkerSet, index: int, num_steps: int) -> dict[str, Any]:
    """What the worker sees if it fills a storage of its own."""
    worker = workers.worker_class(**{**workers.worker_params, "index_worker": index, "device": "cpu"})  # type: ignore[arg-type]
    worker.collect_train_data(num_steps)  # type: ignore[attr-defined]
    found: dict[str, Any] = worker.storage.get_all_buffer_data()  # type: ignore[attr-defined]
    return found


def test_large_arrays_are_read_where_the_object_store_has_them(make: Make) -> None:
    workers = make(1, "ddqn", "replay", env=ImageEnv, size=100)
    weights = ray.put(pack_weights(workers.local_worker().actor))
    new = ray.get(workers.handle(0).collect_piece.remote(weights, 1, 0))
    num_images = (new.num_steps + 1) * workers.local_worker().envs_train.num_envs
    assert new.num_bytes > 200_000
    assert not new.data.flags.owndata
    assert not new.data.flags.writeable
    assert new.num_bytes < 1.2 * num_images * ImageEnv.observation_space.sample().nbytes


MY_ENVS = """
from gymnasium.envs.classic_control import CartPoleEnv

class MyEnv(CartPoleEnv):
    pass
"""
JOINING = """
import sys
from recollect.scheme.base import engine
from tests.integration.ray.parts import make_set
import my_envs

address, folder = sys.argv[1:]
assert engine.connect(address, {"py_modules": [folder]})
workers = make_set(1, env=my_envs.MyEnv)
assert workers.collector.collect() == 20
workers.stop()
engine.disconnect()
"""


def test_a_cluster_is_joined_and_the_code_that_workers_need_is_shipped(ray_cluster: Any, tmp_path: Path) -> None:
    module = tmp_path / "my_envs"
    module.mkdir()
    (module / "__init__.py").write_text(MY_ENVS)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    subprocess.run(
        [sys.executable, "-c", JOINING, ray_cluster.address, str(module)],
        check=True,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_initial_weights_may_be_in_the_object_store(make: Make) -> None:
    weights = {name: torch.full_like(weight, 0.5) for name, weight in make(0).local_worker().actor.state_dict().items()}
    workers = make_factory(1)("cpu", ray.put(weights))
    asked = workers.handle(0).__ray_call__.remote(lambda worker: pack_weights(worker.actor))
    for found in (pack_weights(workers.local_worker().actor), ray.get(asked)):
        assert all((found[name] == weight.numpy()).all() for name, weight in weights.items())
    workers.stop()


def test_a_straggler_is_stopped_and_what_it_has_is_kept(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = make(
        3,
        "ppo",
        "gae",
        env=TellTaleEnv,
        env_kwargs={"folder": str(tmp_path)},
        num_envs=1,
        size=40,
        numbers={"update_every": 40},
        col_fraction_samples=0.1,
        fraction_workers=0.6,
        supervision=Supervision(timeout_s=600),
    )
    workers.collector.collect()
    slow_pid = int(stored(workers, (0, 1, 0))[keys.OBS][0, 0, 0])
    workers.local_worker().storage.reset()
    handle = workers.handle(1)
    before = ray.get(handle.progress.options(concurrency_group="control").remote())
    (tmp_path / "hang").write_text(str(slow_pid))
    tell = workers.tell

    def tell_and_release(index: int, method: str, *args: object) -> None:
        tell(index, method, *args)
        # Answered after the signal was received.
        ray.get(workers.handle(index).progress.options(concurrency_group="control").remote())
        (tmp_path / "hang").unlink()

    monkeypatch.setattr(workers, "tell", tell_and_release)
    num_new = workers.collector.collect()
    after = ray.get(handle.progress.options(concurrency_group="control").remote())
    lengths = [len(stored(workers, (0, index, 0))[keys.REWARD]) for index in range(3)]
    assert lengths[1] == after - before == 4
    assert lengths[0] == lengths[2] == 40
    assert num_new == sum(lengths)
    workers.local_worker().storage.before_gradients()
    batches = list(workers.local_worker().storage.generate_batches(1, 1))
    assert len(batches[0][keys.REWARD]) == sum(lengths)


def test_a_parameter_is_changed_in_all_workers(make: Make) -> None:
    workers = make(2)
    workers.collector.collect()
    workers.broadcast(SetAlgorithmParameter("update_every", 4))
    assert workers.collector.collect() == 4 * 2 * 2
    workers.broadcast(SetStorageParameter("max_size", 50))
    assert workers.local_worker().storage.max_size == 50
    with pytest.raises(ConfigError):
        workers.broadcast(SetAlgorithmParameter("update_every", -1))


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_environments_are_replaced_in_all_workers(make: Make, mode: str) -> None:
    workers = make(2, env=TellTaleEnv, env_kwargs={"step_s": 0.001}, mode=mode, size=100_000)
    collect_until(workers, lambda: len(sources(workers)) == 2)
    collect_until(workers, lambda: all(_episodes(workers, index).max() > 0 for index in (0, 1)))
    other, _, _ = VecEnv.create_factory(TellTaleEnv, {"step_s": 1e-6}, 2, seed=99)
    workers.broadcast(ReplaceComponent("envs_train", other))
    collect_until(workers, lambda: all(_num_beginnings(workers, index) == 1 for index in (0, 1)))
    assert workers.num_restarts == 0
    assert workers.local_worker().num_steps == len(workers.local_worker().storage)


def _num_beginnings(workers: CWorkerSet, index: int) -> int:
    """How often the environments of a worker went back to their first episode."""
    return int(np.count_nonzero(np.diff(_episodes(workers, index)) < 0))


def _episodes(workers: CWorkerSet, index: int) -> np.ndarray:
    """Episode of each step of a worker's first environment."""
    episodes: np.ndarray = stored(workers, (0, index, 0))[keys.OBS][:, 0, 1].numpy()
    return episodes


def test_an_algorithm_and_an_actor_are_replaced(make: Make) -> None:
    workers, other = make(1), make(0, numbers={"update_every": 3}, actor_options={"hidden_sizes": (5,)})
    workers.collector.collect()
    parameters = other.worker_params
    workers.broadcast(ReplaceComponent("algo", parameters["algo_factory"]))
    assert workers.collector.collect() == 6
    workers.broadcast(ReplaceComponent("actor", parameters["actor_factory"]))
    assert workers.collector.collect() == 6
    assert workers.num_restarts == 0


def test_workers_join_and_leave(make: Make) -> None:
    workers = make(1, "ddqn", "replay", env=TellTaleEnv)
    assert workers.collector.collect() == 20
    workers.collector.set_num_workers(2)
    assert workers.num_workers == 2
    assert workers.collector.collect() == 40
    assert len(workers.collector.reports()) == 2
    workers.collector.set_num_workers(1)
    assert workers.collector.collect() == 20
    assert sources(workers) == [(0, 0, 0)]
    assert len(workers.local_worker().storage) == workers.local_worker().num_steps == 80


@pytest.mark.parametrize("resources", [{"num_cpu": 1}, {"num_cpus": "two"}, {"num_cpus": -1}, {"label_selector": 5}])
def test_resources_that_ray_does_not_take_are_refused(make: Make, resources: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"Ray does not take "):
        make(1, col_worker_resources=resources)
    with pytest.raises(ConfigError, match=r"Ray does not take "):
        make_scheme(workers={"num_grad_workers": 1, "num_col_workers": 1, "col_resources": resources})


def test_workers_wait_for_a_node_that_has_what_they_ask_for(make: Make, ray_cluster: Any) -> None:
    """Two are placed by what the node has, and by its label; the node joins once they are told of."""
    asked = {"num_cpus": 0.1, "resources": {"simulator": 1}, "label_selector": {"pool": "collect"}}
    workers = make(2, col_worker_resources=asked, supervision=Supervision(warn_every_s=0.5))
    nodes = []

    class Join(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not nodes and "waiting for resources: 2 of 2 CWorkers" in record.getMessage():
                options = {"num_cpus": 1, "object_store_memory": 100 * 1024**2}
                nodes.append(ray_cluster.add_node(resources={"simulator": 2}, labels={"pool": "collect"}, **options))

    handler = Join()
    logging.getLogger(worker_set.__name__).addHandler(handler)
    try:
        assert workers.collector.collect() == 40
    finally:
        logging.getLogger(worker_set.__name__).removeHandler(handler)
    assert workers.num_restarts == 0
    workers.stop()
    ray_cluster.remove_node(nodes[0])


def test_without_remote_workers_ray_is_not_imported() -> None:
    code = (
        "import sys; from tests.schemes import make_scheme; scheme = make_scheme(); scheme.update_worker.step(); "
        "scheme.stop(); assert 'ray' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
