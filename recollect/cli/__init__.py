"""The command `recollect`. Nothing else is defined here: the modules `list` and `eval` would hide the built-ins."""

from recollect.cli.command import main

__all__ = ["main"]
