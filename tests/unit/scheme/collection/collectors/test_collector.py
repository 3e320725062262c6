"""Collections take in what workers saw, each step once, in stages that wait for what they should."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import STORAGES
from recollect.agent.storages.snapshots import StorageSnapshot, cut_streams
from recollect.errors import ConfigError, StorageError
from recollect.scheme.base.commands import ReplaceComponent, SetAlgorithmParameter
from recollect.scheme.base.supervision import Heartbeat, Supervision
from recollect.scheme.collection.c_worker import CWorker
from recollect.scheme.collection.c_worker_set import CWorkerSet
from recollect.scheme.collection.collectors.async_collector import AsyncCollector
from recollect.scheme.collection.collectors.collector import LocalCollector
from recollect.scheme.collection.collectors.inbox import Inbox
from recollect.scheme.collection.collectors.sync_collector import SyncCollector
from tests.integration.ray import parts
from tests.parts import CountingActor, CountingAlgo, ScriptedEnvs
from tests.unit.scheme.fake_engine import FakeEngine, Handle

NUM_ENVS = 2


class WeightedActor(CountingActor):
    """An actor with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.zeros(1)

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"w": self.weight}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    return FakeEngine(monkeypatch)


def make_set(
    num_workers: int = 3, *, storage: str = "replay", size: int = 60, lengths: Any = ((3, 5), (4,)), **options: Any
) -> CWorkerSet:
    numbers = {name: options.pop(name) for name in ("is_on_policy", "start_steps") if name in options}
    factory = STORAGES[storage].create_factory(size)  # type: ignore[call-arg]

    def make_algo(device: Any, actor: Any, envs: Any) -> Any:
        algo = CountingAlgo(actor, envs, **numbers)
        if numbers.get("is_on_policy"):
            algo.other = {key: torch.zeros(NUM_ENVS, 1) for key in (keys.VALUE, keys.LOG_PROB)}
        return algo

    return CWorkerSet(
        num_workers,
        0,
        make_algo,
        lambda device: WeightedActor(),
        factory,
        "cpu",
        train_envs_factory=lambda device, worker, parent: ScriptedEnvs(lengths),
        **options,
    )


def learn(workers: CWorkerSet) -> None:
    """As if an update had been made."""
    workers.local_worker().counts.actor_version += 1


def stored(workers: CWorkerSet, source: Any) -> dict[str, Any]:
    return workers.local_worker().storage.get_all_buffer_data(source=source)


def sources(workers: CWorkerSet) -> list[Any]:
    return workers.local_worker().storage.sources


def collect_calls(handle: Handle) -> list[tuple[Any, ...]]:
    return [args for name, args in handle.calls if name == "collect_piece"]


def max_lags(workers: CWorkerSet) -> list[int]:
    """How many versions the policy of recent slices was behind at most, by worker."""
    return [report.max_lag for report in workers.collector.reports()]


def test_without_remote_workers_the_local_one_collects(fake: FakeEngine) -> None:
    workers = make_set(0)
    assert isinstance(workers.collector, LocalCollector)
    num_new = workers.collector.collect()
    assert num_new == workers.local_worker().num_steps == len(workers.local_worker().storage) == 8
    assert workers.collector.reports() == ()
    with pytest.raises(ConfigError, match="from the start"):
        workers.collector.set_num_workers(1)


def test_a_learner_has_no_train_environments(fake: FakeEngine) -> None:
    worker = make_set(1).local_worker()
    assert worker.envs_train.num_envs == NUM_ENVS
    assert not hasattr(worker.envs_train, "step")
    assert fake.handles[0].worker.storage.num_envs == NUM_ENVS


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_store_holds_what_each_worker_saw(fake: FakeEngine, mode: str) -> None:
    workers = make_set(3, mode=mode, size=3000)
    alone = [CWorker(index, **workers.worker_params, device="cpu") for index in range(3)]
    for _ in range(12):
        workers.collector.collect()
    num_steps = 0
    for index, worker in enumerate(alone):
        found = stored(workers, (0, index, 0))
        num_steps += len(found[keys.REWARD]) * NUM_ENVS
        worker.collect_train_data(len(found[keys.REWARD]))
        expected = worker.storage.get_all_buffer_data()
        assert found.keys() == expected.keys()
        # These actions count the steps of the whole run.
        assert all(torch.equal(found[key], expected[key]) for key in found.keys() - {keys.ACTION})
    assert num_steps == workers.local_worker().num_steps == len(workers.local_worker().storage)
    assert num_steps >= 12 * 4 * NUM_ENVS


def test_sync_workers_act_with_the_same_newest_weights(fake: FakeEngine) -> None:
    workers = make_set(2)
    for _ in range(3):
        workers.collector.collect()
        learn(workers)
    assert max_lags(workers) == [0, 0]
    assert [[args[1] for args in collect_calls(handle)] for handle in fake.handles] == [[1, 2, 3]] * 2
    assert fake.handles[0].worker.actor_version == 3


def test_slow_workers_are_stopped_once_enough_have_finished(fake: FakeEngine) -> None:
    workers = make_set(3, fraction_samples=0.5, fraction_workers=0.6)
    fake.handles[2].is_slow = True
    assert workers.collector.collect() == 10 * NUM_ENVS
    assert [len(stored(workers, (0, index, 0))[keys.REWARD]) for index in range(3)] == [4, 4, 2]
    fake.handles[2].is_slow = False
    assert workers.collector.collect() == 12 * NUM_ENVS


def test_nobody_is_stopped_before_enough_have_finished(fake: FakeEngine) -> None:
    workers = make_set(3, fraction_samples=0.0, fraction_workers=1.0)
    fake.handles[2].is_slow = True
    assert workers.collector.collect() == 12 * NUM_ENVS


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_worker_that_is_stopped_before_its_first_step_adds_nothing(fake: FakeEngine, is_packed: bool) -> None:
    workers = make_set(2, fraction_samples=0.0, fraction_workers=0.5, compress_data_to_send=is_packed)
    fake.handles[1].is_slow = True
    assert workers.collector.collect() == 4 * NUM_ENVS
    assert sources(workers) == [(0, 0, 0)]
    fake.handles[1].is_slow = False
    assert workers.collector.collect() == 8 * NUM_ENVS


def test_a_word_that_comes_too_late_does_not_stop_the_next_stage(fake: FakeEngine) -> None:
    workers = make_set(2, fraction_samples=0.0, fraction_workers=0.5)
    workers.collector.collect()
    for handle in fake.handles:
        handle.worker.signal("stop 1")
    assert workers.collector.collect() == 8 * NUM_ENVS


def test_a_stage_waits_for_the_successor_of_a_worker_that_died(fake: FakeEngine) -> None:
    workers = make_set(2)
    workers.collector.collect()
    fake.handles[1].is_dead = True
    assert workers.collector.collect() == 8 * NUM_ENVS
    assert sources(workers) == [(0, 0, 0), (0, 1, 1)]
    assert workers.local_worker().num_steps == len(workers.local_worker().storage) == 16 * NUM_ENVS
    assert [report.restarts for report in workers.collector.reports()] == [0, 1]
    # What the first life saw is still there, in the lanes that its successor took.
    assert len(stored(workers, (0, 1, 1))[keys.REWARD]) == 8


@pytest.mark.parametrize("is_on_policy", [False, True])
def test_a_stage_continues_with_the_successor_of_a_worker_whose_env_hangs(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, is_on_policy: bool
) -> None:
    monkeypatch.setattr(Heartbeat, "is_silent", lambda self: self.handle.is_stuck)
    options: dict[str, Any] = {"storage": "gae", "size": 4, "is_on_policy": True} if is_on_policy else {}
    workers = make_set(3, supervision=Supervision(timeout_s=1e-9), **options)
    fake.handles[1].is_stuck = True
    assert workers.collector.collect() == 12 * NUM_ENVS
    assert workers.num_restarts == 1
    assert fake.handles[1].is_dead
    assert sources(workers) == [(0, 0, 0), (0, 1, 1), (0, 2, 0)]
    assert len(workers.local_worker().storage) == workers.local_worker().num_steps == 12 * NUM_ENVS


@pytest.mark.parametrize("memory", [None, "gru"])
def test_hindsight_is_the_same_with_data_from_a_remote_worker(fake: FakeEngine, memory: str | None) -> None:
    both = [
        parts.make_set(
            number,
            *("ddqn", "her"),
            env="recollect/BitFlip-v0",
            storage_options={"n_step": 2},
            actor_options={"memory": memory},
        )
        for number in (0, 1)
    ]
    num_batches = 0
    for _ in range(8):
        batches = []
        for workers in both:
            workers.collector.collect()
            batches.append(parts.learn(workers.local_worker()))
        for left, right in zip(*batches, strict=True):
            assert left.keys() == right.keys()
            assert all(torch.equal(left[key], right[key]) for key in left)
            num_batches += 1
    assert num_batches >= 10


def test_who_joins_a_run_on_its_way_begins_with_other_seeds(fake: FakeEngine) -> None:
    workers = make_set(1)
    workers.collector.collect()
    assert fake.handles[0].worker.envs_train.reseeded is None
    workers.collector.set_num_workers(2)
    workers.collector.collect()
    assert fake.handles[1].worker.envs_train.reseeded == 4 * NUM_ENVS


def test_random_steps_are_counted_over_all_workers(fake: FakeEngine) -> None:
    workers = make_set(2, start_steps=20)
    for _ in range(3):
        workers.collector.collect()
    for handle in fake.handles:
        actions = stored(workers, (0, handle.params["index_worker"], 0))[keys.ACTION][:, 0, 0]
        # Eight steps of this worker, and eight of the other at the end of the stage, make sixteen.
        assert actions.tolist()[:6] == [-1] * 6
        assert (actions[6:] > 0).all()


def test_the_same_slice_counts_once(fake: FakeEngine) -> None:
    workers = make_set(1)
    inbox = Inbox(workers.local_worker())
    new = fake.handles[0].worker.collect_piece({"w": np.zeros(1, np.float32)}, 1, 0)
    assert inbox.insert(new, 1).num_steps == 4 * NUM_ENVS
    assert inbox.insert(new, 1).num_steps == 0
    assert workers.local_worker().num_steps == len(workers.local_worker().storage) == 4 * NUM_ENVS


def test_a_gap_breaks_the_stream(fake: FakeEngine) -> None:
    workers = make_set(1, lengths=((100,), (100,)))
    inbox, worker = Inbox(workers.local_worker()), fake.handles[0].worker
    slices = [worker.collect_piece({"w": np.zeros(1, np.float32)}, 1, 0) for _ in range(3)]
    inbox.insert(slices[0], 1)
    inbox.insert(slices[2], 1)
    assert stored(workers, (0, 0, 0))[keys.CUT][:, 0, 0].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert workers.local_worker().num_steps == 8 * NUM_ENVS


def test_compressed_data_are_the_same(fake: FakeEngine) -> None:
    plain, packed = make_set(1), make_set(1, compress_data_to_send=True)
    for workers in (plain, packed):
        workers.collector.collect()
    data = [stored(workers, (0, 0, 0)) for workers in (plain, packed)]
    assert all(torch.equal(data[0][key], data[1][key]) for key in data[0])
    assert packed.collector.reports()[0].codec_s > 0 == plain.collector.reports()[0].codec_s


def test_episodes_and_their_returns_are_those_of_the_run(fake: FakeEngine) -> None:
    workers = make_set(2, lengths=((3,), (4,)))
    workers.collector.collect()
    episodes = workers.local_worker().episodes
    assert episodes.num_episodes == 4
    assert sorted(episode.total_reward for episode in episodes.take_new()) == [6, 6, 10, 10]


def test_async_workers_always_have_something_to_do(fake: FakeEngine) -> None:
    workers = make_set(2, mode="async")
    workers.collector.collect()
    assert [len(collect_calls(handle)) for handle in fake.handles] == [4, 4]


def test_async_stages_do_not_wait_for_slow_workers(fake: FakeEngine) -> None:
    workers = make_set(2, mode="async")
    fake.handles[1].is_slow = True
    for _ in range(5):
        workers.collector.collect()
        learn(workers)
    assert sources(workers) == [(0, 0, 0)]
    assert len(collect_calls(fake.handles[1])) == 2


def test_the_policy_is_not_further_behind_than_allowed(fake: FakeEngine) -> None:
    workers = make_set(2, mode="async", max_policy_lag=3)
    fake.handles[1].is_slow = True
    for _ in range(12):
        workers.collector.collect()
        learn(workers)
    assert max(max_lags(workers)) == 3
    assert (0, 1, 0) in sources(workers)


def test_with_little_lag_allowed_no_work_is_given_out_ahead(fake: FakeEngine) -> None:
    workers = make_set(1, mode="async", max_policy_lag=1)
    for stage in range(1, 5):
        workers.collector.collect()
        assert max_lags(workers)[0] <= 1
        assert len(collect_calls(fake.handles[0])) == stage + 1
        learn(workers)


def test_async_on_policy_stages_take_a_slice_of_every_worker(fake: FakeEngine) -> None:
    workers = make_set(2, mode="async", storage="vtrace", size=4, is_on_policy=True)
    fake.handles[1].is_slow = True
    for stage in range(1, 5):
        workers.local_worker().storage.reset()
        num_new = workers.collector.collect()
        learn(workers)
        assert num_new == len(workers.local_worker().storage) == 8 * NUM_ENVS
        assert max(max_lags(workers)) <= 2
        assert workers.local_worker().num_steps == stage * 8 * NUM_ENVS


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_slice_that_is_larger_than_an_on_policy_storage_is_refused(fake: FakeEngine, mode: str) -> None:
    workers = make_set(2, mode=mode, storage="vtrace", size=4, is_on_policy=True)
    workers.collector.collect()
    for worker in (workers.local_worker(), *(handle.worker for handle in fake.handles)):
        worker.algo.update_every = 5

    def collect_again() -> None:
        """The first stages may have what was collected before."""
        for _ in range(4):
            workers.local_worker().storage.reset()
            workers.collector.collect()

    with pytest.raises(StorageError, match="no room for 5 more steps"):
        collect_again()


def test_async_needs_a_storage_that_takes_older_policies(fake: FakeEngine) -> None:
    with pytest.raises(ConfigError, match=r"GAEBuffer.*'vtrace', or col_mode 'sync'"):
        make_set(2, mode="async", storage="gae", size=4, is_on_policy=True)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_what_a_worker_that_leaves_has_collected_is_kept(fake: FakeEngine, mode: str) -> None:
    workers = make_set(3, mode=mode, size=300)
    workers.collector.collect()
    workers.collector.set_num_workers(1)
    given_out = sum(len(collect_calls(handle)) for handle in fake.handles[1:])
    num_stored = len(workers.local_worker().storage)
    assert num_stored == workers.local_worker().num_steps >= given_out * 4 * NUM_ENVS
    assert sources(workers) == [(0, 0, 0)]
    workers.collector.set_num_workers(2)
    for _ in range(3):
        workers.collector.collect()
    assert sources(workers) == [(0, 0, 0), (0, 1, 1)]
    with pytest.raises(ConfigError, match="2 of 2 collection workers cannot be removed; one must stay"):
        workers.collector.set_num_workers(0)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize(("num_workers", "reason"), [(0, "3 of 3"), (-1, "4 of 3"), (1.5, "whole")])
def test_a_number_of_workers_that_makes_no_sense_changes_nothing(
    fake: FakeEngine, mode: str, num_workers: Any, reason: str
) -> None:
    workers = make_set(3, mode=mode)
    workers.collector.collect()
    with pytest.raises(ConfigError, match=reason):
        workers.collector.set_num_workers(num_workers)
    assert workers.indices == [0, 1, 2]
    assert not any(handle.is_dead for handle in fake.handles)


def test_hot_changes_reach_the_learner_and_all_workers(fake: FakeEngine) -> None:
    workers = make_set(2)
    workers.broadcast(SetAlgorithmParameter("gamma", 0.5))
    everybody = [workers.local_worker(), *(handle.worker for handle in fake.handles)]
    assert [worker.algo.parameters for worker in everybody] == [{"gamma": 0.5}] * 3


def test_a_replaced_component_is_that_of_later_workers_too(fake: FakeEngine) -> None:
    workers = make_set(1)
    workers.broadcast(SetAlgorithmParameter("gamma", 0.5))

    def make_other(device: Any, actor: Any, envs: Any) -> Any:
        return CountingAlgo(actor, envs, update_every=2)

    workers.broadcast(ReplaceComponent("algo", make_other))
    assert workers.collector.collect() == 2 * NUM_ENVS
    workers.collector.set_num_workers(2)
    assert fake.handles[1].params["algo_factory"] is make_other
    assert fake.handles[1].calls == []


def test_weights_of_a_new_actor_are_sent(fake: FakeEngine) -> None:
    workers = make_set(1)
    workers.collector.collect()
    workers.broadcast(ReplaceComponent("actor", lambda device: WeightedActor()))
    workers.collector.collect()
    assert [args[1] for args in collect_calls(fake.handles[0])] == [1, 2]


def test_going_on_from_a_checkpoint(fake: FakeEngine, tmp_path: Path) -> None:
    workers, other = make_set(2), make_set(2)
    for _ in range(3):
        workers.collector.collect()
    StorageSnapshot(tmp_path).save(workers.local_worker().storage)
    other.local_worker().load_state(workers.local_worker().state())
    StorageSnapshot(tmp_path).load(other.local_worker().storage)
    cut_streams(other.local_worker().storage)
    assert other.collector.collect() == 8 * NUM_ENVS
    assert other.local_worker().num_steps == len(other.local_worker().storage) == 32 * NUM_ENVS
    # The new workers have the lanes of the old ones, and begin with other seeds than they did.
    assert other.local_worker().storage.num_lanes == 2 * NUM_ENVS
    assert [handle.worker.envs_train.reseeded for handle in fake.handles[2:]] == [24 * NUM_ENVS] * 2


def test_a_run_of_several_collections_counts_the_steps_of_all(fake: FakeEngine) -> None:
    workers = make_set(1, total_parent_workers=3, start_steps=30)
    for _ in range(3):
        workers.collector.collect()
    assert [args[2] for args in collect_calls(fake.handles[0])] == [0, 24, 48]
    actions = stored(workers, (0, 0, 0))[keys.ACTION][:, 0, 0]
    assert [action < 0 for action in actions] == [True] * 7 + [False] * 5


def test_kinds_of_collections(fake: FakeEngine) -> None:
    assert isinstance(make_set(1).collector, SyncCollector)
    assert isinstance(make_set(1, mode="async").collector, AsyncCollector)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_successors_of_workers_that_died_in_a_hot_change_take_their_lanes(fake: FakeEngine, mode: str) -> None:
    workers = make_set(2, mode=mode, size=300)
    for number in range(1, 4):
        for _ in range(3):
            workers.collector.collect()
        num_steps = workers.local_worker().num_steps
        next(handle for handle in reversed(fake.handles) if not handle.is_dead).is_dead = True
        workers.broadcast(SetAlgorithmParameter("gamma", number))
        for _ in range(3):
            workers.collector.collect()
        assert workers.num_restarts == number
        assert len(sources(workers)) == 2
        assert workers.local_worker().storage.num_lanes == 2 * NUM_ENVS
        assert workers.local_worker().num_steps == len(workers.local_worker().storage) > num_steps
