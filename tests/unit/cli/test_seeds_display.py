"""Several seeds: one table on a terminal, every line elsewhere."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

from recollect.cli.seeds_display import SeedsDisplay

LINES = [
    ("a-1", "DDQN · uniform replay · CartPole-v1 · seed 1 · 1 thread · runs/a-1"),
    ("a-2", "warning: change this"),
    ("a-1", "  2%  50/3,000 steps   139 steps/s   ETA 0:17"),
    ("a-1", " 23%  700/3,000 steps   139 steps/s   ETA 0:17   return 22.0   replay 700/1,000,000 (5.0 MB)"),
    ("a-2", "evaluation: 9.5 ± 0.5 over 2 episodes   curve: runs/a-2/curve.png"),
]


def show(*, is_terminal: bool, width: int) -> Any:
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=width)
    with SeedsDisplay(["a-1", "a-2", "a-3"], console) as display:
        for name, line in LINES:
            display.tell(name, line)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_how_to_resume_a_run_is_told_once() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with SeedsDisplay(["a-1"], console) as display:
        display.tell("a-1", "stopped at 788 steps; resume with: recollect resume runs/a-1")
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown.count("resume with: recollect resume runs/a-1") == 1
    assert "a-1  stopped at 788 steps" in shown, "the table"


def test_without_a_terminal_every_line_is_printed_behind_its_name() -> None:
    assert show(is_terminal=False, width=80).splitlines() == [f"{name}: {line}" for name, line in LINES]


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_the_newest_line_of_each_run(width: int) -> None:
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", show(is_terminal=True, width=width))
    assert "a-2: warning: change this" in shown, "above the table, where nothing replaces it"
    frame = [line.rstrip() for line in shown.replace("\r", "\n").splitlines() if line.strip()][-3:]
    assert [line.split()[0] for line in frame] == ["a-1", "a-2", "a-3"]
    assert "23%  700/3,000 steps" in frame[0]
    assert frame[1].endswith("evaluation: 9.5 ± 0.5 over 2 episodes")
    assert frame[2].endswith("waiting")
    assert max(map(len, frame)) <= width - 4, "a terminal writes ^C behind the last line"
