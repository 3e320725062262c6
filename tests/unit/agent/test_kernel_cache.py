"""Compiled kernels go when any source file beside them changes, not only their own."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recollect import keys
from recollect.agent.kernel_cache import drop_stale_kernels

COMPILED = ("gather.nbi", "gather.1.nbc")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two source files, and kernels that were compiled from one of them."""
    for name in ("gather", "layout"):
        (tmp_path / f"{name}.py").touch()
        os.utime(tmp_path / f"{name}.py", (100, 100))
    drop_stale_kernels(tmp_path)
    for name in (*COMPILED, "gather.pyc"):
        (tmp_path / "__pycache__" / name).touch()
    return tmp_path


def compiled(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "__pycache__").glob("*.nb?"))


def test_kernels_stay_while_no_source_changes(folder: Path) -> None:
    for _ in range(2):
        drop_stale_kernels(folder)
        assert compiled(folder) == sorted(COMPILED)


@pytest.mark.parametrize("name", ["gather", "layout"])
def test_kernels_go_with_any_source_that_changes(folder: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    os.utime(folder / f"{name}.py", (101, 101))
    with caplog.at_level(logging.INFO, keys.KERNEL_LOGGER):
        drop_stale_kernels(folder)
        drop_stale_kernels(folder)
    assert [message for message in caplog.messages if "compiling" in message] == caplog.messages
    assert len(caplog.messages) == 1
    assert compiled(folder) == []
    assert (folder / "__pycache__" / "gather.pyc").exists()
    (folder / "__pycache__" / COMPILED[0]).touch()
    drop_stale_kernels(folder)
    assert compiled(folder) == [COMPILED[0]]


_WITHOUT_ROOM = """
import os
import sys
from pathlib import Path

from numba.core import caching

for name, kind in vars(caching).items():
    if "TreeCacheLocator" in name or "UserWideCacheLocator" in name:
        kind.from_function = classmethod(lambda *_: None)

import numpy as np
from recollect.agent.kernels.row_kernels import clip_row

assert clip_row(np.array([3.0, 4.0], np.float32), 1.0, 0.0) == 5.0
folder = Path(os.environ["NUMBA_CACHE_DIR"])
assert list(folder.rglob("*.nbc")), "processes that this one starts load what it has compiled"
assert folder.stat().st_mode & 0o777 == 0o700, "nobody else writes what is executed"
sys.stdout.write(str(folder))
"""


def test_kernels_compile_where_nothing_may_be_written(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    run = subprocess.run(
        [sys.executable, "-c", _WITHOUT_ROOM],
        env={**environment, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "set NUMBA_CACHE_DIR" in run.stderr
    assert Path(run.stdout).parent == tmp_path
    assert not Path(run.stdout).exists(), "the folder goes with the process"
