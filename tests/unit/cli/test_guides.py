"""What guides and `--help` tell people to type can be typed."""

import re
import runpy
import shlex
import shutil
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import gymnasium as gym
import pytest
import torch

from recollect.agent.envs import VecEnv
from recollect.cli.command import COMMANDS
from recollect.cli.commands.train import resolve_options
from recollect.config import build, resolve
from recollect.learner import Learner
from tests.schemes import make_scheme
from tests.unit.cli.conftest import Run

ROOT = Path(__file__).parents[3]
GUIDES = [
    ROOT / "docs" / "guide" / name for name in ("agents.md", "command-line.md", "scaling.md", "export.md", "data.md")
]
# The module that the guides train in, and what could be in it.
OWN_MODULE, OWN_ENV = "my_tasks", ROOT / "examples" / "custom_env.py"
COMMAND = re.compile(
    r"^(?:  |\$ )?(recollect (?:train|eval|resume|export|data|checkpoints|tune|plot|list|bench)\b[^|\n]*?)"
    r"(?:  .*)?$(?!\nerror: )",
    re.MULTILINE,
)
# Commands that are shown with what they print and depend on no training: lists and errors.
SAMPLE = re.compile(r"^\$ recollect (.*)\n(storages:\n(?:  .*\n)+|error: .*\n)", re.MULTILINE)
# The module of parts that the guide to them writes piece by piece.
MINE = re.compile(r"^```python\n# mine.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Numbers of steps and episodes in the guides, and those that are enough to see that the code runs.
SHORTER = {
    "20_000": "60",
    "episodes=100": "episodes=2",
    "250_000": "250",
    "SAC.create_factory(": "SAC.create_factory(start_steps=40, num_mini_batch=2, ",
}


def parser_of(command: str) -> Any:
    return import_module(f"recollect.cli.commands.{command}").make_parser()


def typed() -> list[str]:
    texts = [guide.read_text() for guide in GUIDES] + [parser_of(command).epilog for command in COMMANDS]
    return [line for text in texts for line in COMMAND.findall(text)]


def test_commands_are_found() -> None:
    found = typed()
    assert {line.split()[1] for line in found} == set(COMMANDS)
    assert len(found) > 40


@pytest.mark.parametrize("line", sorted(set(typed())))
def test_commands_can_be_typed(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be trained can also be built, without the workers that it may have elsewhere."""
    _, command, *words = shlex.split(line)
    monkeypatch.chdir(tmp_path)
    if "--config" in words:
        file = tmp_path / words[words.index("--config") + 1]
        file.parent.mkdir(parents=True, exist_ok=True)
        resolve().with_defaults().save(file)
    if any(word.startswith(f"{OWN_MODULE}:") for word in words):
        shutil.copy(OWN_ENV, tmp_path / f"{OWN_MODULE}.py")
        monkeypatch.syspath_prepend(tmp_path)
    if "mine:" in line:
        pieces = MINE.findall((ROOT / "docs" / "guide" / "own-parts.md").read_text())
        (tmp_path / "mine.py").write_text("".join(pieces))
        monkeypatch.syspath_prepend(tmp_path)
    if "--help" in words:
        return
    options = parser_of(command).parse_args(words)
    if command == "train":
        config = replace(resolve_options(options), scheme_options={}, num_test_envs=1)
        build(config).stop()


@pytest.mark.parametrize(("words", "expected"), SAMPLE.findall(GUIDES[1].read_text()))
def test_commands_print_what_the_guide_shows(
    words: str, expected: str, recollect: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    # As where the extra is missing: neither to be imported nor registered by an earlier test.
    monkeypatch.setitem(sys.modules, "gymnasium_robotics", None)
    monkeypatch.delitem(gym.registry, "FetchReach-v4", raising=False)
    outcome = recollect(*shlex.split(words))
    assert (outcome.out + outcome.err).strip() == expected.strip()


def test_samples_are_found() -> None:
    assert len(SAMPLE.findall(GUIDES[1].read_text())) == 4


def test_code_of_the_guide_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    names: dict[str, Any] = {}
    for number, code in enumerate(PYTHON.findall(GUIDES[0].read_text())):
        for long, short in SHORTER.items():
            code = code.replace(long, short)
        script = tmp_path / f"block_{number}.py"
        script.write_text(code)
        names |= runpy.run_path(str(script), init_globals=names)
    torch.set_num_threads(num_threads)
    assert names["agent"].num_steps >= 60
    assert names["config"].seed == 3
    assert names["action"].shape == (1,)


def test_code_about_a_running_training_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands, but for the workers on Ray, which are only asked for."""
    learner = Learner(make_scheme("ddqn", "per", num_envs=2), target_steps=100)
    add_workers = create_autospec(learner.scheme.add_col_workers)
    monkeypatch.setattr(learner.scheme, "add_col_workers", add_workers)
    harder_envs, _, _ = VecEnv.create_factory("CartPole-v1", vec_env_size=2, seed=2)
    before = learner.scheme.col_worker.envs_train
    (code,) = PYTHON.findall(GUIDES[2].read_text())
    exec(code, {"learner": learner, "harder_envs": harder_envs})
    assert learner.scheme.algo.config.critic_lr == pytest.approx(1e-4)
    assert learner.scheme.storage.alpha == pytest.approx(0.7)
    assert learner.scheme.col_worker.envs_train is not before
    add_workers.assert_called_once_with(4)
    learner.step()
    learner.stop()
