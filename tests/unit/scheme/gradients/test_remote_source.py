"""Gradients of several workers, as the one who applies them sees them; here without processes."""

from pathlib import Path
from typing import Any

import pytest
import torch

from recollect.agent.envs import VecEnv
from recollect.agent.storages import ReplayBuffer
from recollect.config import build, resolve
from recollect.errors import ConfigError, NotFiniteError
from recollect.scheme.base.commands import ReplaceComponent, SetAlgorithmParameter, SetStorageParameter
from recollect.scheme.gradients import remote_source
from recollect.scheme.gradients.async_source import AsyncGradientSource
from recollect.scheme.gradients.g_worker import GWorker
from recollect.scheme.gradients.sync_source import SyncGradientSource
from recollect.scheme.normaliser_sums import take_sums
from recollect.scheme.updates.u_worker import UWorker
from tests.schemes import make_scheme
from tests.unit.scheme.gradients.fakes import WorkersHere


@pytest.fixture(autouse=True)
def no_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_source.engine, "put", lambda value: value)


def make_gradients(
    kind: Any,
    num_workers: int = 2,
    start_steps: int = 16,
    journals: Path | None = None,
    algo: str = "sac",
    **options: Any,
) -> Any:
    """Real workers of a small agent, all with the same seeds, and a learner of the same."""
    workers = []
    for index in range(num_workers):
        scheme = make_scheme(algo, "per", start_steps=start_steps)
        worker = GWorker(
            index,
            lambda *_, scheme=scheme: scheme.gradients.col_workers,
            num_peers=num_workers,
            journal_folder=journals,
        )
        workers.append(worker)
    return kind(make_scheme(algo, "per").col_worker, WorkersHere(workers), **options)


def weights_of(algo: Any) -> list[torch.Tensor]:
    return [weight.clone() for weight in algo.actor.state_dict().values()]


@pytest.mark.parametrize("algo", ["sac", "crossq"])
def test_workers_that_all_do_the_same_are_as_one_here(algo: str) -> None:
    """With the statistics of batches, which CrossQ acts by."""
    here = make_scheme(algo, "per", start_steps=8)
    elsewhere = [make_gradients(SyncGradientSource, number, start_steps=8, algo=algo) for number in (1, 2)]
    for update in (here.update_worker, *(UWorker(0, gradients) for gradients in elsewhere)):
        for _ in range(4):
            update.step()
    for number, gradients in enumerate(elsewhere, start=1):
        assert gradients.num_steps == number * here.num_steps
        assert gradients.algo.num_updates == here.num_updates == 8
        assert all(torch.equal(*pair) for pair in zip(weights_of(gradients.algo), weights_of(here.algo), strict=True))


def test_a_round_applies_the_mean() -> None:
    gradients = make_gradients(SyncGradientSource)
    update = UWorker(0, gradients)
    for _ in range(3):
        update.step()
    assert update.num_updates == gradients.algo.num_updates == 6
    assert gradients.num_steps == 3 * 16
    assert all(float(info["Algorithm"]["loss_q"]) for info in update.recent_updates)
    workers = gradients.workers.workers.values()
    assert all(worker.col_worker.actor_version == 5 for worker in workers), "the weights before the last update"


def test_a_lost_worker_is_left_out_and_continues_where_it_stood() -> None:
    gradients = make_gradients(SyncGradientSource)
    update = UWorker(0, gradients)
    for _ in range(2):
        update.step()
    gradients.workers.dying.add(1)
    update.step()
    assert gradients.num_steps == 2 * 16 + 8
    assert [worker.is_alive for worker in gradients.report().reports] == [True, False]
    assert gradients.status().num_stored == 24
    assert update.num_updates == 6
    lost = gradients.workers.workers[1]
    lost.col_worker.counts.num_steps = 0  # as a new one has it
    update.step()
    assert lost.col_worker.num_steps == 16 + 8
    assert lost.col_worker.counts.num_steps_lost == 16
    assert gradients.num_steps == 2 * 16 + 8 + 16
    assert gradients.report().num_restarts == 1
    assert [worker.restarts for worker in gradients.report().reports] == [0, 1]
    assert [worker.num_steps for worker in gradients.report().reports] == [32, 24]
    assert all(worker.is_alive and worker.num_bytes for worker in gradients.report().reports)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_lost_worker_continues_with_what_was_saved_of_its_storage(tmp_path: Path, is_damaged: bool) -> None:
    gradients = make_gradients(SyncGradientSource)
    update = UWorker(0, gradients)
    for _ in range(2):
        update.step()
    gradients.save_storage(tmp_path, "saved")
    gradients.workers.dying.add(1)
    update.step()
    lost = gradients.workers.workers[1]
    lost.storage.reset()
    if is_damaged:
        for file in (tmp_path / "worker-1").rglob("*"):
            if file.is_file():
                file.write_bytes(b"damaged")
    update.step()
    assert len(lost.storage) == (0 if is_damaged else 16) + 8
    assert lost.col_worker.counts.num_steps_lost == (16 if is_damaged else 0)
    assert lost.col_worker.num_steps == 16 + 8


def restart(worker: GWorker) -> None:
    """Make a worker what it is when it has been restarted."""
    worker.storage.reset()
    worker.col_worker.counts.num_steps = 0
    worker.begin_journal(0)


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_lost_worker_continues_with_all_that_was_counted(tmp_path: Path, is_saved: bool) -> None:
    """A checkpoint before it was lost makes no difference: the journal is newer."""
    gradients = make_gradients(SyncGradientSource, journals=tmp_path / "journals")
    update = UWorker(0, gradients)
    update.step()
    if is_saved:
        gradients.save_storage(tmp_path / "saved", "saved")
    update.step()
    gradients.workers.dying.add(1)
    update.step()
    lost = gradients.workers.workers[1]
    stored = lost.storage.get_all_buffer_data()
    restart(lost)
    update.step()
    assert len(lost.storage) == lost.col_worker.num_steps == 16 + 8
    assert lost.col_worker.counts.num_steps_lost == 0
    found = lost.storage.get_all_buffer_data()
    assert all(torch.equal(found[key][: len(values)], values) for key, values in stored.items())
    gradients.stop()
    assert not (tmp_path / "journals").exists()


def test_a_journal_of_another_storage_is_not_resumed(tmp_path: Path) -> None:
    gradients = make_gradients(SyncGradientSource, journals=tmp_path)
    update = UWorker(0, gradients)
    for _ in range(2):
        update.step()
    gradients.workers.dying.add(1)
    update.step()
    gradients.execute(ReplaceComponent("storage", make_storage))
    lost = gradients.workers.workers[1]
    restart(lost)
    for command in gradients.workers.commands:
        lost.execute(command)
    update.step()
    assert len(lost.storage) == 8
    assert lost.col_worker.counts.num_steps_lost == 16


def test_a_journal_that_cannot_be_written_does_not_stop_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "journals").touch()
    gradients = make_gradients(SyncGradientSource, journals=tmp_path / "journals")
    update = UWorker(0, gradients)
    for _ in range(3):
        update.step()
    assert gradients.num_steps == 3 * 16
    assert caplog.text.count("keeps no journal") == 2


def test_what_was_saved_of_another_storage_is_not_resumed(tmp_path: Path) -> None:
    gradients = make_gradients(SyncGradientSource)
    update = UWorker(0, gradients)
    for _ in range(2):
        update.step()
    gradients.save_storage(tmp_path, "saved")
    gradients.execute(ReplaceComponent("storage", make_storage))
    gradients.workers.dying.add(1)
    for _ in range(2):
        update.step()
    lost = gradients.workers.workers[1]
    assert len(lost.storage) == 8
    assert lost.col_worker.counts.num_steps_lost == 16


def test_gradients_come_one_by_one_with_their_lag() -> None:
    gradients = make_gradients(AsyncGradientSource)
    update = UWorker(0, gradients)
    for _ in range(3):
        update.step()
    assert gradients.num_steps >= 3 * 16 - 8
    assert gradients.algo.num_updates == update.num_updates > 6
    lags = gradients.report().lags
    assert len(lags) == update.num_updates
    assert 0 <= min(lags) <= max(lags)


@pytest.mark.parametrize("bound", [1, 3])
def test_a_slow_worker_is_waited_for_before_it_is_too_late(bound: int) -> None:
    gradients = make_gradients(AsyncGradientSource, max_lag=bound)
    gradients.workers.slow.add(1)
    update = UWorker(0, gradients)
    for _ in range(6):
        update.step()
    assert max(gradients.report().lags) == bound


def test_a_slow_worker_is_not_waited_for_without_need() -> None:
    gradients = make_gradients(AsyncGradientSource)
    gradients.workers.slow.add(1)
    update = UWorker(0, gradients)
    for _ in range(6):
        update.step()
    assert max(gradients.report().lags) == 0, "the slow one has not had its turn"


def test_a_worker_that_is_lost_on_the_way_comes_back() -> None:
    gradients = make_gradients(AsyncGradientSource, max_lag=2)
    update = UWorker(0, gradients)
    update.step()
    gradients.workers.dying |= {0, 1}
    for _ in range(4):
        update.step()
    assert gradients.report().num_restarts == 2
    assert all(worker.is_alive for worker in gradients.report().reports)


def test_changes_reach_all_workers() -> None:
    gradients = make_gradients(AsyncGradientSource)
    next(gradients.stage(), None)
    gradients.execute(SetAlgorithmParameter("gamma", 0.5))
    gradients.execute(SetStorageParameter("n_step", 4))
    workers = gradients.workers.workers.values()
    assert [worker.algo.gamma for worker in workers] == [0.5, 0.5]
    assert [worker.storage.n_step for worker in workers] == [4, 4]
    assert gradients.algo.gamma == 0.5
    gradients.execute(ReplaceComponent("storage", make_storage))
    assert [worker.storage.max_size for worker in workers] == [77, 77]
    UWorker(0, gradients).step()
    assert all(0 < len(worker.storage) < 77 for worker in workers), "stages that were under way are left"


def make_storage(*parts: Any) -> Any:
    from recollect.agent.storages import ReplayBuffer

    return ReplayBuffer.create_factory(77, seed=1)(*parts)


def test_a_loss_that_is_not_finite_is_told_with_its_batch() -> None:
    gradients = make_gradients(SyncGradientSource, 1)
    (worker,) = gradients.workers.workers.values()

    def broken(batch: Any, grads_to_cpu: bool = True) -> Any:
        raise NotFiniteError("loss_q is nan")

    update = UWorker(0, gradients)
    update.step()
    worker.algo.compute_gradients = broken
    with pytest.raises(NotFiniteError, match=r"loss_q is nan \(gradient worker 0\)"):
        update.step()
    assert gradients.offending_batch["Reward"].shape == (8, 1)


def test_a_state_is_resumed_with_as_many_workers_or_others(tmp_path: Path) -> None:
    gradients = make_gradients(SyncGradientSource)
    update = UWorker(0, gradients)
    for _ in range(3):
        update.step()
    gradients.save_storage(tmp_path, "saved")
    same, fewer = make_gradients(SyncGradientSource), make_gradients(SyncGradientSource, 1)
    for other in (same, fewer):
        other.load_state(gradients.state())
        other.load_storage(tmp_path, "saved")
        assert other.num_steps == gradients.num_steps
        assert other.status().episodes.num_episodes == gradients.status().episodes.num_episodes
    assert same.status().num_stored == gradients.status().num_stored == 48
    assert fewer.status().num_stored == 24


def test_algorithms_know_how_many_workers_there_are() -> None:
    gradients = make_gradients(SyncGradientSource, 2)
    UWorker(0, gradients).step()
    algos = [gradients.algo, *(worker.algo for worker in gradients.workers.workers.values())]
    assert [(algo.num_collectors, algo.num_learners) for algo in algos] == [(1, 2)] * 3


def test_normalisers_see_what_all_workers_saw() -> None:
    options = {"update_every": 8, "num_envs": 2, "num_test_envs": 1, "normalise_observations": True, "test_every": 0}
    schemes = [build(resolve("ppo", "Pendulum-v1", preset="none", overrides=options)) for _ in range(3)]
    workers = [
        GWorker(index, lambda *_, scheme=scheme: scheme.gradients.col_workers, num_peers=2)
        for index, scheme in enumerate(schemes[1:])
    ]
    gradients: Any = SyncGradientSource(schemes[0].col_worker, WorkersHere(workers))  # type: ignore[arg-type]
    update = UWorker(0, gradients)
    for stage in range(1, 4):
        update.step()
        (sums,) = take_sums(gradients.algo.actor).values()
        assert sums[0].tolist() == [2 * 2 * 8 * stage] * 3, "steps of both workers"


@pytest.mark.parametrize(("kind", "num_due"), [(None, 16), (SyncGradientSource, 16), (AsyncGradientSource, 32)])
def test_stages_that_bring_fewer_updates_are_made_up_for_where_a_rate_falls(kind: Any, num_due: int) -> None:
    # Both sequences of a worker make one mini-batch each, where four are planned: 2 stages of 2 epochs.
    options = {"update_every": 8, "num_envs": 2, "num_epochs": 2, "memory": "gru", "test_every": 0, "num_test_envs": 1}
    schemes = [build(resolve("ppo", "CartPole-v1", preset="none", overrides=options)) for _ in range(3)]
    gradients: Any = schemes[0].gradients
    if kind is not None:
        own = [scheme.gradients.col_workers for scheme in schemes[1:]]
        workers = [GWorker(index, lambda *_, each=each: each) for index, each in enumerate(own)]
        gradients = kind(schemes[0].col_worker, WorkersHere(workers))
    update = UWorker(0, gradients)
    for _ in range(2):
        update.step()
    algo = gradients.algo
    assert algo.num_updates < algo.num_updates + algo.num_missed == num_due


def test_what_gradient_workers_would_have_in_common_is_not_exchanged_on_them(tmp_path: Path) -> None:
    gradients = make_gradients(SyncGradientSource)
    storage = gradients.workers.workers[0].storage
    with pytest.raises(ConfigError, match="cannot share one file"):
        gradients.execute(
            ReplaceComponent("storage", ReplayBuffer.create_factory(50, backing="file", path=tmp_path / "store"))
        )
    assert gradients.workers.commands == []
    assert gradients.workers.workers[0].storage is storage


def test_test_environments_are_exchanged_only_where_tests_are_run() -> None:
    gradients = make_gradients(SyncGradientSource)
    envs = gradients.col_worker.envs_test
    factory, _, _ = VecEnv.create_factory("Pendulum-v1", {"g": 9.0})
    gradients.execute(ReplaceComponent("envs_test", factory))
    assert gradients.col_worker.envs_test is not envs
    assert gradients.workers.commands == []
