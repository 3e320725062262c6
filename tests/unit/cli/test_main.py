"""The command as a whole: help, exit codes, errors in one line, and a quick start."""

import errno
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from recollect import __version__
from recollect.cli.command import COMMANDS
from recollect.errors import RecollectWarning
from tests.unit.cli.conftest import Run


def test_help_names_every_command(recollect: Run) -> None:
    outcome = recollect("--help")
    assert outcome.code == 0
    for command, about in COMMANDS.items():
        assert f"  {command} " in outcome.out
        assert about in outcome.out
    assert recollect().out == outcome.out


def test_version(recollect: Run) -> None:
    assert recollect("--version").out == f"recollect {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_examples(
    command: str, recollect: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        recollect(command, "--help")
    assert left.value.code == 0
    assert f"\n  recollect {command} " in capsys.readouterr().out.partition("examples:")[2]


def test_nothing_is_left_behind_by_a_command_that_is_refused(recollect: Run, tmp_path: Path) -> None:
    assert recollect("train", "sac", "CartPole-v1").code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to_is_named(recollect: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outcome = recollect("train", "ddqn", "CartPole-v1", "--out", "file")
    assert (outcome.code, outcome.err) == (
        2,
        "error: file/cartpole-ddqn-1 cannot be made: Not a directory; name another folder\n",
    )
    outcome = recollect("train", "--config", "x" * 300)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)


def test_a_full_disk_is_told_in_one_line(recollect: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(arguments: list[str]) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("recollect.cli.command._run", fail)
    outcome = recollect("list")
    assert (outcome.code, outcome.err) == (
        2,
        "error: No space left on device; name another place, or make it usable\n",
    )


def test_defaults_are_shown_as_they_are_typed(recollect: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        recollect("train", "--help")
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "(SPREAD) (DEFAULT)",
        "pays between machines (false)",
        "Ray resources of a collecting worker",
        "(20000)",
    ):
        assert part in text


def test_warnings_of_ours_are_one_line(recollect: Run, capsys: pytest.CaptureFixture[str]) -> None:
    recollect("--version")
    warnings.showwarning(RecollectWarning("change this"), RecollectWarning, "file.py", 3)
    warnings.showwarning(UserWarning("other"), UserWarning, "file.py", 3)
    first, *others = capsys.readouterr().err.splitlines()
    assert first == "warning: change this"
    assert others[0] == "file.py:3: UserWarning: other"


def test_errors_are_broken_between_words_on_a_terminal(recollect: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "50")
    assert recollect("train", "sac", "CartPole-v1").err.splitlines() == [
        "error: SAC (continuous) cannot act in Discrete(2).",
        "Use --algo ddqn, ppo or sac-discrete.",
    ]


@pytest.mark.parametrize("words", ["--help", "train --help"])
def test_help_loads_neither_torch_nor_gymnasium(words: str) -> None:
    code = (
        "import sys\nfrom recollect.cli import main\n"
        f"try:\n    main({words.split()})\nexcept SystemExit:\n    pass\n"
        "print({'torch', 'gymnasium', 'numba', 'matplotlib', 'rich'} & set(sys.modules))"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert output.splitlines()[-1] == "set()"
