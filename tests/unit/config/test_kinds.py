"""Presets by kind of task: untuned environments get hyperparameters that fit their spaces."""

import logging
from typing import Any

import gymnasium as gym
import pytest

from recollect import keys
from recollect.config import build, presets, resolve
from recollect.config.parts import ALGO, ENV, registry

# An environment without a preset of its own for each kind, and the algorithms that can act in it.
UNTUNED = {
    "image": "ALE/Breakout-v5",
    "vector": "MountainCar-v0",
    "vector-continuous": "Swimmer-v5",
    "goal": "FetchPush-v4",
}


@pytest.mark.parametrize(
    ("algo", "env", "name"),
    [
        ("ddqn", "ALE/Pong-v5", "image-ddqn"),
        ("ppo", "ALE/Pong-v5", "image-ppo"),
        ("sac-discrete", "ALE/Pong-v5", "image-sac-discrete"),
        ("sac", "CarRacing-v3", "image-sac"),
        ("ddqn", "MountainCar-v0", "vector-ddqn"),
        ("ppo", "Acrobot-v1", "vector-ppo"),
        ("ppo", "Swimmer-v5", "vector-continuous-ppo"),
        ("sac", "Swimmer-v5", "vector-sac"),
        ("td3", "Swimmer-v5", "vector-td3"),
        ("sac", "FetchPush-v4", "goal-sac"),
        ("ppo", "FetchPush-v4", "vector-continuous-ppo"),
    ],
)
def test_an_untuned_id_gets_the_preset_of_its_kind(
    algo: str, env: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, keys.PRESET_LOGGER):
        config = resolve(algo, env)
    expected = f"no preset for {algo} on {env}; using {name}: {presets.about(name)}"
    assert [record.getMessage() for record in caplog.records] == [expected]
    document = presets.load(name)
    assert config.steps == document["steps"]
    assert config.algo_options.items() >= {**document[ALGO], "name": None}.items() - {("name", None)}


@pytest.mark.parametrize(
    ("algo", "env", "name", "gamma"),
    [
        ("td3", "FetchPush-v4", "vector-td3", 0.95),
        ("mpo", "FetchPush-v4", "vector-mpo", 0.95),
        ("rainbow", "recollect/BitFlip-v0", "vector-rainbow", 0.98),
        ("sac-discrete", "recollect/BitFlip-v0", "vector-sac-discrete", 0.98),
    ],
)
def test_where_there_are_goals_a_preset_for_vectors_relabels(
    algo: str, env: str, name: str, gamma: float, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, keys.PRESET_LOGGER):
        config = resolve(algo, env)
    assert [record.getMessage() for record in caplog.records] == [
        f"no preset for {algo} on {env}; using {name}: {presets.about(name)}; with hindsight, because there are goals"
    ]
    assert (config.storage, config.algo_options["gamma"]) == ("her", gamma)
    document = presets.load(name)
    storage = document["storage"] if isinstance(document["storage"], dict) else {}
    expected = {**document[ALGO], "name": None, **storage}
    found = {**config.algo_options, "name": None, **config.storage_options}
    assert {key: found[key] for key in expected.keys() - {"gamma", "name"}}.items() <= expected.items()


def test_data_and_rollouts_are_not_relabelled_and_what_is_set_wins_over_hindsight() -> None:
    assert resolve("rlpd", "FetchPush-v4").storage == "mixed"
    assert resolve("ppo", "FetchPush-v4").storage == "gae"
    config = resolve("td3", "FetchPush-v4", overrides={"storage": "per", "gamma": 0.9})
    assert (config.storage, config.algo_options["gamma"]) == ("per", 0.9)


def test_a_tuned_preset_a_file_and_none_come_first(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("algo: ddqn\nenv: MountainCar-v0\n")
    with caplog.at_level(logging.INFO, keys.PRESET_LOGGER):
        assert resolve("ddqn", "CartPole-v1").algo_options["critic_lr"] == 1e-3
        assert resolve(file=file).algo_options == {}
        assert resolve("ddqn", "MountainCar-v0", preset="none").algo_options == {}
    assert not caplog.records


def test_what_is_set_wins() -> None:
    config = resolve("ddqn", "ALE/Pong-v5", overrides={"mini_batch_size": 64, "storage": "per", "steps": 500})
    assert (config.algo_options["mini_batch_size"], config.storage, config.steps) == (64, "per", 500)
    assert config.algo_options["update_every"] == 4
    assert config.storage_options["size"] == 100_000


@pytest.mark.parametrize(
    ("overrides", "num_envs", "num_mini_batch"),
    [
        ({}, 1, 2),
        ({"vec": "async"}, 8, 16),
        ({"num_envs": 3}, 3, 6),
        ({"vec": "async", "num_envs": 2}, 2, 4),
        ({"num_envs": 3, "num_col_workers": 2}, 3, 12),
        ({"num_envs": 3, "scheme.num_col_workers": 2}, 3, 12),
        ({"num_envs": 3, "num_col_workers": 2, "col_mode": "async"}, 3, 6),
    ],
)
def test_updates_for_each_step_stay_the_same_with_several_envs(
    overrides: dict[str, Any], num_envs: int, num_mini_batch: int
) -> None:
    config = resolve("ddqn", "MountainCar-v0", overrides=overrides)
    assert (config.num_envs, config.algo_options["num_mini_batch"]) == (num_envs, num_mini_batch)


@pytest.mark.parametrize("algo", list(registry(ALGO).built_in))
def test_every_algorithm_has_a_preset_for_images_and_for_vectors(algo: str) -> None:
    assert {f"image-{algo}", f"vector-{algo}"} <= set(presets.kinds())


def test_options_of_the_environment_count_for_its_kind() -> None:
    assert (
        resolve("ddqn", "ALE/Pong-v5", overrides={"env.screen_size": 20}).steps == presets.load("vector-ddqn")["steps"]
    )


def test_an_algorithm_that_cannot_act_there_has_no_kind() -> None:
    assert resolve("sac", "MountainCar-v0").algo_options == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", presets.kinds())
def test_every_kind_can_be_built_and_says_what_it_is(name: str) -> None:
    document = presets.load(name)
    algo = document[ALGO]["name"]
    kind = name.removesuffix(f"-{algo}")
    assert algo in registry(ALGO)
    assert kind in UNTUNED
    assert ENV not in document
    assert presets.about(name).endswith(")")
    is_discrete = gym.spaces.Box not in registry(ALGO)[algo].action_spaces
    env = "CarRacing-v3" if kind == "image" and not is_discrete else UNTUNED[kind]
    env = "Swimmer-v5" if kind == "vector" and not is_discrete else env
    env = "recollect/BitFlip-v0" if kind == "goal" and is_discrete else env
    config = resolve(algo, env, preset=name, overrides={"num_test_envs": 1, "storage.size": 1000})
    scheme = build(config)
    scheme.stop()
    num_stages = (config.steps - scheme.algo.start_steps) / (scheme.algo.update_every * config.num_envs)
    num_updates = num_stages * scheme.algo.num_epochs * scheme.algo.num_mini_batch
    assert 5 <= num_updates / scheme.algo.test_every <= 25, "a curve needs some evaluations, and they cost time"
