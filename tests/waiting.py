"""Waiting for what happens in other threads and processes, however slow the machine is."""

import time
from collections.abc import Callable
from typing import Final

# Only what hangs takes so long: tests beside a heavy load have to pass.
PATIENCE_S: Final = 300.0


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Return once `condition` holds; fail, saying `what` was waited for, if it never does."""
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, f"waited {PATIENCE_S:.0f} s in vain for {what}"
        time.sleep(0.01)
