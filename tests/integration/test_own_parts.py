"""The guide to parts of one's own, from top to bottom, in a folder outside of the repository."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "own-parts.md"
BLOCK = re.compile(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODULE = "mine.py"
# Evaluations at the end of the commands, which are not what is tried here.
SHORT = ("--final-episodes", "2", "--num-test-envs", "1")
# In one process, so that what they share is made once.
pytestmark = pytest.mark.xdist_group("own-parts")


def files() -> dict[str, str]:
    """Files of the guide, of which one is written in several pieces."""
    found: dict[str, str] = {}
    for name, text in BLOCK.findall(GUIDE.read_text()):
        found[name] = found.get(name, "") + text
    return found


def commands() -> list[tuple[list[str], str]]:
    """Commands of the guide, each with the error that it is shown with, or none."""
    lines = [line for block in COMMANDS.findall(GUIDE.read_text()) for line in block.splitlines()]
    return [
        (shlex.split(line)[1:], after if after.startswith("error:") else "")
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if not line.startswith("error:")
    ]


class Outside:
    """A folder with the guide's files, in which Python runs as a user runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in files().items():
            (folder / name).write_text(text)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def python(self, name: str) -> str:
        outcome = self.run(name)
        assert outcome.returncode == 0, outcome.stderr
        return outcome.stdout

    def recollect(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "recollect", *words, *(SHORT if words[0] == "train" else ()))


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Outside:
    folder = Outside(tmp_path_factory.mktemp("outside"))
    assert "over 5 episodes" in folder.python("train.py")
    return folder


def test_the_guide_has_files_and_commands() -> None:
    assert set(files()) == {MODULE, "train.py", "run.yaml", "load.py", "named.py", "learner.py"}
    assert {words[0] for words, _ in commands()} == {"train", "list", "eval", "resume"}


def test_the_run_is_kept_as_any_other(outside: Outside) -> None:
    run = outside.folder / "runs" / "mine"
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["algo"]["name"] == "mine:SoftQ"
    assert config["env"] == {"name": "mine:make_cartpole", "max_steps": 50}
    assert config["storage"]["name"] == "mine:ClippedPER"
    assert config["actor"]["features"] == "mine:FourierFeatures"
    assert config["actor"]["memory"] == "mine:Trace"
    assert config["actor"]["critic_head"] == "mine:LinearCritic"
    assert config["wrappers"] == [{"name": "mine:ScaleReward", "scale": 0.5}]
    assert list((run / "checkpoints").iterdir())
    assert "episodes/long" in (run / "metrics.csv").read_text().partition("\n")[0]
    assert (run / "curve.png").is_file()


def test_commands_do_what_the_guide_says(outside: Outside) -> None:
    for words, error in commands():
        outcome = outside.recollect(*words)
        assert (outcome.returncode == 0) == (not error), (words, outcome.stderr)
        assert error in outcome.stderr, words
    runs = {path.name for path in (outside.folder / "runs").iterdir() if path.is_dir()}
    assert {"make-cartpole-softq-1", "from-file", "mine", "pendulum-ppo-1"} <= runs


def test_a_run_with_own_parts_is_loaded_and_acts(outside: Outside) -> None:
    assert outside.python("load.py").strip() in ("0", "1")


def test_registered_names_need_no_trust(outside: Outside) -> None:
    assert outside.python("named.py").strip() == "soft-q"


def test_a_learner_made_from_parts_can_be_loaded_evaluated_and_resumed(outside: Outside) -> None:
    assert outside.python("learner.py").split() == ["0.05", "200"]
    for words in (["eval", "runs/parts", "--episodes", "2"], ["resume", "runs/parts", "--steps", "250"]):
        assert "--trust" in outside.recollect(*words).stderr
        outcome = outside.recollect(*words, "--trust")
        assert outcome.returncode == 0, outcome.stderr
