"""Parts are found by name: built in, registered, of a package, or where they are."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from recollect import DDQN
from recollect.agent.algorithms import ALGORITHMS, Algorithm
from recollect.agent.registry import NOT_IMPORTABLE, REGISTRIES, Registry, register, title_of
from recollect.errors import ConfigError


def test_the_algorithms_by_name() -> None:
    assert {"ddqn", "ddpg", "td3", "sac", "sac-discrete", "mpo", "ppo"} <= set(ALGORITHMS)
    for name, algorithm in ALGORITHMS.items():
        assert issubclass(algorithm, Algorithm)
        assert algorithm.__name__.lower() == name.replace("-", "")


def test_an_unknown_name_is_no_key() -> None:
    assert "dqn" not in ALGORITHMS
    with pytest.raises(KeyError):
        ALGORITHMS["dqn"]


def test_an_unknown_name_is_refused_with_the_closest() -> None:
    assert ALGORITHMS.find("td3") is ALGORITHMS["td3"]
    with pytest.raises(ConfigError, match=r"there is no algorithm 'dqn'; did you mean 'ddqn'\?"):
        ALGORITHMS.find("dqn")


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_every_option_says_what_it_is_for(name: str) -> None:
    docs = ALGORITHMS[name].config_class.docs()
    assert all(doc.endswith(".") for doc in docs.values()), docs


class MyDQN(DDQN):
    """An algorithm of one's own."""


class Holder:
    class Inner(MyDQN):
        """A class in a class."""


@pytest.fixture
def registry() -> Registry[Any]:
    return Registry("algorithm", "algorithms", {"ddqn": "recollect.agent.algorithms.off_policy.ddqn:DDQN"})


@pytest.mark.parametrize("part", [MyDQN, f"{__name__}:MyDQN"])
def test_a_registered_name_is_found_in_any_case(part: Any, registry: Registry[Any]) -> None:
    registry.register("my-dqn", part)
    assert registry.find("My-DQN") is registry["my-dqn"] is MyDQN
    assert list(registry) == ["ddqn", "my-dqn"]
    assert registry.name_of(MyDQN) == "my-dqn"
    with pytest.raises(ConfigError, match=r"there is no algorithm 'my-dqm'; did you mean 'my-dqn'\?"):
        registry.find("my-dqm")


@pytest.mark.parametrize(
    ("name", "part", "message"),
    [
        ("ddqn", MyDQN, "algorithm 'ddqn' is built in; register yours under another name"),
        ("my:dqn", MyDQN, "a word such as 'my-algorithm', got 'my:dqn'"),
        ("", MyDQN, "a word such as"),
        ("mine", 3, "register a class, a function or its 'module:Name' as 'mine', got 3"),
        ("mine", "nowhere", "got 'nowhere'"),
    ],
)
def test_what_cannot_be_registered_is_refused(name: str, part: Any, message: str, registry: Registry[Any]) -> None:
    with pytest.raises(ConfigError, match=message):
        registry.register(name, part)
    assert list(registry) == ["ddqn"]


def test_there_are_kinds_of_parts() -> None:
    kinds = ("algorithm", "storage", "features", "memory", "head", "env", "wrapper", "callback", "function")
    assert tuple(REGISTRIES) == kinds
    with pytest.raises(ConfigError, match=r"there is no kind of part 'algoritm'; did you mean 'algorithm'\?"):
        register("algoritm", "mine", MyDQN)  # type: ignore[call-overload]
    with pytest.raises(
        ConfigError, match="known: algorithm, callback, env, features, function, head, memory, storage, wrapper"
    ):
        register("xyz", "mine", MyDQN)  # type: ignore[call-overload]


def test_modules_lead_to_parts(registry: Registry[Any]) -> None:
    assert registry.find(f"{__name__}:MyDQN") is MyDQN
    assert registry.find(f"{__name__}:Holder.Inner") is Holder.Inner
    for name, message in (
        (f"{__name__}:MyDQM", r"is not there; did you mean 'MyDQN'\?"),
        ("nowhere.at_all:X", "cannot be imported: No module named 'nowhere'"),
        ("math:pi", "must be a class or a function, got 3.14"),
    ):
        with pytest.raises(ConfigError, match=message):
            registry.find(name)


@pytest.mark.parametrize("part", [MyDQN, Holder.Inner, DDQN])
def test_what_can_be_imported_goes_by_where_it_is(part: Any, registry: Registry[Any]) -> None:
    name = registry.name_of(part)
    assert name == ("ddqn" if part is DDQN else f"{__name__}:{part.__qualname__}")
    assert registry.find(name) is part


def test_what_cannot_be_imported_says_so_and_is_found_in_this_process_alone(registry: Registry[Any]) -> None:
    def local() -> type:
        class Local(MyDQN):
            pass

        return Local

    script = type("Script", (MyDQN,), {"__module__": "__main__"})
    parts = [local(), local(), lambda: None, partial(local), script]
    names = [registry.name_of(part) for part in parts]
    assert len(set(names)) == len(names)
    for part, name in zip(parts, names, strict=True):
        assert name.startswith(NOT_IMPORTABLE)
        assert registry.find(name) is part
        with pytest.raises(ConfigError, match="which cannot be imported; give it again from Python"):
            Registry[Any]("algorithm", "algorithms", {}).find(name)
    assert [registry.name_of(part) for part in parts] == names
    assert title_of(names[-1]) == "Script"


def test_installed_packages_bring_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry[Any]
) -> None:
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    points = ("theirs = their_module:Their", "broken = no_such_module:X", "ddqn = no_such_module:X")
    (info / "entry_points.txt").write_text("[recollect.algorithms]\n" + "\n".join(points) + "\n")
    (tmp_path / "their_module.py").write_text("class Their:\n    '''Theirs.'''\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert list(registry) == ["ddqn", "theirs", "broken"]
    assert "their_module" not in sys.modules
    assert registry.find("THEIRS").__name__ == "Their"
    assert registry.find("ddqn") is DDQN, "nobody takes the name of a built-in one"
    with pytest.raises(ConfigError, match="algorithm 'no_such_module:X' cannot be imported"):
        registry.find("broken")


def test_options_travel_to_processes_that_know_no_names(registry: Registry[Any]) -> None:
    registry.register("mine", MyDQN)
    assert registry.check("algo", "mine") is MyDQN
    assert registry.check("algo", f"{__name__}:MyDQN") is MyDQN
    assert registry.check("algo", MyDQN) is MyDQN
    assert registry.check("algo", "DDQN") == "ddqn"
    assert registry.check("algo", None) is None
    with pytest.raises(ConfigError, match="algo must be a name, 'module:Name', a class or a function, got 3"):
        registry.check("algo", 3)


@pytest.mark.parametrize("name", [3, 0.5, True, None, ["ddqn"], {"name": "ddqn"}])
def test_names_of_files_that_are_no_text_are_refused(name: Any, registry: Registry[Any]) -> None:
    with pytest.raises(ConfigError, match="algorithm must be a name or 'module:Name', got"):
        registry.find(name)
