"""A file is data: what it names is neither imported nor connected to without the caller's word."""

import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
import yaml

from recollect import DDQN, Agent
from recollect.cli import main
from recollect.config import RunConfig, resolve
from recollect.config.trust import check_trust
from recollect.errors import ConfigError

TRAP = "trap_of_a_stranger"
# Every place of a config that can name code.
FORGED: dict[str, dict[str, Any]] = {
    "algo": {"algo": {"name": f"{TRAP}:Algo"}},
    "algo as a word": {"algo": f"{TRAP}:Algo"},
    "storage": {"storage": {"name": f"{TRAP}:Buffer"}},
    "env": {"env": {"name": f"{TRAP}:make"}},
    "env as a word": {"env": f"{TRAP}:make"},
    "id": {"env": {"name": f"{TRAP}:Task-v0"}},
    "odd id": {"env": {"name": f"{TRAP}:Task v0"}},
    "features": {"actor": {"features": f"{TRAP}:Net"}},
    "memory": {"actor": {"memory": f"{TRAP}:Cell"}},
    "policy head": {"actor": {"policy_head": f"{TRAP}:Head"}},
    "critic head": {"actor": {"critic_head": f"{TRAP}:Head"}},
    "wrapper": {"wrappers": [f"{TRAP}:Wrapper"]},
    "wrapper with options": {"wrappers": [{"name": f"{TRAP}:Wrapper", "scale": 1}]},
    "callback": {"callbacks": [f"{TRAP}:watch"]},
    "callback with options": {"callbacks": [{"name": f"{TRAP}:Watch", "score": 1}]},
    "function": {"storage": {"name": "her", "compute_reward": f"{TRAP}:reward"}},
    "option of the env": {"env": {"name": "GymV26Environment-v0", "env_id": f"{TRAP}:Task-v0"}},
}
each_place = pytest.mark.parametrize("place", FORGED)


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that leaves a file behind when it is imported; the file's path."""
    marker = tmp_path / "was-here"
    (tmp_path / f"{TRAP}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield marker
    sys.modules.pop(TRAP, None)


Forge = Callable[[str], Path]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an honest run."""
    folder = tmp_path_factory.mktemp("honest") / "run"
    options = {"hidden_sizes": 8, "start_steps": 20, "update_every": 5, "num_test_envs": 1, "preset": "none"}
    Agent("ddqn", "CartPole-v1", **options).learn(60, log_dir=folder)  # type: ignore[arg-type]
    return folder


@pytest.fixture
def forge(saved: Path, tmp_path: Path) -> Forge:
    """Makes a copy of it whose config names a stranger's module in one place."""

    def copy(place: str) -> Path:
        folder = shutil.copytree(saved, tmp_path / place.replace(" ", "-"))
        config = yaml.safe_load((folder / "config.yaml").read_text())
        for entry, value in FORGED[place].items():
            config[entry] = config[entry] | value if isinstance(value, dict) else value
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        return folder

    return copy


LOADERS: dict[str, Callable[[Path], object]] = {
    "Agent.load": Agent.load,
    "RunConfig.load": lambda folder: RunConfig.load(folder / "config.yaml"),
    "resolve": lambda folder: resolve(file=folder / "config.yaml"),
    "resolve with other parts": lambda folder: resolve(
        "ddqn", "CartPole-v1", file=folder / "config.yaml", overrides={"storage": "per", "features": "flat"}
    ),
}


@each_place
@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_nothing_that_a_run_names_is_imported(
    load: Callable[[Path], object], place: str, trap: Path, forge: Forge
) -> None:
    folder = forge(place)
    with pytest.raises(ConfigError, match=f"config.yaml asks to import the module {TRAP};.*: trust=True$"):
        load(folder)
    assert not trap.exists()


@pytest.mark.slow
@each_place
def test_no_command_imports_it(
    place: str, trap: Path, forge: Forge, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.chdir(trap.parent)
    folder = str(forge(place))
    for words in (
        ["eval", folder],
        ["resume", folder, "--steps", "90"],
        ["train", "--config", f"{folder}/config.yaml"],
    ):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert f"asks to import the module {TRAP};" in error
        assert error.endswith(": --trust\n")
    assert main(["plot", folder]) == 0
    main(["plot", folder, "--by", "storage.size"])
    assert main(["list"]) == 0
    assert not trap.exists()


@each_place
def test_saving_beside_it_does_not_import_it(place: str, trap: Path, forge: Forge) -> None:
    folder = forge(place)
    agent = Agent("ddqn", "CartPole-v1", preset="none", hidden_sizes=8)
    with pytest.warns(UserWarning, match="holds another agent"):
        agent.save(folder)
    assert not trap.exists()


def test_it_is_imported_with_the_callers_word(trap: Path, forge: Forge) -> None:
    folder = forge("storage")
    with pytest.raises(ConfigError, match=rf"storage '{TRAP}:Buffer' is not there"):
        Agent.load(folder, trust=True)
    assert trap.exists()


@pytest.mark.parametrize(
    ("place", "given"),
    [
        ("algo", {"algo": "ddqn"}),
        ("algo as a word", {"algo": DDQN}),
        ("storage", {"storage": "replay"}),
        ("id", {"env": lambda: gym.make("CartPole-v1")}),
        ("features", {"features": "flat"}),
        ("memory", {"memory": None}),
        ("wrapper", {"wrappers": []}),
    ],
)
def test_parts_that_the_caller_gives_need_no_trust(place: str, given: dict[str, Any], trap: Path, forge: Forge) -> None:
    agent = Agent.load(forge(place), **given)
    assert agent.num_steps == 60
    agent.close()
    assert not trap.exists()


def double_width(obs_space: Any) -> torch.nn.Module:
    """Features of the caller's own."""
    return torch.nn.Linear(obs_space.shape[0], 8)


def test_what_was_used_or_allowed_before_is_asked_about_again(tmp_path: Path) -> None:
    agent = Agent("ddqn", "CartPole-v1", preset="none", features=double_width)
    agent.save(tmp_path / "run")
    agent.save(tmp_path / "run")  # the folder is its own
    for given in ({"trust": True}, {"features": double_width}):
        with pytest.raises(ConfigError, match=f"asks to import the module {__name__};"):
            Agent.load(tmp_path / "run")
        Agent.load(tmp_path / "run", **given).close()  # type: ignore[arg-type]
    assert not (tmp_path / "run-2").exists()


def test_only_parts_of_the_run_can_be_given_again(forge: Forge) -> None:
    with pytest.raises(ConfigError, match=r"'featurs' is no part that can be given again; did you mean 'features'\?"):
        Agent.load(forge("features"), featurs="flat")


@pytest.mark.parametrize(
    ("option", "value", "what"),
    [
        ("scheme.ray_address", "ray://somewhere:10001", "join the Ray cluster 'ray://somewhere:10001'"),
        ("scheme.runtime_env", {"pip": ["evil"]}, r"have Ray set up \{'pip': \['evil'\]\}"),
        ("scheme.journal_folder", "/elsewhere", "write to '/elsewhere'"),
        ("storage.path", "/elsewhere", "write to '/elsewhere'"),
    ],
)
def test_what_reaches_out_needs_trust_too(option: str, value: object, what: str) -> None:
    part, _, name = option.partition(".")
    document = {"algo": "ddqn", "env": "CartPole-v1", part: {"name": "per", name: value}}
    with pytest.raises(ConfigError, match=rf"the config asks to {what} \({option}\);.*trust=True"):
        check_trust(document, "the config")
    check_trust(document, "the config", trust=True)


def test_the_sentence_names_all_modules() -> None:
    document = {"algo": "stranger:A", "env": "other.place:B-v0", "storage": {"name": "per", "path": "/tmp/x"}}
    with pytest.raises(ConfigError) as caught:
        check_trust(document, "run/config.yaml")
    assert "asks to import the modules other.place, stranger, and to write to '/tmp/x'" in str(caught.value)


def test_plain_texts_are_no_code() -> None:
    document = {
        "algo": "ddqn",
        "env": {"name": "ALE/Pong-v5", "note": "a: b", "time": "12:30"},
        "device": "cuda:1",
        "storage": {"name": "her", "path": None},
    }
    check_trust(document, "the config")


def test_other_workers_of_a_stranger_do_not_matter_where_none_are_started(tmp_path: Path) -> None:
    agent = Agent("ddqn", "CartPole-v1", preset="none", hidden_sizes=8)
    agent.save(tmp_path / "agent")
    file = tmp_path / "agent" / "config.yaml"
    document = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(document | {"scheme": {"ray_address": "ray://somewhere:10001"}}))
    assert Agent.load(tmp_path / "agent").config.scheme_options == {}
    with pytest.raises(ConfigError, match="join the Ray cluster"):
        RunConfig.load(file)
