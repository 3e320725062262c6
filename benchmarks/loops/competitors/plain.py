"""A plain script for each algorithm, as one would write it in a single file with PyTorch and nothing else."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from benchmarks.loops.tasks import Task
from benchmarks.loops.watch import Watch


def run(task: Task, watch: Watch, overrides: Mapping[str, Any]) -> None:
    """Run the script of the task's algorithm until the watch stops it."""
    import_module(f"benchmarks.loops.competitors.plain_{task.algorithm}").run(task, watch)
