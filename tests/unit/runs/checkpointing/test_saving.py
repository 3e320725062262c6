"""A run that continues has the parameters that were in force when it was saved."""

from pathlib import Path

import pytest

from recollect.api import Agent
from recollect.errors import StorageError
from recollect.learner import Learner
from recollect.runs import RunDirectory
from recollect.runs.checkpointing.captured_agent import CapturedAgent
from recollect.runs.checkpointing.saving import restore_training, save_training
from tests.schemes import make_scheme

CHANGES = {
    "ddqn": (
        "ere",
        {"gamma": 0.5, "critic_lr": 0.01, "test_every": 3},
        {"max_size": 700, "n_step": 4, "alpha": 0.3, "epsilon": 0.2, "beta": 0.9, "cmin": 7},
    ),
    "ppo": ("vtrace", {"entropy_weight": 0.25}, {"max_size": 40, "rho_bar": 2.0, "trace_lambda": 0.5}),
}


def parameters_of(learner: Learner, algo: str) -> dict[str, object]:
    """What is in force of all that is changed here."""
    _, algorithm, storage = CHANGES[algo]
    config, stored = learner.scheme.algo.config, learner.scheme.storage
    return {**{name: getattr(config, name) for name in algorithm}, **{name: getattr(stored, name) for name in storage}}


@pytest.mark.parametrize("algo", CHANGES)
def test_changed_parameters_stay_changed_however_often_a_run_is_resumed(algo: str, tmp_path: Path) -> None:
    storage, of_algorithm, of_storage = CHANGES[algo]
    learner = Learner(make_scheme(algo, storage), 400, tmp_path)
    learner.step()
    for name, value in of_algorithm.items():
        learner.update_algorithm_parameter(name, value)
    for name, value in of_storage.items():
        learner.update_storage_parameter(name, value)
    learner.step()
    learner.save_checkpoint()
    learner.stop()
    for _ in range(2):
        resumed = Learner(make_scheme(algo, storage), 400, tmp_path, resume=True)
        assert parameters_of(resumed, algo) == of_algorithm | of_storage
        resumed.step()
        resumed.save_checkpoint()
        resumed.stop()


def test_the_latest_change_counts_wherever_it_was_made(tmp_path: Path) -> None:
    learner = Learner(make_scheme(), 400, tmp_path)
    learner.update_storage_parameter("gamma", 0.7)
    learner.scheme.algo.update_algorithm_parameter("gamma", 0.6)
    learner.save_checkpoint()
    assert Learner(make_scheme(), 400, tmp_path, resume=True).scheme.algo.gamma == 0.6


def test_a_storage_that_has_grown_is_read_back_whole(tmp_path: Path) -> None:
    learner = Learner(make_scheme(update_every=600), 2000, tmp_path)
    assert learner.scheme.storage.max_size == 500
    learner.update_storage_parameter("max_size", 700)
    learner.step()
    learner.save_checkpoint()
    resumed = Learner(make_scheme(update_every=600), 2000, tmp_path, resume=True)
    assert len(resumed.scheme.storage) == len(learner.scheme.storage) == 2 * 600


@pytest.mark.filterwarnings("ignore:.*nothing was changed")
def test_what_was_refused_is_not_kept(tmp_path: Path) -> None:
    scheme = make_scheme()
    scheme.update_storage_parameter("alhpa", 0.3)
    scheme.update_algorithm_parameter("gama", 0.3)
    for change in (scheme.update_storage_parameter, scheme.update_algorithm_parameter):
        with pytest.raises(ValueError, match="gamma must be"):
            change("gamma", 7.0)
    save_training(RunDirectory.create(tmp_path), scheme, 0.0)
    other = make_scheme()
    restore_training(RunDirectory.open(tmp_path), other)
    assert (other.storage.changed_parameters, other.algo.changed_parameters) == ({}, {})


def test_what_was_not_changed_follows_the_config(tmp_path: Path) -> None:
    learner = Learner(make_scheme(), 400, tmp_path)
    learner.update_storage_parameter("n_step", 4)
    learner.save_checkpoint()
    resumed = Learner(make_scheme(gamma=0.8), 400, tmp_path, resume=True)
    assert (resumed.scheme.algo.gamma, resumed.scheme.storage.n_step) == (0.8, 4)


def test_an_agent_that_is_loaded_and_saved_again_keeps_them(tmp_path: Path) -> None:
    agent = Agent("ddqn", "CartPole-v1", storage="per", hidden_sizes=(8,), start_steps=10, num_test_envs=1)
    agent.scheme.update_storage_parameter("alpha", 0.9)
    agent.save(tmp_path / "first")
    agent.close()
    again = Agent.load(tmp_path / "first")
    again.save(tmp_path / "second")
    again.close()
    last = Agent.load(tmp_path / "second")
    last.close()
    assert last.scheme.storage.alpha == 0.9


def test_a_checkpoint_of_something_else_is_named(tmp_path: Path) -> None:
    learner = Learner(make_scheme(), 400, tmp_path)
    path = learner.save_checkpoint()
    learner.run.checkpoints.write(CapturedAgent.of(learner.scheme.actor, {}).dump(), 0)  # type: ignore[union-attr]
    with pytest.raises(StorageError, match=f"{path.parent}.* does not fit this run: it lacks 'scheme'"):
        Learner(make_scheme(), 400, tmp_path, resume=True)
