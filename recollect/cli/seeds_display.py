"""The display of a training with several seeds: one table, or plain lines without a terminal."""

import re
import threading
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from recollect.runs.display.live import LiveDisplay
from recollect.units import folded

# Lines that the next one of the same run replaces: the summary, progress, and the evaluation at the end.
_PASSING: Final = re.compile(r"\s*\d+%  |.* · |evaluation: ")
# What a run says of its files, which the table has no room for.
_FILES: Final = re.compile("   curve: |; resume with: ")


class SeedsDisplay(LiveDisplay):
    """Shows the output of several runs: on a terminal the newest line of each in a table, elsewhere every line.

    Errors, warnings and how to resume a run are never replaced; they stand above the table.

    Parameters
    ----------
    names : sequence of str
        Names of the runs.
    console : rich.console.Console, optional
        Where to show it.
    """

    def __init__(self, names: Sequence[str], console: Console | None = None) -> None:
        super().__init__(console)
        self._lines = dict.fromkeys(names, "waiting")
        self._lock = threading.Lock()

    def tell(self, name: str, line: str) -> None:
        """Show a line that a run printed; any thread may call it."""
        with self._lock:
            if not self.is_live:
                self.console.out(f"{name}: {line}", highlight=False)
                return
            if not _PASSING.match(line):
                self.console.out("\n".join(folded(f"{name}: {line}", self.width)), highlight=False)
            self._lines[name] = _FILES.split(line)[0].strip()
            indent = max(map(len, self._lines)) + 2
            self.show([f" {name:{indent}}{line}" for name, line in self._lines.items()])
