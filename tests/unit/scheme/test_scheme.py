"""A scheme puts the workers together, whatever kind of envs they act in."""

from pathlib import Path
from typing import Any

import pytest
import torch

from recollect.agent.actors import OffPolicyActor
from recollect.agent.algorithms.off_policy.ddqn import DDQN
from recollect.agent.envs import VecEnv
from recollect.agent.storages import HERBuffer, NStepReplayBuffer
from recollect.errors import ConfigError
from recollect.scheme import Scheme
from recollect.scheme.base.commands import SetNumCollectors
from recollect.scheme.gradients.g_worker import GWorker
from recollect.scheme.gradients.worker_journal import WorkerJournal
from recollect.scheme.updates.u_worker import UWorker
from tests.schemes import make_scheme
from tests.unit.scheme.fake_engine import FakeEngine

OPTIONS: dict[str, Any] = {"update_every": 4, "num_mini_batch": 1, "mini_batch_size": 8, "start_steps": 16}


def make_ddqn_scheme(env: str, storage: Any, **env_options: Any) -> Scheme:
    envs, action_space, obs_space = VecEnv.create_factory(env, seed=1, **env_options)
    actor = OffPolicyActor.create_factory(obs_space, action_space, DDQN, seed=1, hidden_sizes=(8,))
    return Scheme(DDQN.create_factory(**OPTIONS), actor, storage, envs, device="cpu")


def run(scheme: Scheme, num_stages: int) -> None:
    for _ in range(num_stages):
        scheme.update_worker.step()


def test_workers_share_their_parts() -> None:
    scheme = make_scheme()
    assert scheme.algo is scheme.gradients.algo is scheme.col_worker.algo
    assert scheme.storage is scheme.gradients.storage is scheme.col_worker.storage
    assert scheme.algo.actor is scheme.actor is scheme.storage.actor
    assert scheme.num_envs == 2
    run(scheme, 3)
    assert (scheme.num_steps, scheme.num_updates) == (24, 4)
    scheme.stop()


def test_rows_that_only_begin_an_episode_are_no_steps() -> None:
    scheme = make_ddqn_scheme(
        "CartPole-v1", NStepReplayBuffer.create_factory(1000, n_step=3, seed=1), vec_env_size=3, kind="native"
    )
    run(scheme, 40)
    num_ended = scheme.col_worker.episodes.num_episodes
    assert num_ended > 5
    # All 40 * 4 * 3 rows but those that an env spent on beginning again.
    assert 480 - num_ended <= scheme.num_steps < 480
    assert len(scheme.storage) == scheme.num_steps
    assert scheme.storage.num_cuts == 0


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_streams_have_no_breaks_but_the_ends_of_episodes(kind: str) -> None:
    scheme = make_ddqn_scheme(
        "recollect/BitFlip-v0", HERBuffer.create_factory(1000, n_step=2, seed=1), vec_env_size=2, kind=kind
    )
    run(scheme, 20)
    assert len(scheme.storage) == scheme.num_steps == 160
    assert scheme.storage.num_cuts == 0
    assert scheme.col_worker.episodes.success_rate is not None
    scheme.stop()


def test_going_on_from_a_state() -> None:
    scheme, other = make_scheme(), make_scheme()
    run(scheme, 6)
    other.load_state(scheme.state())
    assert (other.num_steps, other.num_updates) == (scheme.num_steps, scheme.num_updates)
    assert torch.equal(scheme.actor.generator.get_state(), other.actor.generator.get_state())


def test_the_same_seeds_give_the_same_weights() -> None:
    schemes = [make_scheme("sac", "ere"), make_scheme("sac", "ere")]
    for scheme in schemes:
        run(scheme, 12)
    weights = [scheme.actor.state_dict() for scheme in schemes]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())


@pytest.mark.parametrize(
    ("algo", "storage", "num_stages", "room"), [("ppo", "gae", 2, 6 * 4), ("ddqn", "replay", 45, 6 * (500 // 3))]
)
def test_the_room_of_the_storage_is_that_of_all_collectors(
    algo: str, storage: str, num_stages: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeEngine(monkeypatch)
    scheme = make_scheme(algo, storage, workers={"num_col_workers": 3, "col_resources": {"num_cpus": 0.5}})
    for _ in range(num_stages):
        run(scheme, 1)
        assert 0 < scheme.status().num_stored <= scheme.status().capacity
    assert scheme.status().num_stored == scheme.status().capacity == room
    scheme.stop()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_collecting_workers_join_and_leave_in_the_middle_of_a_run(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    fake = FakeEngine(monkeypatch)
    scheme = make_scheme(workers={"num_col_workers": 1, "col_mode": mode, "col_resources": {"num_cpus": 0.5}})
    numbers = []
    for change, number in ((scheme.add_col_workers, 2), (scheme.remove_col_workers, 1), (scheme.add_col_workers, 1)):
        run(scheme, 2)
        change(number)
        numbers.append((scheme.num_col_workers, scheme.status().reports[-1].index_worker))
    run(scheme, 2)
    assert numbers == [(3, 2), (2, 1), (3, 2)]
    assert scheme.num_steps == scheme.status().num_stored >= 8 * 8
    assert [handle.is_dead for handle in fake.handles] == [False, False, True, False]
    with pytest.raises(ConfigError, match="one must stay"):
        scheme.remove_col_workers(3)
    scheme.stop()


def test_what_workers_that_leave_have_sent_allows_for_updates_and_is_noted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    FakeEngine(monkeypatch)
    workers = {"num_col_workers": 3, "col_mode": "async", "col_resources": {"num_cpus": 0.5}}
    scheme: Any = make_scheme(start_steps=0, workers=workers)
    col_workers = scheme.gradients.col_workers
    worker = GWorker(0, lambda *_: col_workers, replay_ratio=0.5, journal_folder=tmp_path)
    update = UWorker(0, worker)
    for _ in range(2):
        update.step()
    num_steps = worker.col_worker.num_steps
    update.execute(SetNumCollectors(1))
    assert worker.col_worker.num_steps > num_steps
    successor = make_scheme().col_worker
    WorkerJournal(tmp_path, 0).load(successor)
    assert len(successor.storage) == successor.num_steps == worker.col_worker.num_steps
    for _ in range(2):
        update.step()
    assert update.num_updates == worker.col_worker.num_steps // 2
    scheme.stop()


def test_successors_of_gradient_workers_build_no_collectors_that_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeEngine(monkeypatch)
    small = {"num_cpus": 0.1}
    workers = {"num_grad_workers": 1, "num_col_workers": 2, "grad_resources": small, "col_resources": small}
    scheme = make_scheme(workers=workers)
    gradients: Any = scheme.gradients
    for change, number, expected in (
        (scheme.add_col_workers, 3, 5),
        (scheme.remove_col_workers, 2, 3),
        (scheme.remove_col_workers, 1, 2),
        (scheme.remove_col_workers, 1, 1),
    ):
        change(number)
        gradients.workers.handle(0).is_dead = True
        gradients.workers.wait([gradients.workers.call(0, "status")])
        successor = gradients.workers.handle(0)
        assert successor.calls == [("execute", (SetNumCollectors(expected),))]
        gradients.workers.wait([gradients.workers.call(0, "status")])
        assert successor.worker.col_workers.num_workers == scheme.num_col_workers == expected
    scheme.stop()


def test_gradient_workers_are_not_asked_for_a_number_of_collectors_that_makes_no_sense(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They would refuse it as a failure of theirs, and be rebuilt."""
    fake = FakeEngine(monkeypatch)
    scheme = make_scheme(workers={"num_grad_workers": 2, "grad_resources": {"num_cpus": 0.1}})
    with pytest.raises(ConfigError, match="from the start"):
        scheme.add_col_workers(1)
    with pytest.raises(ConfigError, match="at least 1"):
        scheme.remove_col_workers(0)
    assert all(handle.calls == [] for handle in fake.handles)
    scheme.stop()


def test_gradient_workers_and_their_collectors_share_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeEngine(monkeypatch)
    scheme = make_scheme(workers={"num_grad_workers": 2, "num_col_workers": 3})
    assert {handle.options["num_cpus"] for handle in fake.handles} == {0.5}, "4 cores for 8 workers"
    scheme.stop()
