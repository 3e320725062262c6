"""What one sees of trainings with several seeds: one table, or plain lines where there is no terminal."""

import re
import threading
from collections.abc import Sequence
from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from recollect.runs.progress import FREE_COLUMNS
from recollect.units import folded

# Lines that the next one of the same run replaces: the summary, progress, and the evaluation at the end.
_PASSING: Final = re.compile(r"\s*\d+%  |.* · |evaluation: ")
# What a run says of its files, which the table has no room for.
_FILES: Final = re.compile("   curve: |; resume with: ")


class SeedsDisplay:
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
        self._lines = dict.fromkeys(names, "waiting")
        self._console = console or Console()
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, name: str, line: str) -> None:
        """Show a line that a run printed; any thread may call it."""
        with self._lock:
            if self._live is None:
                self._console.out(f"{name}: {line}", highlight=False)
                return
            width = self._console.width - FREE_COLUMNS
            if not _PASSING.match(line):
                self._console.out("\n".join(folded(f"{name}: {line}", width)), highlight=False)
            self._lines[name] = _FILES.split(line)[0].strip()
            self._live.update(self._table(width), refresh=True)

    def _table(self, width: int) -> Text:
        indent = max(map(len, self._lines)) + 2
        rows = [f" {name:{indent}}{line}" for name, line in self._lines.items()]
        return Text("\n".join(row if len(row) <= width else f"{row[: width - 1]}…" for row in rows))
