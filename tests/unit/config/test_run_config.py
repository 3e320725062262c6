"""The config that is meant is found: preset, file, overrides, in this order."""

from pathlib import Path
from typing import Any

import pytest

from recollect.config import RunConfig, presets, resolve
from recollect.errors import ConfigError


def test_without_a_word_it_is_the_default_preset() -> None:
    config = resolve()
    assert (config.algo, config.env, config.storage) == ("sac", "Pendulum-v1", "per")
    assert config.storage_options["n_step"] > 1
    assert config.storage_options["alpha"] > 0


def test_the_preset_of_algorithm_and_environment_is_taken_by_itself() -> None:
    assert resolve("sac", "Pendulum-v1") == resolve()
    assert resolve("sac", "Pendulum-v1", preset="pendulum-sac") == resolve()


def test_without_a_preset_the_plainest_storage_and_defaults_are_taken() -> None:
    config = resolve("sac", "Pendulum-v1", preset="none")
    assert config == RunConfig(algo="sac", env="Pendulum-v1", storage="replay")
    assert resolve("ppo", "Pendulum-v1", preset="none").storage == "gae"


def test_a_preset_by_name_brings_algorithm_and_environment() -> None:
    config = resolve(preset="cartpole-ddqn")
    assert (config.algo, config.env) == ("ddqn", "CartPole-v1")


def test_overrides_by_path() -> None:
    overrides = {"storage.alpha": 0.1, "algo.gamma": 0.5, "actor.hidden_sizes": [8], "env.g": 9.0, "seed": 7}
    config = resolve("sac", "Pendulum-v1", overrides=overrides)
    assert config.storage_options["alpha"] == 0.1
    assert config.algo_options["gamma"] == 0.5
    assert config.actor_options["hidden_sizes"] == [8]
    assert config.env_options == {"g": 9.0}
    assert config.seed == 7


def test_an_option_that_one_part_has_needs_no_part_before_it() -> None:
    config = resolve("sac", "Pendulum-v1", overrides={"n_step": 5, "gamma": 0.9, "hidden_sizes": [8]})
    assert config.storage_options["n_step"] == 5
    assert config.algo_options["gamma"] == 0.9
    assert config.actor_options["hidden_sizes"] == [8]


@pytest.mark.parametrize("order", [("storage", "n_step"), ("n_step", "storage")])
def test_parts_are_exchanged_before_options_are_set_in_them(order: tuple[str, str]) -> None:
    values: dict[str, Any] = {"storage": "per", "n_step": 5}
    config = resolve("sac", "Pendulum-v1", preset="none", overrides={name: values[name] for name in order})
    assert (config.storage, config.storage_options["n_step"]) == ("per", 5)


def test_an_exchanged_part_keeps_the_options_that_it_has() -> None:
    preset = resolve("sac", "Pendulum-v1").storage_options
    changed = resolve("sac", "Pendulum-v1", overrides={"storage": "ere"}).storage_options
    assert changed == {**preset, "eta": 0.996}
    left = resolve("sac", "Pendulum-v1", overrides={"storage": "nstep"}).storage_options
    assert left["n_step"] == preset["n_step"]
    assert "alpha" not in left


def test_an_option_given_for_an_exchanged_part_must_fit_it() -> None:
    with pytest.raises(ConfigError, match="storage has no option 'alpha'"):
        resolve("sac", "Pendulum-v1", overrides={"storage": "nstep", "storage.alpha": 0.6})


def test_a_file_goes_over_defaults_and_under_overrides(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("algo: {name: sac, gamma: 0.9}\nenv: Pendulum-v1\nseed: 5\nsteps: 100\n")
    config = resolve(file=file, overrides={"steps": 200})
    assert config == RunConfig(
        algo="sac", env="Pendulum-v1", storage="replay", seed=5, steps=200, algo_options={"gamma": 0.9}
    )
    over_preset = resolve(file=file, preset="pendulum-sac")
    assert (over_preset.storage, over_preset.steps) == ("per", 100)
    assert resolve("td3", file=file).algo_options == {"gamma": 0.9}


def test_threads_that_no_machine_has_are_refused() -> None:
    assert resolve("sac", "Pendulum-v1", overrides={"threads": 1024}).threads == 1024
    with pytest.raises(ConfigError, match="threads must be at most 1024, got 1048577"):
        resolve("sac", "Pendulum-v1", overrides={"threads": 1048577})


def test_a_config_survives_its_file(tmp_path: Path) -> None:
    config = resolve("sac", "Pendulum-v1", overrides={"actor.hidden_sizes": [8, 8], "threads": None, "env.g": 9.5})
    config.save(tmp_path / "config.yaml")
    assert RunConfig.load(tmp_path / "config.yaml") == config
    assert resolve(file=tmp_path / "config.yaml") == config


def test_names_of_algorithms_and_storages_go_in_any_case(tmp_path: Path) -> None:
    config = resolve("SAC", "Pendulum-v1", overrides={"storage": "Ere"})
    assert config == resolve("sac", "Pendulum-v1", overrides={"storage": "ere"})
    assert config.algo_options["policy_lr"] == 1e-3, "with the preset"
    file = tmp_path / "run.yaml"
    file.write_text("algo: {name: DDQN}\nenv: CartPole-v1\nstorage: {name: PER}\n")
    assert (resolve(file=file).algo, resolve(file=file).storage) == ("ddqn", "per")


@pytest.mark.parametrize(
    ("algo", "name", "hint"),
    [
        ("sac", "buffer_size", "'storage.size'"),
        ("sac", "learning_rate", "'policy_lr' or 'critic_lr'"),
        ("ppo", "learning_rate", "'lr'"),
        ("sac", "learning_starts", "'start_steps'"),
        ("sac", "train_freq", "'update_every'"),
        ("sac", "gradient_steps", "'num_mini_batch'"),
        ("sac", "batch_size", "'mini_batch_size'"),
        ("sac", "ent_coef", "'temperature'"),
        ("ppo", "ent_coef", "'entropy_weight'"),
        ("ppo", "n_steps", "'update_every'"),
        ("sac", "n_envs", "'num_envs'"),
        ("sac", "policy_kwargs", "'hidden_sizes' or 'activation'"),
        ("sac", "algo.learning_rate", "'policy_lr' or 'critic_lr'"),
    ],
)
def test_names_of_stable_baselines_are_refused_with_ours(algo: str, name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(algo, "Pendulum-v1", preset="none", overrides={name: 1})
    assert str(caught.value).endswith(f"{name.rpartition('.')[2]!r}; did you mean {hint}?")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"algo": "sca", "env": "Pendulum-v1"}, "there is no algorithm 'sca'; did you mean 'sac'?"),
        ({"algo": "sac"}, "the run needs an env"),
        ({"env": "Pendulum-v1"}, "the run needs an algo"),
        ({"preset": "pendulum-sca"}, "there is no preset 'pendulum-sca'; did you mean 'pendulum-sac'?"),
        ({"overrides": {"storage": "pre"}}, "there is no storage 'pre'"),
        ({"overrides": {"storage.alhpa": 0.6}}, "storage has no option 'alhpa'; did you mean 'alpha'?"),
        ({"overrides": {"sede": 3}}, "a run has no option 'sede'; did you mean 'seed'?"),
        ({"overrides": {"stroage.alpha": 0.6}}, "a run has no option 'stroage.alpha'; did you mean 'storage.alpha'?"),
        ({"overrides": {"seed": -1}}, "seed must be"),
        ({"overrides": {"steps": 0}}, "steps must be at least 1, got 0"),
        ({"overrides": {"vec": "asink"}}, "vec must be one of"),
        ({"overrides": {"actor": "big"}}, "actor must be a mapping of options"),
        ({"overrides": {"storage": "gae"}}, "sac cannot learn from the storage 'gae'; use replay or nstep"),
    ],
)
def test_what_cannot_work_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(**arguments)
    assert message in str(caught.value)


def test_an_entry_that_no_run_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="a run has no entry 'stesp'; did you mean 'steps'"):
        RunConfig.from_document({"algo": "sac", "env": "Pendulum-v1", "stesp": 3})


@pytest.mark.parametrize("name", presets.names())
def test_presets_resolve_and_say_what_they_are(name: str) -> None:
    config = resolve(preset=name)
    assert presets.find(config.algo, config.env) == name, "two presets for one algorithm and environment"
    assert presets.about(name)
    assert RunConfig.from_document(config.to_document()) == config


def test_a_preset_says_how_it_did_or_that_it_is_untested() -> None:
    assert presets.tested("pendulum-sac").keys() == {"return", "error", "seeds", "date"}
    assert presets.about("fetchreach-sac-her").endswith("(success 100 % ± 0 %, 3 seeds, 2026-11-16)")
    assert presets.tested("hopper-sac") is None
    assert "(untested; published: return 2,249" in presets.about("hopper-sac")


def test_a_preset_that_begins_with_another_says_only_what_differs() -> None:
    base, found = presets.load("vector-sac"), presets.load("bipedalwalker-sac")
    assert found["algo"]["gamma"] == 0.98
    assert found["algo"]["mini_batch_size"] == base["algo"]["mini_batch_size"]
    assert found["storage"] == base["storage"]
    assert found["env"] == "BipedalWalker-v3"
    assert presets.load("pong-rainbow")["algo"] == presets.load("image-rainbow")["algo"]
    assert base == presets.load("vector-sac"), "loading one preset changes no other"
