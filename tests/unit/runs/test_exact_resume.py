"""A training that is saved anywhere and resumed elsewhere ends in the same bits as one that was never interrupted."""

import csv
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from recollect import keys, metrics
from recollect.api import Agent
from recollect.callbacks import Callback, Schedule
from recollect.learner import Learner
from recollect.roles import Training
from recollect.runs import RunDirectory
from recollect.runs.checkpointing.commit import read_commit
from recollect.scheme.collection.c_worker import CWorker
from tests.schemes import make_scheme

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {
    "hidden_sizes": [8],
    "mini_batch_size": 8,
    "num_test_envs": 1,
    "num_test_episodes": 1,
    "seed": 7,
}
COMBINATIONS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "ddqn uniform": ("ddqn", "CartPole-v1", "replay", {}),
    "ddqn per": ("ddqn", "CartPole-v1", "per", {"alpha": 0.6, "n_step": 3}),
    "ddqn ere": ("ddqn", "CartPole-v1", "ere", {"alpha": 0.6, "cmin": 10}),
    "ddqn her": ("ddqn", "recollect/BitFlip-v0", "her", {"alpha": 0.6, "env.n": 4}),
    "ddqn sequences": ("ddqn", "recollect/RecallCue-v0", "replay", {"memory": "gru"}),
    "sac": ("sac", "Pendulum-v1", "per", {"alpha": 0.6, "n_step": 3}),
    "sac with physics": ("sac", "Hopper-v5", "replay", {}),
    "sac in processes": ("sac", "Pendulum-v1", "replay", {"vec": "async"}),
    "sac-discrete": ("sac-discrete", "FrozenLake-v1", "replay", {}),
    "td3": ("td3", "Pendulum-v1", "replay", {}),
    "ddpg with drifting noise": ("ddpg", "Pendulum-v1", "replay", {"noise": "ou"}),
    "mpo": ("mpo", "Pendulum-v1", "replay", {}),
    "ppo": ("ppo", "CartPole-v1", "gae", {"update_every": 10}),
    "ppo with memory": ("ppo", "CartPole-v1", "vtrace", {"update_every": 10, "memory": "lstm"}),
    "normalised": ("sac", "Pendulum-v1", "replay", {"normalise_observations": True, "normalise_rewards": True}),
    "ppo normalised": ("ppo", "CartPole-v1", "gae", {"update_every": 10, "normalise_rewards": True}),
    "rainbow": ("rainbow", "CartPole-v1", "per", {"alpha": 0.5, "n_step": 3, "memory": "gru"}),
    "crossq": ("crossq", "Pendulum-v1", "replay", {}),
    "droq": ("droq", "Pendulum-v1", "replay", {"intrinsic": "rnd"}),
}


def make_agent(name: str) -> Agent:
    algo, env, storage, options = COMBINATIONS[name]
    first = {} if algo == "ppo" else {"start_steps": 20, "update_every": 10, "num_mini_batch": 3}
    return Agent(algo, env, storage=storage, **SMALL, **first, **options)


def all_of(agent: Agent) -> dict[str, np.ndarray]:
    """Weights, optimisers, counters, generators, environments, what is stored and drawn next, by their paths."""
    scheme = agent.scheme
    parts = {"actor": dict(scheme.actor.state_dict()), "state": scheme.state()}
    parts["stored"] = scheme.storage.get_all_buffer_data()
    if not scheme.algo.is_on_policy:
        parts["drawn"] = scheme.storage.sample(16)
    return dict(leaves("", parts))


def leaves(path: str, value: object) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(f"{path}/{name}", inner)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from leaves(f"{path}/{index}", inner)
    else:
        yield path, np.asarray(value)


@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_resumed_agent_ends_in_the_same_bits(name: str, tmp_path: Path) -> None:
    agent = make_agent(name)
    agent.learn(130)
    agent.save(tmp_path / "agent", with_storage=True)
    resumed = Agent.load(tmp_path / "agent")
    for each in (agent, resumed):
        each.learn(130)
        each.evaluate(2)
    expected, found = all_of(agent), all_of(resumed)
    agent.close()
    resumed.close()
    assert found.keys() == expected.keys()
    for path, values in expected.items():
        np.testing.assert_array_equal(found[path], values, err_msg=path)


# How fast the machine is, and how much memory is set aside, which a storage that was read back needs less of.
OF_THE_MACHINE = (
    metrics.ELAPSED_S,
    metrics.STEPS_PER_S,
    metrics.UPDATES_PER_S,
    metrics.STORAGE_BYTES,
    metrics.CHECKPOINT_STALL_MS,
    metrics.CHECKPOINT_WRITE_S,
)


class CopyOften(Callback):
    """Copies a run's folder after every update stage, as a process that is killed there would leave it."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def on_step(self, learner: Training) -> None:
        shutil.copytree(learner.folder.path, self.target / f"{learner.num_steps:05d}")


def rows_of(folder: Path) -> list[dict[str, str]]:
    """The rows of metrics, but for what depends on the machine."""
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [{name: value for name, value in row.items() if name not in OF_THE_MACHINE} for row in rows]


@pytest.mark.parametrize("algo", ["ddqn", "sac", "ppo"])
def test_a_run_that_is_killed_anywhere_leaves_what_an_uninterrupted_one_leaves(algo: str, tmp_path: Path) -> None:
    storage = "gae" if algo == "ppo" else "per"
    # What is copied here must not change meanwhile.
    options: dict[str, Any] = {"log_every": 10, "checkpoint_every": 48, "background_checkpoints": False}
    schemes = [make_scheme(algo, storage, test_every=6)]
    learner = Learner(schemes[0], 240, tmp_path / "whole", callbacks=[CopyOften(tmp_path / "killed")], **options)
    learner.train()
    expected = dict(leaves("", {"actor": learner.scheme.actor.state_dict(), "state": learner.scheme.state()}))
    learner.stop()
    left = sorted((tmp_path / "killed").iterdir())
    for folder in left[8:-1:7]:
        resumed = Learner(make_scheme(algo, storage, test_every=6), 240, folder, resume=True, **options)
        assert 0 < resumed.num_steps <= int(folder.name)
        resumed.train()
        found = dict(leaves("", {"actor": resumed.scheme.actor.state_dict(), "state": resumed.scheme.state()}))
        resumed.stop()
        assert found.keys() == expected.keys()
        for path, values in expected.items():
            np.testing.assert_array_equal(found[path], values, err_msg=path)
        assert rows_of(folder) == rows_of(tmp_path / "whole")


class Noting(Callback):
    """Logs the number of episodes as each of them ends, whenever the next row comes."""

    def on_episode_end(self, learner: Training, episode: object) -> None:
        assert isinstance(learner, Learner)
        learner.log({"noted": learner.scheme.status().episodes.num_episodes})


def test_rows_of_a_resumed_run_have_what_callbacks_logged_before_it_was_killed(tmp_path: Path) -> None:
    options: dict[str, Any] = {"log_every": 70, "checkpoint_every": 24, "background_checkpoints": False}

    def train(folder: Path, *callbacks: Callback, resume: bool = False) -> list[dict[str, str]]:
        flat = Schedule("critic_lr", [(0, 1e-3), (150, 1e-3), (200, 1e-4)])
        learner = Learner(make_scheme(), 240, folder, callbacks=[*callbacks, Noting(), flat], resume=resume, **options)
        learner.train()
        learner.stop()
        return rows_of(folder)

    expected = train(tmp_path / "whole", CopyOften(tmp_path / "killed"))
    assert {"noted", "schedule/critic_lr"} <= expected[0].keys()
    for folder in sorted((tmp_path / "killed").iterdir())[3::6]:
        assert train(folder, resume=True) == expected


def test_a_run_whose_environments_cannot_be_saved_says_so_at_its_start_and_when_it_is_resumed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", keys.RESUME_LOGGER)
    options = {"hidden_sizes": [8], "start_steps": 20, "mini_batch_size": 8, "num_test_envs": 1}
    with Agent("ddqn", "LunarLander-v3", **options) as agent:
        agent.learn(30, log_dir=tmp_path / "run")
    reason = "nobody knows the state of gymnasium.envs.box2d.lunar_lander.LunarLander"
    assert caplog.text.count(f"if this run is resumed, new episodes begin: {reason}")
    newest = read_commit(RunDirectory.open(tmp_path / "run").checkpoints.newest())
    assert newest.promise.startswith(f"resumes with new episodes: {reason}")
    with Agent.load(tmp_path / "run") as agent:
        assert not agent.scheme.col_worker.continues_episodes
        agent.learn(30)
    assert f"new episodes begin, because those of the checkpoint cannot be continued: {reason}" in caplog.text


def test_nothing_is_said_where_episodes_can_be_continued(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", keys.RESUME_LOGGER)
    with make_agent("ddqn uniform") as agent:
        agent.learn(30, log_dir=tmp_path / "run")
    with Agent.load(tmp_path / "run") as agent:
        assert agent.scheme.col_worker.continues_episodes
    assert "episodes" not in caplog.text


def test_an_agent_that_is_given_another_environment_begins_new_episodes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with make_agent("ddqn uniform") as agent:
        agent.learn(130)
        agent.save(tmp_path / "agent", with_storage=True)
    with Agent.load(tmp_path / "agent", env=lambda: gym.make("CartPole-v1", disable_env_checker=False)) as other:
        assert not other.scheme.col_worker.continues_episodes
        assert "a saved state is of an env made of" in caplog.text
        other.learn(30)
        other.evaluate(1)


def test_environments_that_are_ahead_of_the_storage_are_not_resumed() -> None:
    scheme = make_scheme("ddqn", "per")
    worker = scheme.col_worker
    assert isinstance(worker, CWorker)
    assert scheme.resume_gap is None
    worker.deferred.begin(is_parallel=False)
    worker.deferred.take()
    assert scheme.resume_gap == "a stage was interrupted"
    worker.deferred.store()
    assert scheme.resume_gap is None
    scheme.stop()
