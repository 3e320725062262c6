"""Do the agents learn? Runs of every tuned preset, a peer in the same harness, an ablation of the storages."""

from benchmarks.learn.command import main

__all__ = ["main"]
