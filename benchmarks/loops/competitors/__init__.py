"""One module per competitor, each with `run(task, watch, overrides)`: its own training loop, as its users write it.

A module imports its library inside `run`; `COMPETITORS` in `catalog.py` says which interpreter has it.
"""
