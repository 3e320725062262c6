"""A learner trains to its target, keeps the score, saves all that matters, and survives interruptions."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from recollect import keys, metrics
from recollect.agent.storages import ReplayBuffer
from recollect.errors import ConfigError, EnvError, NotFiniteError, SchemaError, StorageError, WorkerError
from recollect.learner import Learner
from recollect.runs import RunDirectory
from recollect.runs.checkpointing.commit import read_commit
from recollect.runs.writers import read_rows
from recollect.scheme import Scheme
from tests.reference import flatten, same_bits
from tests.schemes import make_scheme

KINDS = [("ddqn", "per", None), ("ddqn", "ere", None), ("ddqn", "per", "gru"), ("sac", "replay", None)]


def train(learner: Learner) -> Learner:
    while not learner.done():
        learner.step()
    return learner


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    """Ctrl-C as a program finds it; runners of tests have their own ways."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def test_a_learner_trains_to_its_target_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    learner = train(Learner(make_scheme(), 40))
    assert learner.num_steps == 40
    # Two updates a stage of 4 steps in 2 envs, from the second stage on.
    assert learner.num_updates == 2 * 4
    learner.stop()
    assert list(tmp_path.iterdir()) == []


def test_metrics_are_numbers_by_name() -> None:
    learner = train(Learner(make_scheme(test_every=4), 64))
    found = learner.get_metrics()
    assert all(isinstance(value, (int, float)) for value in found.values())
    assert found[metrics.STEPS] == 64
    assert found[metrics.UPDATES] == learner.num_updates == 14
    assert found[metrics.STORAGE_SIZE] == 64
    assert found[metrics.STORAGE_CAPACITY] == 1000
    assert found[metrics.STORAGE_BYTES] > 0
    assert found[metrics.EVAL_EPISODES] == 2
    assert found[metrics.EVAL_RETURN] == learner.last_evaluation.mean
    assert found[metrics.STEPS_PER_S] > 0
    losses = {name for name in found if name.startswith(metrics.ALGORITHM_PREFIX)}
    assert f"{metrics.ALGORITHM_PREFIX}loss_q" in losses
    assert f"{metrics.ALGORITHM_PREFIX}{keys.ERRORS}" not in losses


def test_what_is_not_known_is_no_metric() -> None:
    learner = Learner(make_scheme(), 64)
    learner.evaluate(1)
    found = learner.get_metrics()
    assert found[metrics.EVAL_EPISODES] == 1
    assert metrics.EVAL_STANDARD_ERROR not in found
    assert metrics.TRAIN_SUCCESS not in found


def test_losses_are_means_over_recent_updates() -> None:
    scheme = make_scheme()
    learner = Learner(scheme, 10)
    scheme.update_worker.recent_updates.extend(
        {keys.ALGORITHM: {"loss": torch.tensor(value), keys.ERRORS: torch.ones(4)}, keys.STORAGE: {"stale": value}}
        for value in (1.0, 5.0)
    )
    found = learner.get_metrics()
    assert found["algorithm/loss"] == found["storage/stale"] == 3.0


def test_evaluations_come_every_so_many_updates() -> None:
    scheme = make_scheme(test_every=6)
    learner = Learner(scheme, 1000)
    at: list[int] = []
    evaluate = scheme.col_worker.evaluate_episodes

    def note(num_episodes: int) -> Any:
        at.append(learner.num_updates)
        return evaluate(num_episodes)

    scheme.col_worker.evaluate_episodes = note  # type: ignore[method-assign]
    for _ in range(12):
        learner.step()
    assert at == [6, 12, 18]


def test_a_run_directory_holds_it_all(tmp_path: Path) -> None:
    learner = train(Learner(make_scheme(test_every=4), 80, tmp_path / "run", config={"seed": 1}, command="train"))
    learner.evaluate(3)
    checkpoint = learner.save_checkpoint()
    learner.stop()
    run = RunDirectory.open(tmp_path / "run")
    rows = read_rows(run.metrics_file)
    assert [int(row[metrics.STEPS]) for row in rows] == [*range(8, 88, 8)], "the last evaluation is in the last row"
    assert rows[-1][metrics.EVAL_EPISODES] == "3"
    # Metrics of an evaluation stand in the one row that follows it: updates 4, 8, 12, 16 and the last.
    assert sum(bool(row[metrics.EVAL_RETURN]) for row in rows) == 5
    assert run.config == {"seed": 1}
    assert checkpoint == run.checkpoints.newest()
    assert list(run.tensorboard_folder.iterdir())
    assert {path.name for path in run.storage_folder.glob("manifest-*.json")} == {
        f"manifest-{read_commit(path).replay.name}.json" for path in run.checkpoints.paths()
    }


def learn_from_stored(scheme: Scheme) -> None:
    """Update without collecting, which depends on nothing but what is restored."""
    for _ in scheme.gradients.compute_gradients():
        scheme.algo.apply_gradients()


def assert_same_learning(left: Scheme, right: Scheme) -> None:
    for _ in range(3):
        learn_from_stored(left)
        learn_from_stored(right)
    weights = right.actor.state_dict()
    for name, weight in left.actor.state_dict().items():
        assert torch.equal(weight, weights[name]), name


@pytest.mark.parametrize(("algo", "storage", "memory"), KINDS)
def test_a_resumed_run_continues_as_if_nothing_had_happened(
    algo: str, storage: str, memory: str | None, tmp_path: Path
) -> None:
    learner = train(Learner(make_scheme(algo, storage, memory=memory), 120, tmp_path, checkpoint_every=50))
    learner.save_checkpoint()
    resumed = Learner(make_scheme(algo, storage, memory=memory), 200, tmp_path, resume=True)
    assert (resumed.num_steps, resumed.num_updates) == (learner.num_steps, learner.num_updates)
    assert resumed.elapsed_s == learner.elapsed_s
    assert resumed.scheme.algo.num_updates == learner.scheme.algo.num_updates
    assert len(resumed.scheme.storage) == len(learner.scheme.storage)
    assert resumed.scheme.col_worker.episodes.num_episodes == learner.scheme.col_worker.episodes.num_episodes
    generators = [each.scheme.actor.generator for each in (learner, resumed)]
    assert torch.equal(*(torch.rand(3, generator=generator) for generator in generators))
    batch, other = (flatten(each.scheme.storage.sample(16)) for each in (learner, resumed))
    assert all(same_bits(values, other[path]) for path, values in batch.items())
    assert_same_learning(learner.scheme, resumed.scheme)
    train(resumed)
    assert resumed.num_steps == 200


def test_a_resumed_on_policy_run_continues(tmp_path: Path) -> None:
    learner = train(Learner(make_scheme("ppo", "gae", update_every=16), 128, tmp_path))
    learner.save_checkpoint()
    resumed = Learner(make_scheme("ppo", "gae", update_every=16), 192, tmp_path, resume=True)
    weights = resumed.scheme.actor.state_dict()
    for name, weight in learner.scheme.actor.state_dict().items():
        assert torch.equal(weight, weights[name]), name
    states = [each.scheme.storage.state() for each in (learner, resumed)]
    assert states[0] == states[1]
    train(resumed)
    assert resumed.num_steps == 192


def test_a_resumed_run_does_not_live_through_the_same_beginnings_again(tmp_path: Path) -> None:
    learner = Learner(make_scheme(), 400, tmp_path)
    beginnings = [learner.scheme.col_worker.obs]
    for _ in range(20):
        learner.step()
        beginnings += [learner.scheme.col_worker.envs_train.reset()]
    learner.save_checkpoint()
    resumed, again = (Learner(make_scheme(), 400, tmp_path, resume=True).scheme.col_worker for _ in range(2))
    assert not any((obs == resumed.obs).any() for obs in beginnings)
    assert (again.obs == resumed.obs).all()


def test_rows_of_steps_that_are_made_again_are_dropped(tmp_path: Path) -> None:
    learner = Learner(make_scheme(), 200, tmp_path, log_every=8, checkpoint_every=40, background_checkpoints=False)
    for _ in range(8):
        learner.step()
    resumed = Learner(make_scheme(), 200, tmp_path, log_every=8, resume=True)
    assert resumed.num_steps == 40
    resumed.step()
    assert [int(row[metrics.STEPS]) for row in read_rows(tmp_path / "metrics.csv")] == [8, 16, 24, 32, 40, 48]


def test_without_its_replay_a_run_collects_before_it_learns(tmp_path: Path) -> None:
    learner = train(Learner(make_scheme(), 80, tmp_path, save_storage=False))
    learner.save_checkpoint()
    resumed = Learner(make_scheme(), 200, tmp_path, resume=True)
    num_updates = resumed.num_updates
    resumed.step()
    assert resumed.num_updates == num_updates
    resumed.step()
    assert resumed.num_updates == num_updates + 2


def test_resuming_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        Learner(make_scheme(), 10, tmp_path, resume=True)
    with pytest.raises(ConfigError, match="give log_dir"):
        Learner(make_scheme(), 10, resume=True)
    with pytest.raises(ConfigError, match="give log_dir"):
        Learner(make_scheme(), 10).save_checkpoint()


def break_loss(scheme: Scheme, at_update: int) -> None:
    compute = scheme.algo.compute_gradients

    def broken(batch: Any, grads_to_cpu: bool = True) -> Any:
        if scheme.num_updates == at_update:
            raise NotFiniteError("loss_q is nan")
        return compute(batch, grads_to_cpu)

    scheme.algo.compute_gradients = broken


@pytest.mark.parametrize("checkpoint_every", [40, 1000])
def test_a_loss_that_is_not_finite_ends_with_the_batch_and_the_weights_before_it(
    checkpoint_every: int, tmp_path: Path
) -> None:
    scheme = make_scheme()
    break_loss(scheme, at_update=12)
    learner = Learner(scheme, 200, tmp_path, checkpoint_every=checkpoint_every)
    with pytest.raises(NotFiniteError) as caught:
        train(learner)
    good = learner.run.checkpoints.newest()
    assert str(good) in str(caught.value)
    assert "\n" not in str(caught.value)
    batch = load_file(learner.run.batch_file)
    assert str(learner.run.batch_file) in str(caught.value)
    assert batch[keys.REWARD].shape == (8, 1)
    resumed = Learner(make_scheme(), 200, tmp_path, resume=True)
    assert (resumed.num_steps, resumed.num_updates) == (64, 12)
    train(resumed)


def test_a_batch_that_cannot_be_saved_does_not_hide_the_loss(tmp_path: Path) -> None:
    scheme = make_scheme()
    break_loss(scheme, at_update=2)
    learner = Learner(scheme, 200, tmp_path)
    learner.run.batch_file.mkdir()
    with pytest.raises(NotFiniteError, match=r"loss_q is nan\. The batch could not be saved .*The training so far"):
        train(learner)


def test_updates_that_are_not_finite_are_not_applied() -> None:
    learner = Learner(make_scheme(), 200)
    scheme = learner.scheme
    while scheme.num_updates < 2:
        learner.step()
    weights = {name: weight.clone() for name, weight in scheme.actor.state_dict().items()}
    compute = scheme.algo.compute_gradients

    def poisoned(batch: Any, grads_to_cpu: bool = True) -> Any:
        return compute({**batch, keys.REWARD: torch.full_like(batch[keys.REWARD], float("nan"))}, grads_to_cpu)

    scheme.algo.compute_gradients = poisoned
    with pytest.raises(NotFiniteError):
        learner.step()
    assert all(torch.equal(weight, weights[name]) for name, weight in scheme.actor.state_dict().items())


@pytest.mark.parametrize("where", ["weights", "temperature"])
def test_where_the_present_state_is_not_finite_the_last_good_checkpoint_is_named(where: str, tmp_path: Path) -> None:
    scheme = make_scheme("sac", "replay")
    learner = Learner(scheme, 400, tmp_path, checkpoint_every=40, background_checkpoints=False)
    while learner.num_steps < 48:
        learner.step()
    before = learner.run.checkpoints.paths()
    good = before[-1]
    parameters = scheme.actor.critics.parameters() if where == "weights" else scheme.algo.multipliers.values()
    with torch.no_grad():
        next(iter(parameters)).fill_(float("nan"))
    with pytest.raises(NotFiniteError, match="could not be saved") as caught:
        train(learner)
    assert learner.run.checkpoints.paths() == before
    assert f"the last good checkpoint is {good}" in str(caught.value)
    assert str(learner.run.batch_file) in str(caught.value)


def test_without_a_folder_the_error_stays_as_it_is() -> None:
    scheme = make_scheme()
    break_loss(scheme, at_update=2)
    with pytest.raises(NotFiniteError, match=r"^loss_q is nan$"):
        train(Learner(scheme, 200))


def interrupt_at(scheme: Scheme, step: int, how: str) -> None:
    """Send Ctrl-C, or raise it on the spot, within the given call of the train envs."""
    envs, calls = scheme.col_worker.envs_train, 0
    take_step = envs.step

    def interrupted(action: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == step and how == "signal":
            os.kill(os.getpid(), signal.SIGINT)
        elif calls == step:
            raise KeyboardInterrupt
        return take_step(action)

    envs.step = interrupted


@pytest.mark.parametrize("how", ["signal", "at once"])
@pytest.mark.parametrize(("algo", "storage"), [("ddqn", "per"), ("ppo", "gae")])
def test_an_interrupted_run_can_be_saved_resumed_and_continued(
    algo: str, storage: str, how: str, tmp_path: Path
) -> None:
    scheme = make_scheme(algo, storage, update_every=8)
    learner = Learner(scheme, 160, tmp_path)
    interrupt_at(scheme, 43, how)
    with pytest.raises(KeyboardInterrupt):
        train(learner)
    # A stage has 16 steps in 2 envs; the signal waits for the end of the sixth.
    assert learner.num_steps == (96 if how == "signal" else 84)
    learner.save_checkpoint()
    resumed = Learner(make_scheme(algo, storage, update_every=8), 160, tmp_path, resume=True)
    assert resumed.num_steps == learner.num_steps
    for each in (learner, resumed):
        train(each)
        assert each.num_steps >= 160


def test_ctrl_c_waits_until_metrics_are_written(tmp_path: Path) -> None:
    class Writer:
        num_rows = 0

        def write(self, row: Any) -> None:
            if self.num_rows == 0:
                os.kill(os.getpid(), signal.SIGINT)
            self.num_rows += 1

        def close(self) -> None: ...

    writer = Writer()
    learner = Learner(make_scheme(), 200, tmp_path, log_every=1, writers=[writer])
    with pytest.raises(KeyboardInterrupt):
        learner.step()
    assert writer.num_rows == 1
    learner.save_checkpoint()
    learner.stop()
    assert writer.num_rows == 2


def test_ctrl_c_waits_for_all_that_is_due_after_the_stage() -> None:
    """Otherwise a resumed run would lack it: a checkpoint does not say that it is still to be done."""
    scheme, told = make_scheme(test_every=2), []
    learner = Learner(scheme, 100, callbacks=[lambda learner: told.append(learner.last_evaluation)])
    learner.step()
    interrupt_at(scheme, 1, "signal")
    with pytest.raises(KeyboardInterrupt):
        learner.step()
    assert len(told) == 2
    assert told[1] is not None


def test_an_interrupted_evaluation_is_made_again() -> None:
    scheme = make_scheme(test_every=2)
    learner = Learner(scheme, 100)
    learner.step()
    evaluate = scheme.col_worker.evaluate_episodes

    def interrupted(num_episodes: int) -> Any:
        scheme.col_worker.evaluate_episodes = evaluate  # type: ignore[method-assign]
        raise KeyboardInterrupt

    scheme.col_worker.evaluate_episodes = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        learner.step()
    assert learner.last_evaluation is None
    learner.step()
    assert learner.last_evaluation is not None


def test_parameters_change_while_running() -> None:
    learner = Learner(make_scheme(), 100)
    learner.update_algorithm_parameter("gamma", 0.5)
    learner.update_storage_parameter("n_step", 3)
    assert learner.scheme.algo.gamma == 0.5
    assert learner.scheme.storage.n_step == 3
    learner.update_algorithm_parameter("test_every", 2)
    learner.step()
    learner.step()
    assert learner.last_evaluation is not None


def test_a_model_can_be_saved_alone(tmp_path: Path) -> None:
    learner, other = Learner(make_scheme(), 10), make_scheme()
    with torch.no_grad():
        for parameter in learner.scheme.actor.parameters():
            parameter += 1
    learner.save_model(tmp_path / "actor.safetensors")
    other.actor.load(tmp_path / "actor.safetensors")
    assert all(
        torch.equal(*pair) for pair in zip(learner.scheme.actor.parameters(), other.actor.parameters(), strict=True)
    )


def test_info_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    learner = Learner(make_scheme(), 100)
    learner.step()
    with caplog.at_level("INFO"):
        learner.print_info()
    assert "8 of 100 steps" in caplog.text


def test_a_target_that_is_no_number_of_steps_is_refused() -> None:
    with pytest.raises(ConfigError, match="target_steps"):
        Learner(make_scheme(), 0)


def test_a_run_whose_workers_fail_is_saved_first(tmp_path: Path) -> None:
    scheme = make_scheme()
    learner = Learner(scheme, 400, tmp_path, checkpoint_every=400)
    for _ in range(4):
        learner.step()

    def fail() -> None:
        raise WorkerError("CWorker 3 failed: Traceback ... ZeroDivisionError")

    scheme.update_worker.step = fail  # type: ignore[method-assign]
    with pytest.raises(WorkerError, match="ZeroDivisionError") as caught:
        learner.step()
    saved = learner.run.checkpoints.newest()  # type: ignore[union-attr]
    assert str(saved) in str(caught.value)
    resumed = Learner(make_scheme(), 400, tmp_path, resume=True)
    assert (resumed.num_steps, resumed.num_updates) == (32, 6)


def fail_in_env(scheme: Scheme, step: int, reward: float | None = None) -> None:
    """Let the train envs give up at some step, or give a reward that cannot be learned from."""
    envs, calls = scheme.col_worker.envs_train, 0
    take_step = envs.step

    def failing(action: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < step:
            return take_step(action)
        if reward is None:
            raise EnvError("an env failed 6 times in a row")
        result = take_step(action)
        result.reward[1] = reward
        return result

    envs.step = failing


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "storage"), [("ddqn", "per"), ("ppo", "gae")])
@pytest.mark.parametrize("reward", [None, float("nan")])
def test_a_run_whose_envs_fail_is_saved_first(reward: float | None, algo: str, storage: str, tmp_path: Path) -> None:
    scheme = make_scheme(algo, storage)
    learner = Learner(scheme, 400, tmp_path, checkpoint_every=400)
    fail_in_env(scheme, 31, reward)
    with pytest.raises(EnvError if reward is None else SchemaError) as caught:
        train(learner)
    saved = learner.run.checkpoints.newest()  # type: ignore[union-attr]
    assert str(saved) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert reward is None or "env 1 gave nan after 60 steps, for the action " in str(caught.value)
    resumed = Learner(make_scheme(algo, storage), 400, tmp_path, resume=True)
    assert (resumed.num_steps, resumed.num_updates) == (60, learner.num_updates)
    train(resumed)


def test_a_run_whose_evaluation_fails_is_saved_first(tmp_path: Path) -> None:
    learner = train(Learner(make_scheme(), 40, tmp_path, checkpoint_every=400))

    def fail(num_episodes: int) -> None:
        raise EnvError("an env failed 6 times in a row")

    learner.scheme.col_worker.evaluate_episodes = fail  # type: ignore[method-assign]
    with pytest.raises(EnvError, match="The training so far is saved in"):
        learner.evaluate()
    assert Learner(make_scheme(), 80, tmp_path, resume=True).num_steps == 40


def test_an_error_is_told_even_if_nothing_can_be_saved(tmp_path: Path) -> None:
    scheme = make_scheme()
    learner = Learner(scheme, 400, tmp_path)
    (tmp_path / "checkpoints").touch()
    fail_in_env(scheme, 3)
    with pytest.raises(EnvError, match=r"6 times in a row\. The training since then could not be saved") as caught:
        learner.step()
    assert "there was no checkpoint yet" in str(caught.value)


@pytest.mark.parametrize("reason", [StorageError("the disk is full"), WorkerError("those who have it are gone")])
def test_a_storage_that_cannot_be_saved_does_not_keep_the_rest_from_it(reason: Exception, tmp_path: Path) -> None:
    scheme = make_scheme()
    learner = Learner(scheme, 400, tmp_path)
    learner.step()

    def fail(*_: Any) -> None:
        raise WorkerError("all workers are gone")

    def fail_to_save(*_: Any) -> None:
        raise reason

    scheme.update_worker.step = fail  # type: ignore[method-assign]
    scheme.save_storage = fail_to_save  # type: ignore[method-assign]
    with pytest.raises(WorkerError, match="The training so far is saved in"):
        learner.step()


def test_components_are_exchanged_while_running() -> None:
    learner = Learner(make_scheme(), 100)
    learner.replace_agent_component("storage", ReplayBuffer.create_factory(50, seed=1))
    assert learner.scheme.storage.max_size == 50
    with pytest.raises(ConfigError, match="no component 'storages'"):
        learner.replace_agent_component("storages", ReplayBuffer.create_factory(50, seed=1))
