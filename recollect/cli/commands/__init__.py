"""One module for each command, with `make_parser()` and `run(options)`, loaded when the command is given.

Only `recollect.cli.command` imports them, by name.
"""
