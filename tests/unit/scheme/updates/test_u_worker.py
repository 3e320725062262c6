"""Every gradient is applied once, and counted."""

from typing import Any

from recollect import keys
from recollect.scheme.gradients.g_worker import GWorker
from recollect.scheme.updates.u_worker import NUM_RECENT_UPDATES, UWorker
from tests.unit.scheme.building import make_workers


def make_update_worker(**numbers: Any) -> Any:
    return UWorker(0, GWorker(0, make_workers(((3, 5), (4,)), **numbers)))


def test_a_stage_collects_and_updates() -> None:
    worker = make_update_worker(num_mini_batch=3, num_epochs=2, update_every=5)
    worker.step()
    assert worker.gradients.col_worker.num_steps == 10
    assert worker.num_updates == worker.gradients.algo.num_applied == 6
    assert worker.gradients.col_worker.actor_version == 6
    assert [float(info[keys.ALGORITHM]["loss_q"]) for info in worker.recent_updates] == [1, 2, 3, 4, 5, 6]


def test_a_gradient_is_applied_before_the_next_batch_is_drawn() -> None:
    worker = make_update_worker(num_mini_batch=2)
    algo, storage = worker.gradients.algo, worker.gradients.col_worker.storage
    apply = algo.apply_gradients
    algo.apply_gradients = lambda gradients: (storage.calls.append("apply"), apply())
    worker.step()
    assert storage.calls[-7:] == ["before", "batch", "after", "apply", "batch", "after", "apply"]


def test_only_recent_updates_are_remembered() -> None:
    worker = make_update_worker(num_mini_batch=NUM_RECENT_UPDATES + 5)
    worker.step()
    assert len(worker.recent_updates) == NUM_RECENT_UPDATES


def test_going_on_from_a_state() -> None:
    worker, other = make_update_worker(), make_update_worker()
    worker.step()
    other.load_state(worker.state())
    assert other.num_updates == other.gradients.algo.num_applied == 2


def test_stopping_stops_all_workers() -> None:
    worker = make_update_worker()
    worker.stop()
    assert worker.gradients.col_worker.envs_train.is_closed
