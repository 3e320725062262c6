"""Trainings that are killed with SIGKILL at any moment, and resumed, end in the same bits as one that was not.

`RECOLLECT_KILLS` is how many there are; `make chaos` has 500 of them, over all algorithms and storages.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

NUM_KILLS = int(os.environ.get("RECOLLECT_KILLS", "10"))
IS_LONG = NUM_KILLS > 10
# Processes that share them, each with a seed of its own.
NUM_SHARES = 5 if IS_LONG else 1


@pytest.mark.parametrize("seed", range(NUM_SHARES))
def test_a_training_that_is_killed_at_any_moment_ends_in_the_same_bits(seed: int, tmp_path: Path) -> None:
    num_kills = NUM_KILLS // NUM_SHARES
    words = [sys.executable, "-m", "tests.kill_runs", str(tmp_path), str(seed), str(num_kills)]
    # Two shares go over tasks and options, the others over algorithms and storages.
    words += (["--settings"] if seed % 2 else []) if IS_LONG else ["--few"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    compared = [line for line in lines if "compared" in line]
    assert sum("kill" in line for line in lines) == num_kills
    assert [line for line in compared if line["different"]] == []
    assert len({tuple(line["cell"]) for line in compared}) >= min(3, num_kills)
    assert min(line["compared"] for line in compared) > 300
