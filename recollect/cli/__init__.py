"""The command `recollect`: one module for each command, and what they share. No other room imports from here.

Only `main` is defined here: the modules `list` and `eval` would hide the built-ins.
"""

from recollect.cli.command import main

__all__ = ["main"]
