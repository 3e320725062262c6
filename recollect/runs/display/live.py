"""`LiveDisplay`: a display that a terminal updates in place."""

from collections.abc import Sequence
from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

# Columns that stay free, since a terminal shows Ctrl-C as ^C behind the last line: beyond the edge, it moves all lines.
_FREE_COLUMNS: Final = 5


class LiveDisplay:
    """Base of displays: rows that a terminal replaces in place; other consoles get plain lines instead.

    Parameters
    ----------
    console : rich.console.Console, optional
        Where to show them.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self._live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the last rows on the screen."""
        if self._live is not None:
            self._live.stop()

    @property
    def is_live(self) -> bool:
        """Whether the console is a terminal."""
        return self._live is not None

    @property
    def width(self) -> int:
        """Columns of a row."""
        return self.console.width - _FREE_COLUMNS

    def show(self, rows: Sequence[str]) -> None:
        """Replace the rows of a terminal; what does not fit is cut off."""
        if self._live is not None:
            fitting = (row if len(row) <= self.width else f"{row[: self.width - 1]}…" for row in rows)
            self._live.update(Text("\n".join(fitting)), refresh=True)
