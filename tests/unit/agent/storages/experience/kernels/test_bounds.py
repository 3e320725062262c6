"""Kernels touch no memory but the store's, whatever a piece of steps says that they restore."""

import subprocess
import sys
from pathlib import Path

from tests.snapshot_runs import KINDS

NUM_FORGERIES = 40


def test_restoring_forged_pieces_stays_within_the_memory_of_rings_and_pieces() -> None:
    words = [sys.executable, "-m", "tests.checked_kernels", str(NUM_FORGERIES)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[6])
    assert done.returncode == 0, done.stderr[-2000:]
    restored = dict(line.split(": ") for line in done.stdout.splitlines())
    assert restored.keys() == KINDS.keys()
    # Some forgeries change nothing that matters, and most are refused before a kernel sees them.
    assert all(0 < int(number) < NUM_FORGERIES for number in restored.values())
