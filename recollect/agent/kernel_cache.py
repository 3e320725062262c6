"""The on-disk cache of compiled kernels, dropped when their source changes."""

import atexit
import logging
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import numba as nb

from recollect import keys

_log = logging.getLogger(keys.KERNEL_LOGGER)
_FOLDER: Final = "NUMBA_CACHE_DIR"


def drop_stale_kernels(folder: Path) -> None:
    """Remove the kernels that were compiled before any source file in `folder` changed.

    Numba notices changes in a kernel's own file only, and would continue with old copies of what it inlines from
    other files. Where nothing may be written, Numba keeps its cache elsewhere, and files change with an install only.
    """
    _find_room()
    newest = max(path.stat().st_mtime_ns for path in folder.glob("*.py"))
    cache = folder / "__pycache__"
    stamp = cache / "kernels.stamp"
    if stamp.exists() and stamp.stat().st_mtime_ns == newest:
        return
    _log.info("compiling kernels, once after an install: this takes about 20 seconds")
    with suppress(OSError):
        cache.mkdir(exist_ok=True)
        for pattern in ("*.nbi", "*.nbc"):
            for path in cache.glob(pattern):
                path.unlink(missing_ok=True)
        stamp.touch()
        os.utime(stamp, ns=(newest, newest))


def _find_room() -> None:
    """Give Numba a folder of this process where it may write to none, as in some containers: it would refuse to start.

    Not a lasting one that all users may write to: what is loaded from a cache is executed.
    """
    try:
        nb.njit(cache=True)(_nothing)
    except RuntimeError:
        folder = tempfile.mkdtemp(prefix="recollect-kernels-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        # Processes that are started from this one find it there.
        nb.config.CACHE_DIR = os.environ[_FOLDER] = folder
        _log.warning(
            "kernels are compiled again in every run, for about 30 seconds: neither the package's folder nor the home "
            "folder may be written to; set %s to a folder that may",
            _FOLDER,
        )


def _nothing() -> None:
    """What is never compiled."""
