"""The command runs what it is asked to, and says what it leaves out."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.learn import command
from benchmarks.learn.experiments import SB3, SEEDS, TABLE
from benchmarks.learn.runner import Run


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """The command owns its process and sets logging up; pytest wants its own handlers back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_list_shows_every_run_of_the_chosen_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, _, last = SEEDS
    arguments = ["--list", "--only", "sb3-lunar", "--seeds", str(first), str(last), "--out", str(tmp_path)]
    assert command.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("   ")[0].strip() for line in lines] == [
        f"sb3-lunarlander-dqn seed {first}",
        f"sb3-lunarlander-dqn seed {last}",
    ]
    assert all(line.endswith("to do") for line in lines)


def test_report_runs_nothing_and_shows_the_whole_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "run_missing", lambda *_: pytest.fail("ran something"))
    assert command.main(["--report", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    num_goals = sum(cell.goal is not None for cell in TABLE)
    assert output.count("not measured yet") == num_goals
    assert f"0 of 0 scores reached, {num_goals} not complete yet" in output


def test_the_peer_is_left_out_with_a_word_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[Run] = []
    monkeypatch.setattr(command.Runner, "run", lambda _, runs: ran.extend(runs) or [])
    options = command.parse(
        ["--only", "lunarlander-ddqn", "sb3-lunar", "--out", str(tmp_path), "--peer-python", str(tmp_path / "none")]
    )
    runs = [Run(cell, SEEDS[0]) for cell in options.cells]
    with caplog.at_level(logging.WARNING):
        command.run_missing(runs, options)
    assert [run.cell.key for run in ran] == ["lunarlander-ddqn"]
    assert "Stable-Baselines3 is missing" in caplog.text
    assert {run.cell.library for run in runs} == {"recollect", SB3}


@pytest.mark.parametrize("arguments", [["--only", "nothing"], ["--jobs", "0"]])
def test_bad_arguments_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        command.parse(arguments)
    assert exit_info.value.code == 2
