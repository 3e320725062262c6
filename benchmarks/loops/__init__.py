"""How fast is training? Whole loops and updates of Recollect and its peers, each in a process of its own.

`benchmarks/training.py` is the command. Only it and the tests import from here; `worker.py`, `watch.py`, `tasks.py`,
`frames.py` and `competitors/` also run in interpreters without Recollect and must not import it.
"""
