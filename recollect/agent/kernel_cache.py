"""The on-disk cache of compiled kernels, dropped when their source changes."""

import logging
import os
from contextlib import suppress
from pathlib import Path

from recollect import keys

_log = logging.getLogger(keys.KERNEL_LOGGER)


def drop_stale_kernels(folder: Path) -> None:
    """Remove the kernels that were compiled before any source file in `folder` changed.

    Numba notices changes in a kernel's own file only, and would continue with old copies of what it inlines from
    other files. Where nothing may be written, Numba keeps its cache elsewhere, and files change with an install only.
    """
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
