"""A storage that is chosen by its name is what the name says."""

from pathlib import Path
from typing import Any

import pytest

from recollect.agent.storages import EREBuffer, PERBuffer
from recollect.config import RunConfig, build, resolve
from recollect.config.parts import STORAGE, listed_options, options_of

PRIORITISED = {"alpha": 0.6, "beta": 0.4, "epsilon": 0.01}


def options(algo: str, env: str, preset: str = "auto", **overrides: Any) -> dict[str, Any]:
    return resolve(algo, env, preset=preset, overrides=overrides).options(STORAGE)


def test_named_storages_do_what_they_are_named_for() -> None:
    assert options("ddqn", "CartPole-v1", "none", storage="per") == PRIORITISED
    assert options("ddqn", "CartPole-v1", "none", storage="ere") == {"eta": 0.996}
    assert options("ddqn", "CartPole-v1", "none", storage="nstep") == {"n_step": 3}
    assert options("ddqn", "CartPole-v1", "none", storage="her") == {}
    assert options("ddqn", "CartPole-v1", "none") == {}


def test_they_keep_what_a_preset_says() -> None:
    assert options("ddqn", "LunarLander-v3", storage="per") == {"size": 50_000, **PRIORITISED}
    assert options("ddqn", "LunarLander-v3", storage="ere") == {"size": 50_000, "eta": 0.996, "cmin": 2_500}
    own = {"n_step": 3, "default_error": 1.0}
    assert options("sac", "Pendulum-v1", storage="ere") == {**own, **PRIORITISED, "eta": 0.996}


def test_they_keep_what_the_user_says() -> None:
    assert options("ddqn", "CartPole-v1", "none", storage="per", alpha=0.0)["alpha"] == 0.0
    assert options("ddqn", "CartPole-v1", "none", storage="nstep", n_step=1) == {"n_step": 1}
    given = {"eta": 0.9, "cmin": 7, "storage.size": 100}
    assert options("ddqn", "CartPole-v1", "none", storage="ere", **given) == {"eta": 0.9, "cmin": 7, "size": 100}


@pytest.mark.parametrize(("storage", "own"), [("per", {}), ("ere", {"eta": 0.996}), ("her", {})])
def test_an_alpha_brings_the_same_safe_values_with_it_everywhere(storage: str, own: dict[str, Any]) -> None:
    prioritised = options("ddqn", "CartPole-v1", "none", storage=storage, alpha=0.5)
    assert prioritised == {**PRIORITISED, "alpha": 0.5, **own}


@pytest.mark.parametrize(("storage", "own"), [("ere", {"eta": 0.996}), ("her", {})])
def test_only_an_alpha_switches_priorities_on(storage: str, own: dict[str, Any]) -> None:
    assert options("ddqn", "CartPole-v1", "none", storage=storage, alpha=0) == {"alpha": 0, **own}


@pytest.mark.parametrize(
    ("size", "num_envs", "cmin"),
    [(1_000_000, 1, None), (100_000, 1, None), (20_000, 1, 1_000), (5_000, 4, 1_000), (3, 1, 1), (1e9, 1, None)],
)
def test_the_window_of_recent_experience_is_small_beside_the_storage(size: float, num_envs: int, cmin: int) -> None:
    found = options("ddqn", "CartPole-v1", "none", storage="ere", num_envs=num_envs, **{"storage.size": size})
    assert found.get("cmin") == cmin


def test_files_name_storages_too(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("algo: sac\nenv: Pendulum-v1\nstorage: {name: per, beta: 0.5}\n")
    assert resolve(file=file).options(STORAGE) == {**PRIORITISED, "beta": 0.5}


def test_a_stored_config_means_what_it_meant(tmp_path: Path) -> None:
    """Defaults are spelled out in it, so that a run with alpha 0 continues with alpha 0."""
    uniform = RunConfig(algo="sac", env="Pendulum-v1", storage="per").with_defaults()
    uniform.save(tmp_path / "config.yaml")
    again = resolve(file=tmp_path / "config.yaml")
    assert again == RunConfig.load(tmp_path / "config.yaml")
    assert again.storage_options == uniform.storage_options
    assert again.storage_options["alpha"] == 0.0


def test_the_storage_that_is_built_has_them() -> None:
    for name, kind in (("per", PERBuffer), ("ere", EREBuffer)):
        overrides = {"storage": name, "storage.size": 1_000, "hidden_sizes": [8], "num_test_envs": 1}
        scheme = build(resolve("ddqn", "CartPole-v1", preset="none", overrides=overrides))
        scheme.stop()
        assert isinstance(scheme.storage, kind)
        assert scheme.storage.alpha == (0.6 if name == "per" else 0.0)
        assert getattr(scheme.storage, "eta", 0.996) == 0.996
        assert getattr(scheme.storage, "cmin", 50) == 50


def test_they_are_listed_with_the_values_that_they_get() -> None:
    listed = listed_options("per")
    assert {name: listed[name].default for name in PRIORITISED} == PRIORITISED
    assert listed["alpha"].about == options_of(STORAGE, "per")["alpha"].about
    plain = {name: option for name, option in listed_options("replay").items() if name != "size"}
    assert plain.items() <= options_of(STORAGE, "replay").items()
    assert listed_options("replay")["size"].default == 1_000_000, "what a run has without it"
