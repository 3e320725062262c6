"""Learning from given data: before the first env step, then online, resumed to the bit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import recollect as rc
from recollect import keys
from recollect.config import RunConfig, build, resolve
from recollect.data.episode import Episode, Spaces
from recollect.data.npz import NpzSource, write_npz
from recollect.data.offline import load_data
from recollect.errors import ConfigError, SchemaError
from recollect.learner import Learner
from recollect.runs.directory import RunDirectory
from tests.unit.cli.conftest import Run, recollect

__all__ = ["recollect"]  # the fixture

NUM_STEPS = 120
SMALL: dict[str, Any] = {
    "hidden_sizes": [8],
    "mini_batch_size": 16,
    "num_mini_batch": 2,
    "update_every": 2,
    "test_every": 0,
    "threads": 1,
    "num_test_envs": 1,
}


def make_episode(rng: np.random.Generator, num_steps: int, **extras: np.ndarray) -> Episode:
    observations = rng.normal(size=(num_steps + 1, 3)).astype(np.float32)
    actions = rng.uniform(-2, 2, (num_steps, 1)).astype(np.float32)
    return Episode(observations, actions, rng.normal(size=num_steps).astype(np.float32), False, True, extras)


def spaces() -> Spaces:
    env = gym.make("Pendulum-v1")
    return Spaces(env.observation_space, env.action_space, "Pendulum-v1")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    return write_npz(tmp_path / "data.npz", [make_episode(rng, NUM_STEPS // 3) for _ in range(3)], spaces())


def words(options: dict[str, Any]) -> list[str]:
    return [word for name, value in options.items() for word in ("--set", f"{name}={value}")]


def config_of(algo: str, data: Path, **settings: Any) -> RunConfig:
    return resolve(algo, "Pendulum-v1", preset="none", overrides={**SMALL, "data": str(data), **settings})


@pytest.mark.parametrize("algo", ["iql", "td3-bc"])
def test_a_run_learns_from_data_alone_and_then_online(algo: str, data: Path, recollect: Run, tmp_path: Path) -> None:
    given = ("--preset", "none", "--data", str(data), "--final-episodes", "1", *words(SMALL))
    outcome = recollect("train", algo, "Pendulum-v1", "--steps", "0", "--updates", "60", *given)
    assert outcome.code == 0, outcome.err
    folder = tmp_path / "runs" / f"pendulum-{algo}-1"
    with rc.Agent.load(folder) as agent:
        assert (agent.num_steps, agent.scheme.num_updates) == (0, 60)
        assert agent.config.algo_options["start_steps"] == 0
    outcome = recollect("resume", str(folder), "--steps", "20")
    assert outcome.code == 0, outcome.err
    with rc.Agent.load(folder) as agent:
        assert (agent.num_steps, agent.scheme.num_updates) == (20, 80)
        assert len(agent.scheme.col_worker.storage) == NUM_STEPS + 20
        assert agent.scheme.algo.num_acted == 20, "no action was random"


def test_an_agent_learns_from_data_like_the_command(data: Path, recollect: Run, tmp_path: Path) -> None:
    given = ("--preset", "none", "--data", str(data), "--final-episodes", "1", *words(SMALL))
    assert recollect("train", "iql", "Pendulum-v1", "--steps", "20", "--updates", "60", *given).code == 0
    with (
        rc.Agent("iql", "Pendulum-v1", preset="none", data=data, updates=60, **SMALL) as agent,
        rc.Agent.load(tmp_path / "runs" / "pendulum-iql-1") as other,
    ):
        agent.learn(0).learn(20)
        assert len(agent.scheme.col_worker.storage) == NUM_STEPS + 20
        assert_same_weights(agent.scheme.actor, other.scheme.actor)


def assert_same_weights(one: torch.nn.Module, other: torch.nn.Module) -> None:
    others = other.state_dict()
    for name, values in one.state_dict().items():
        assert torch.equal(values, others[name]), name


def test_normalisers_see_data_as_if_it_had_been_collected(data: Path) -> None:
    changes = {"normalise_observations": True, "normalise_rewards": True, "gamma": 0.5}
    scheme = build(config_of("td3-bc", data, **changes))
    load_data(config_of("td3-bc", data, **changes), scheme)
    actor: Any = scheme.actor
    episodes = list(NpzSource(data))
    seen = np.concatenate([episode.observations[:-1] for episode in episodes])
    np.testing.assert_allclose(actor.normaliser.running.mean, seen.mean(0), rtol=1e-5)
    np.testing.assert_allclose(actor.normaliser.running.variance, seen.var(0), rtol=1e-5)
    # The return of what led to each step, and no reward of another episode.
    returns = [
        sum(0.5 ** (step - past) * episode.rewards[past] for past in range(step + 1))
        for episode in episodes
        for step in range(len(episode))
    ]
    assert actor.reward_normaliser.running.variance.item() == pytest.approx(np.var(returns), rel=1e-5)
    load_data(config_of("td3-bc", data, **changes), scheme)
    assert actor.normaliser.running.count == NUM_STEPS, "once"
    scheme.stop()


@pytest.mark.parametrize("storage", ["replay", "per", "mixed"])
@pytest.mark.parametrize("recomputes", [True, False])
def test_data_are_rewarded_for_what_is_new_as_own_steps_are(
    storage: str, recomputes: bool, data: Path, tmp_path: Path
) -> None:
    changes = {"intrinsic": "rnd", "recompute_intrinsic": recomputes, "storage": storage, "start_steps": 0}
    config = config_of("sac", data, steps=20, updates=10, **changes)
    learner = Learner(build(config), 20, tmp_path / "run", offline_updates=10)
    load_data(config, learner.scheme)
    actor, stored = learner.scheme.actor, learner.scheme.col_worker.storage
    reached = np.concatenate([episode.observations[1:] for episode in NpzSource(data)])
    found = np.concatenate([np.asarray(steps[keys.IREWARD]) for steps in stored.episodes()])
    np.testing.assert_allclose(np.sort(found, 0), np.sort(actor.intrinsic_reward(reached), 0), rtol=1e-4)  # type: ignore[attr-defined]
    while not learner.done():
        learner.step()
    assert len(stored) == NUM_STEPS + 20
    learner.stop()


def test_data_with_intrinsic_rewards_serve_an_agent_without(tmp_path: Path) -> None:
    news = {keys.IREWARD: np.ones((20, 1), np.float32)}
    place = write_npz(tmp_path / "new.npz", [make_episode(np.random.default_rng(1), 20, **news)], spaces())
    config = config_of("sac", place, start_steps=0)
    scheme = build(config)
    load_data(config, scheme)
    scheme.update_worker.step()
    assert keys.IREWARD not in scheme.col_worker.storage.data  # type: ignore[attr-defined]
    scheme.stop()


@pytest.mark.parametrize("storage", ["per", "mixed"])
def test_updates_from_data_resume_to_the_bit(storage: str, data: Path, tmp_path: Path) -> None:
    options = {"storage": storage, "storage.alpha": 0.6}
    config = config_of("iql", data, updates=130, steps=20, **options)

    def begin(scheme: Any, folder: str, **options: Any) -> Learner:
        document = config.with_defaults().to_document()
        given = {} if options else {"config": document}
        return Learner(scheme, 20, tmp_path / folder, offline_updates=130, save_storage=True, **given, **options)

    whole, first, second = build(config), build(config), build(config)
    for scheme in (whole, first):
        load_data(config, scheme)
        assert len(scheme.col_worker.storage) == NUM_STEPS
    undisturbed = begin(whole, "whole")
    undisturbed.train()
    broken = begin(first, "broken")
    broken.step()
    assert broken.num_updates == 50
    broken.save_checkpoint()
    broken.stop()
    resumed = begin(second, "broken", resume=True)
    load_data(config, second)
    assert len(second.col_worker.storage) == NUM_STEPS, "they are in the checkpoint"
    resumed.train()
    assert resumed.num_updates == undisturbed.num_updates == 150
    assert_same_weights(second.actor, whole.actor)
    for learner in (undisturbed, resumed):
        learner.stop()


def test_checkpoints_are_written_while_learning_from_data(data: Path, tmp_path: Path) -> None:
    config = config_of("iql", data, updates=100, steps=0)
    scheme = build(config)
    load_data(config, scheme)
    learner = Learner(scheme, 0, tmp_path / "run", offline_updates=100, background_checkpoints=False)
    learner.step()
    assert RunDirectory.open(tmp_path / "run").checkpoints.paths()
    learner.stop()


@pytest.mark.parametrize(
    ("algo", "changes", "message"),
    [
        ("iql", {"updates": 5, "data": None}, "need data; give --data"),
        ("iql", {"steps": 0}, "steps must be at least 1, got 0; to learn from data alone give --data and --updates"),
        ("iql", {"data": 3}, "data must be the path or name of data, got 3"),
    ],
)
def test_what_cannot_work_is_refused(algo: str, changes: dict[str, Any], message: str, data: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(config_of(algo, data), **changes)


def test_an_on_policy_algorithm_takes_no_data(data: Path) -> None:
    agent = rc.Agent("ppo", "Pendulum-v1", preset="none", data=data, threads=1)
    with agent, pytest.raises(ConfigError, match="ppo learns from its own experience alone"):
        agent.learn(10)


def test_merging_does_not_drop_hidden_states(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    episodes = [make_episode(rng, 4, **{keys.RHS: np.ones((4, 2), np.float32)}), make_episode(rng, 4)]
    with pytest.raises(SchemaError, match="some episodes have hidden states and others have none"):
        write_npz(tmp_path / "both.npz", episodes, spaces())
    assert not (tmp_path / "both.npz").exists()
