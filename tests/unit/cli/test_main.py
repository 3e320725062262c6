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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("trian", "there is no command 'trian'; did you mean 'train'?"),
        ("train sca", "there is no algorithm 'sca'; did you mean 'sac'?"),
        ("train sac Pendulm-v1", "there is no env 'Pendulm-v1'; did you mean 'Pendulum-v1'?"),
        ("train sac CartPole-v1", "SAC (continuous) cannot act in Discrete(2). Use --algo "),
        ("train sac Pendulum-v1 --set storage.alhpa=0.6", "storage has no option 'alhpa'; did you mean 'alpha'?"),
        ("train --sed 3", "recollect train has no option --sed; did you mean '--seed'?"),
        ("train --steps 0", "steps must be at least 1, got 0"),
        ("train --seed -1", "seed must be at least 0, got -1"),
        (
            "train --seeds 0",
            "--seeds: must be a whole number of at least 1, got '0'; see recollect train --help",
        ),
        (
            "train sac Pendulum-v1 more",
            "recollect train does not know what to do with 'more'; see recollect train --help",
        ),
        ("train --set algo.gamma=2", "gamma must be a number at least 0 and at most 1, got 2"),
        ("train --device nowhere", "device 'nowhere' cannot be used: "),
        ("train --config nowhere.yaml", "there is no config file 'nowhere.yaml'"),
        ("eval nowhere", "nowhere holds no run: it has no config.yaml"),
        ("resume nowhere", "nowhere holds no run: it has no config.yaml"),
        ("plot nowhere", "nowhere holds no run: it has no config.yaml"),
        ("list options sca", "there is no 'sca' with options; did you mean 'sac'?"),
        ("list presets pendulum", "recollect list presets takes no names, got pendulum"),
        ("list algoritms", "recollect list does not know 'algoritms'; did you mean 'algorithms'?"),
        ("bench repaly", "recollect bench does not know 'repaly'; did you mean 'replay'?"),
        ("eval nowhere --seed one", "--seed: must be a whole number, got 'one'; see recollect eval --help"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(words: str, message: str, recollect: Run) -> None:
    outcome = recollect(*words.split())
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: {message}")
    assert outcome.err.count("\n") == 1
    assert outcome.out == ""


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


@pytest.mark.parametrize("words", ["--help", "train --help"])
def test_help_loads_neither_torch_nor_gymnasium(words: str) -> None:
    code = (
        "import sys\nfrom recollect.cli import main\n"
        f"try:\n    main({words.split()})\nexcept SystemExit:\n    pass\n"
        "print({'torch', 'gymnasium', 'numba', 'matplotlib', 'rich'} & set(sys.modules))"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert output.splitlines()[-1] == "set()"
