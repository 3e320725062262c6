"""Options come from the parts themselves, with their defaults and what is said of them."""

import pytest

from recollect.agent.storages import STORAGES, HERBuffer
from recollect.config.parts import ACTOR, ALGO, STORAGE, check_options, class_of, options_of, registry
from recollect.errors import ConfigError


def test_a_storage_has_the_parameters_of_its_factory_and_the_options_of_all() -> None:
    options = options_of(STORAGE, "per")
    assert options["alpha"].default == 0.0
    assert options["n_step"].default == 1
    assert {"size", "frame_stack", "backing", "sequence_length"} <= set(options)
    assert "eta" not in options
    assert "eta" in options_of(STORAGE, "ere")


def test_options_that_are_functions_say_where_to_find_them() -> None:
    options = options_of(STORAGE, "her")
    functions = [name for name, option in options.items() if option.kind == "function"]
    assert sorted(functions) == ["compute_reward", "compute_terminated", "her_function"]
    assert options["share"].kind is None


def test_options_of_a_storage_are_explained_by_its_config() -> None:
    assert options_of(STORAGE, "per")["alpha"].about == "How much priorities count."
    assert "frame" in options_of(STORAGE, "her")["frame_stack"].about


@pytest.mark.parametrize("storage", STORAGES)
def test_every_option_of_a_storage_is_explained(storage: str) -> None:
    assert [name for name, option in options_of(STORAGE, storage).items() if not option.about] == []


def test_defaults_of_keywords_are_those_that_a_storage_has() -> None:
    memory = HERBuffer.standalone(10, compute_reward=lambda achieved, desired, info: achieved[:, 0])
    has = {name: getattr(memory.config, name) for name in ("backing", "strategy", "share")}
    assert has == {"backing": "ram", "strategy": "future", "share": 0.8}
    assert {name: options_of(STORAGE, "her")[name].default for name in has} == has
    assert options_of(STORAGE, "replay")["backing"].default == has["backing"]
    assert "share" not in options_of(STORAGE, "replay")


@pytest.mark.parametrize("algo", registry(ALGO))
def test_every_option_of_an_algorithm_is_explained(algo: str) -> None:
    options = options_of(ALGO, algo)
    assert {"gamma", "update_every", "mini_batch_size"} <= set(options)
    assert [name for name, option in options.items() if not option.about] == []


def test_every_option_of_an_actor_is_explained() -> None:
    options = options_of(ACTOR)
    assert options["hidden_sizes"].default == (256, 256)
    assert [name for name, option in options.items() if not option.about] == []


def test_a_mistyped_option_is_refused_with_the_closest() -> None:
    with pytest.raises(ConfigError) as caught:
        check_options(STORAGE, "per", ["alhpa"])
    assert str(caught.value) == "storage has no option 'alhpa'; did you mean 'alpha'?"


def test_an_option_of_another_storage_is_refused_with_those_that_have_it() -> None:
    with pytest.raises(
        ConfigError, match="storage has no option 'alpha'; per, ere, her, mixed have it, replay has not"
    ):
        check_options(STORAGE, "replay", ["alpha"])


def test_environments_take_what_they_take() -> None:
    check_options("env", "CartPole-v1", ["anything"])


@pytest.mark.parametrize(
    ("part", "name", "message"),
    [(ALGO, "sca", "there is no algorithm 'sca'; did you mean 'sac'?"), (STORAGE, "pre", "there is no storage 'pre'")],
)
def test_an_unknown_name_is_refused_with_the_closest(part: str, name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        class_of(part, name)
    assert message in str(caught.value)
