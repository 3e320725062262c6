"""The process in which one competitor trains on one task; it talks JSON over its standard streams.

python -m benchmarks.loops.worker COMPETITOR TASK CORE [CORE ...]
"""

import logging
import os
import sys
import traceback
import warnings
from importlib import import_module
from importlib.metadata import version

from benchmarks.loops.catalog import COMPETITORS
from benchmarks.loops.tasks import find
from benchmarks.loops.watch import Watch


def main(arguments: list[str]) -> int:
    """Train until the parent hangs up."""
    name, key, *cores = arguments
    # Before any library counts the cores that it may use.
    os.sched_setaffinity(0, {int(core) for core in cores})
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    competitor, task = COMPETITORS[name], find(key)
    watch = Watch(sys.stdin, answers, task.start_steps)
    try:
        # Its own threads follow the affinity; torch asks the environment, which the parent has set.
        watch.answer({"version": version(competitor.package)})
        module, function = competitor.run.split(":")
        run = getattr(import_module(f"benchmarks.loops.competitors.{module}"), function)
        run(task, watch, competitor.overrides)
    except Exception as error:  # noqa: BLE001  whatever a competitor raises is its result
        traceback.print_exception(error)
        watch.answer({"failure": reason_of(error)})
    return 0


def reason_of(error: Exception) -> str:
    """Say on one line why a competitor does not run."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
