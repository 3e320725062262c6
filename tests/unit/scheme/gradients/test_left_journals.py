"""Journals of processes that were killed do not stay."""

import subprocess
import sys
from pathlib import Path

from recollect.files.lock import FolderLock
from recollect.scheme.gradients.g_worker_set import remove_left_journals

LOCK = (
    "import os, sys; from pathlib import Path; from recollect.files.lock import FolderLock; "
    "lock = FolderLock(Path({!r}))"
)
WAIT = "print('held', flush=True); sys.stdin.read()"


def make_journals(folder: Path, name: str) -> Path:
    path = folder / f"recollect-{name}-journals"
    (path / "worker-0").mkdir(parents=True)
    return path


def test_journals_of_processes_that_ended_are_removed_and_no_others(tmp_path: Path) -> None:
    left, held, unknown, other = (make_journals(tmp_path, name) for name in ("left", "held", "unknown", "other"))
    killed = f"{LOCK.format(str(left))}; os.abort()"
    subprocess.run([sys.executable, "-c", killed], check=False, capture_output=True)
    assert (left / ".lock").exists()
    (tmp_path / "recollect-link-journals").symlink_to(other)
    alive = [sys.executable, "-c", f"{LOCK.format(str(other))}; {WAIT}"]
    with FolderLock(held), subprocess.Popen(alive, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        remove_left_journals(tmp_path)
        assert not left.exists()
        assert held.exists(), "another training of this process writes there"
        assert other.exists(), "another process writes there"
        assert unknown.exists(), "nobody knows whose it is"
        process.stdin.close()
