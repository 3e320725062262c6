"""Defects of schemes that are known from other libraries, one test each."""

from typing import Any

import numpy as np
import pytest
import torch

from recollect.agent.storages import ReplayBuffer
from recollect.scheme.base.commands import ReplaceComponent
from recollect.scheme.collection.c_worker_set import CWorkerSet
from recollect.scheme.collection.collectors.sent_piece import compress
from tests.parts import CountingAlgo, ScriptedEnvs
from tests.unit.scheme.collection.collectors.test_collector import WeightedActor
from tests.unit.scheme.fake_engine import FakeEngine


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    return FakeEngine(monkeypatch)


def make_set(num_workers: int, **options: Any) -> CWorkerSet:
    return CWorkerSet(
        num_workers,
        0,
        lambda device, actor, envs: CountingAlgo(actor, envs, update_every=10),
        lambda device: WeightedActor(),
        ReplayBuffer.create_factory(1_000_000),
        train_envs_factory=lambda device, worker, parent: ScriptedEnvs(((50,),)),
        **{"local_device": "cpu", **options},
    )


def test_preemption_fires(fake: FakeEngine) -> None:
    # A break left only the inner loop, so nobody was ever stopped.
    workers = make_set(3, fraction_samples=0.3, fraction_workers=0.6)
    fake.handles[0].is_slow = True
    assert workers.collector.collect() == 10 + 10 + 3


def test_the_share_of_workers_counts(fake: FakeEngine) -> None:
    # It was a parameter that nobody read.
    workers = make_set(3, fraction_samples=0.3, fraction_workers=1.0)
    fake.handles[0].is_slow = True
    assert workers.collector.collect() == 30


def test_synchronous_collection_takes_what_every_worker_brings(fake: FakeEngine) -> None:
    # It queued as many rollouts as there were workers, took one, and stood still.
    workers = make_set(4)
    for stage in range(1, 4):
        workers.collector.collect()
        assert len(workers.local_worker().storage) == stage * 4 * 10


def test_replacing_a_component_has_an_effect(fake: FakeEngine) -> None:
    # It was silently ignored.
    workers = make_set(1)
    workers.broadcast(ReplaceComponent("algo", lambda device, actor, envs: CountingAlgo(actor, envs, update_every=3)))
    assert workers.collector.collect() == 3


def test_resources_are_not_shared(fake: FakeEngine) -> None:
    # They were one dict of the module, which the sets changed in turn.
    first, second = make_set(1, worker_remote_config={"num_cpus": 2}), make_set(1)
    assert first.remote_config == {"num_cpus": 2}
    assert second.remote_config["num_cpus"] == 1


def test_collectors_hold_no_store_of_full_size(fake: FakeEngine) -> None:
    # Each allocated what the learner needs.
    make_set(1).collector.collect()
    assert len(fake.handles[0].worker.storage) == fake.handles[0].worker.storage.num_bytes == 0


def test_the_device_is_the_one_that_was_asked_for() -> None:
    # An explicit one was ignored.
    assert make_set(0, local_device="meta").local_worker().device == torch.device("meta")


def test_compression_is_of_raw_bytes() -> None:
    # They went through base64, which makes them a third longer.
    noise = np.random.default_rng(1).integers(0, 255, 100_000).astype(np.uint8)
    assert compress(noise)[0].nbytes < 1.01 * noise.nbytes
