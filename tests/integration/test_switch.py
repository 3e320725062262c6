"""The page on switching: both sides of each of its diffs run, those of CleanRL in its own script."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import cleanrl_script

DIFFS = cleanrl_script.DIFF.findall(cleanrl_script.PAGE.read_text())
OF_SCRIPTS = cleanrl_script.diffs()
WHOLE = [diff for diff in DIFFS if diff not in OF_SCRIPTS]


def side_of(diff: str, sign: str) -> str:
    """The script before (`-`) or after (`+`) the change."""
    lines = diff.splitlines(keepends=True)
    return "".join(line[1:] or "\n" for line in lines if line[0] in f" \n{sign}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "sign", [pytest.param("-", marks=pytest.mark.long, id="before"), pytest.param("+", id="after")]
)
@pytest.mark.parametrize(
    "diff", [diff for diff in DIFFS if diff not in OF_SCRIPTS], ids=["sb3", "per", "her", "torchrl"]
)
def test_both_sides_of_a_change_run(diff: str, sign: str, tmp_path: Path) -> None:
    script = side_of(diff, sign)
    assert ("recollect" in script) == (sign == "+")
    path = tmp_path / "script.py"
    path.write_text(script)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(cleanrl_script.ROOT)}
    outcome = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.long
@pytest.mark.parametrize("diff", OF_SCRIPTS, ids=["replay", "per"])
def test_cleanrl_learns_with_the_lines_changed(diff: str, tmp_path: Path) -> None:
    script = cleanrl_script.with_change(cleanrl_script.download(tmp_path), diff)
    returns, _ = cleanrl_script.run(script, tmp_path, "--total-timesteps", "20000")
    assert np.mean(returns[-20:]) > 2 * np.mean(returns[:20])
