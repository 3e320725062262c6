"""Opens forged runs, one after the other, in a process of its own: `python -m tests.fuzz_runs RUN FIRST NUMBER`.

A forged run must be refused with an error of ours, or resume and learn on. Each outcome is a line of JSON; the line of
a forgery that ends the process, hangs or takes all memory is missing.
"""

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

from recollect.config import RunConfig, build
from recollect.errors import RecollectError
from recollect.learner import Learner
from recollect.runs import RunDirectory
from tests.fuzzing import SETTINGS, forge

RESUMED = "resumed"
UNTYPED = "untyped"
SECONDS_EACH = 60
MAX_BYTES = 8 << 30
# A folder in memory if there is one: most of the time would go into syncing what is removed at once.
IN_MEMORY = Path("/dev/shm")


def outcome_of(folder: Path, kind: str) -> str:
    """Resume a forged run and learn on, and say how that ended."""
    learner = None
    try:
        run = RunDirectory.open(folder)
        config = RunConfig.from_document(run.config, source=str(run.config_file))
        scheme = build(config)
        if kind == SETTINGS:
            scheme.stop()  # settings that are none of ours may well ask for years of work
            return RESUMED
        learner = Learner(scheme, config.steps, folder, resume=True)
        learner.step()
        learner.save_checkpoint()
    except RecollectError as error:
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 what else there is must be found, and is told
        return f"{UNTYPED}: {error!r} in {traceback.format_exc(limit=-2)}"
    finally:
        if learner is not None:
            learner.stop()
    return RESUMED


def main(source: Path, first: int, number: int) -> None:
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    for each in range(first, first + number):
        folder = Path(tempfile.mkdtemp(prefix="forged-", dir=place))
        kind = forge(source, folder / "run", each)
        signal.alarm(SECONDS_EACH)
        outcome = outcome_of(folder / "run", kind)
        signal.alarm(0)
        shutil.rmtree(folder)
        sys.stdout.write(json.dumps([each, kind, outcome]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
