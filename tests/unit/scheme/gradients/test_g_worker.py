"""Gradients are computed batch by batch, from what was collected."""

from typing import Any

import pytest

from recollect import keys
from recollect.errors import NotFiniteError
from recollect.scheme.gradients.g_worker import GWorker
from tests.unit.scheme.building import make_workers


def make_grad_worker(**numbers: Any) -> Any:
    return GWorker(0, make_workers(((3, 5), (4,)), **numbers))


def test_batches_are_asked_for_one_by_one() -> None:
    worker = make_grad_worker(num_mini_batch=2, num_epochs=2)
    worker.collect()
    worker.storage.calls.clear()
    gradients = worker.compute_gradients()
    next(gradients)
    assert worker.storage.calls == ["before", "batch", "after"]
    assert len(list(gradients)) == 3
    assert worker.storage.calls == ["before", *["batch", "after"] * 4]


def test_storage_and_algorithm_are_those_of_the_collection() -> None:
    worker = make_grad_worker()
    assert worker.storage is worker.col_worker.storage
    assert worker.algo is worker.col_worker.algo
    worker.collect()
    assert len(worker.storage) == worker.algo.update_every


def test_there_are_no_gradients_before_the_first_steps_are_complete() -> None:
    worker = make_grad_worker(start_steps=9)
    worker.collect()
    assert list(worker.compute_gradients()) == []
    assert "before" not in worker.storage.calls
    worker.collect()
    assert len(list(worker.compute_gradients())) == 2


def test_a_new_storage_is_filled_before_it_is_learned_from() -> None:
    worker = make_grad_worker(start_steps=8)
    worker.collect()
    assert len(list(worker.compute_gradients())) == 2
    worker.col_worker.counts.num_steps_lost = 5
    assert list(worker.compute_gradients()) == []


def test_returns_of_new_episodes_reach_the_storage_once() -> None:
    worker = make_grad_worker()
    worker.collect()
    list(worker.compute_gradients())
    assert worker.storage.infos[0][keys.EPISODES][keys.TRAIN_REWARD] == [6.0, 10.0]
    assert keys.EPISODES not in worker.storage.infos[1]
    list(worker.compute_gradients())
    assert keys.EPISODES not in worker.storage.infos[2]


def test_on_policy_data_are_let_go_before_more_are_collected() -> None:
    worker = make_grad_worker(is_on_policy=True)
    for _ in range(2):
        worker.collect()
        assert len(worker.storage) == 4
        list(worker.compute_gradients())
        assert len(worker.storage) == 4


def test_the_batch_of_a_loss_that_is_not_finite_is_kept() -> None:
    worker = make_grad_worker()
    worker.algo.fails_at = 2
    worker.collect()
    with pytest.raises(NotFiniteError):
        list(worker.compute_gradients())
    assert worker.offending_batch[keys.REWARD].tolist() == [[1.0]] * 3


def test_stopping_stops_the_collection() -> None:
    worker = make_grad_worker()
    worker.stop()
    assert worker.col_worker.envs_train.is_closed
