"""Kills trainings at random moments, resumes them, and compares what they end in with one that was never killed.

`python -m tests.kill_runs FOLDER SEED NUM_KILLS [--few] [--settings]` is a process of its own, from which each training
is forked. A killed training is `recollect train` or `recollect resume`; a third each is killed at a moment of its life,
is killed in an operation of the file layer, and is told to end by SIGTERM or SIGINT. Each kill, and each run that was
compared, is a line of JSON.
"""

import contextlib
import csv
import gc
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recollect import learner, metrics
from recollect.api import Agent
from recollect.cli import main as recollect
from recollect.cli import session
from recollect.files import disk
from recollect.runs import RunDirectory
from recollect.runs.checkpointing.state_files import read_state
from tests.faulty_disk import WatchedOS
from tests.kill_cells import Cell, all_cells, few_cells, register_envs, set_cells
from tests.zygote import in_child

MOST_SECONDS = 300.0
# How fast the machine is, and how much memory is set aside, which a storage that was read back needs less of.
OF_THE_MACHINE = (
    *(metrics.ELAPSED_S, metrics.STEPS_PER_S, metrics.UPDATES_PER_S, metrics.STORAGE_BYTES),
    *(metrics.CHECKPOINT_STALL_MS, metrics.CHECKPOINT_WRITE_S),
)


class CountingOS(WatchedOS):
    """Ends the process in the operation of a number, before it happens or right after it."""

    def __init__(self, number: int | None = None, *, is_after: bool = False) -> None:
        super().__init__()
        self.number, self.is_after = number, is_after

    def change(self, name: str, function: Any, *args: Any, **kwargs: Any) -> Any:
        is_last = len(self.calls) - 1 == self.number
        if is_last and self.is_after:
            function(*args, **kwargs)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)


class Trial:
    """A run of a cell in a folder, which may be killed and resumed.

    Parameters
    ----------
    cell : Cell
        What to train.
    folder : Path
        Where; made.
    """

    def __init__(self, cell: Cell, folder: Path) -> None:
        self.cell, self.folder = cell, folder
        self.log = folder / "log.txt"
        self.seconds, self.num_operations = 0.0, 0
        folder.mkdir(parents=True)

    @property
    def run(self) -> Path:
        """The folder of the run; a training that was killed before there was one left a folder without."""
        found = sorted(path.parent for path in self.folder.glob("*/config.yaml"))
        return found[0] if found else self.folder / "run"

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do, and to resume."""
        return (self.run / "evaluation.json").exists()

    def train(
        self, kill_after_s: float | None = None, faulty: CountingOS | None = None, *, number: int = signal.SIGKILL
    ) -> bool:
        """Train or resume, as far as it gets; returns whether a signal ended it."""
        watched = faulty or CountingOS()
        words = ["resume", str(self.run)]
        if not (self.run / "config.yaml").exists():
            words = ["train", *self.cell.command(self.folder.parent), "--out", str(self.folder), "--name", "run"]

        def child() -> int:
            disk.os = watched  # type: ignore[assignment]
            code = recollect(words)
            (self.folder / "operations").write_text(str(len(watched.calls)))
            return code

        code, self.seconds = in_child(child, self.log, kill_after_s=kill_after_s or MOST_SECONDS, number=number)
        if code == 0:
            self.num_operations = int((self.folder / "operations").read_text())
            return False
        expected = [-signal.SIGKILL] if kill_after_s is None else [None, -number, 128 + number]
        was_killed = code in expected
        assert was_killed, f"{words} ended with {code}: {self.log.read_text()[-3000:]}"
        return True

    def digest(self) -> dict[str, str]:
        """What the run ended in, by path: hashes of arrays, and rows of metrics as they are."""
        target = self.folder / "digest.json"

        def child() -> int:
            target.write_text(json.dumps(dict(digest_of(self.run))))
            return 0

        ending = in_child(child, self.log, kill_after_s=MOST_SECONDS)
        assert ending.code == 0, self.log.read_text()[-3000:]
        found: dict[str, str] = json.loads(target.read_text())
        return found


def digest_of(folder: Path) -> Iterator[tuple[str, str]]:
    """All that a run ended in but what depends on the machine, by path."""
    run = RunDirectory.open(folder)
    kept = read_state(run.checkpoint(with_replay=True), "state")
    del kept["elapsed_s"], kept["row"]
    best = read_state(run.checkpoint(best=True), "state")
    del best["elapsed_s"], best["row"]
    agent = Agent.load(folder)
    scheme = agent.scheme
    parts = {"checkpoint": kept, "best": best, "actor": dict(scheme.actor.state_dict()), "state": scheme.state()}
    parts["stored"] = scheme.storage.get_all_buffer_data()
    if not scheme.algo.is_on_policy:
        parts["drawn"] = [scheme.storage.sample(16) for _ in range(2)]
    for path, value in leaves("", parts):
        # Whole numbers of 128 bits, which generators have, are objects to NumPy.
        content = repr(value.tolist()).encode() if value.dtype == object else value.tobytes()
        yield path, f"{value.dtype}{value.shape} {hashlib.sha256(content).hexdigest()}"
    with (folder / "metrics.csv").open() as file:
        for number, row in enumerate(csv.DictReader(file)):
            yield f"row {number}", json.dumps({name: row[name] for name in row if name not in OF_THE_MACHINE})
    yield "evaluation", (folder / "evaluation.json").read_text()
    yield "session", (folder / "session.json").read_text()
    yield "left behind", json.dumps(sorted(str(path.relative_to(folder)) for path in folder.rglob("*.partial")))


def leaves(path: str, value: object) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a tree by their paths."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(f"{path}/{name}", inner)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from leaves(f"{path}/{index}", inner)
    else:
        yield path, np.asarray(value)


def kill_and_compare(whole: Trial, expected: dict[str, str], folder: Path, most: int, rng: random.Random) -> int:
    """Kill a run of the same cell up to `most` times, let it end, and compare; returns how often it was killed."""
    trial, num_kills, tries = Trial(whole.cell, folder), 0, 0
    while num_kills < most and tries < 3 * most and not trial.is_over:
        tries += 1
        kind, number = rng.choice(["moment", "operation", "signal"]), signal.SIGKILL
        if kind == "operation":
            operation = rng.randrange(whole.num_operations)
            was_killed = trial.train(faulty=CountingOS(operation, is_after=rng.random() < 0.5))
            moment = f"operation {operation} of {whole.num_operations}"
        else:
            number = signal.SIGKILL if kind == "moment" else rng.choice([signal.SIGTERM, signal.SIGINT])
            seconds = rng.uniform(0.0, whole.seconds)
            was_killed = trial.train(kill_after_s=seconds, number=number)
            moment = f"{number.name} after {seconds:.3f} s of {whole.seconds:.3f}"
        if not was_killed:
            break
        num_kills += 1
        say({"kill": moment, "cell": whole.cell, "folder": folder.name})
    if not trial.is_over:
        trial.train()
    found = trial.digest()
    different = sorted(path for path in expected.keys() | found.keys() if expected.get(path) != found.get(path))
    say({"compared": len(expected), "cell": whole.cell, "folder": folder.name, "different": different[:20]})
    if not different:
        shutil.rmtree(folder)
    return num_kills


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def warm_up(folder: Path) -> None:
    """Import all and load all kernels before anything is forked, which takes as long as four trainings."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        for algo, data in (("ddqn", "choices"), ("sac", "steps")):
            name = f"warm-{algo}"
            recollect(["train", *Cell(algo, "per").command(folder), "--out", str(folder), "--name", name])
            recollect(["data", "convert", str(folder / name), "--to", str(folder / f"{data}.npz")])
    dict(digest_of(folder / name))
    gc.collect()
    gc.freeze()  # what is never looked at again is never copied


def main(folder: Path, seed: int, num_kills: int, cells: list[Cell]) -> None:
    """Kill runs of all cells in turn until there were as many kills as wanted, beginning anywhere."""
    torch.set_num_threads(1)
    register_envs()
    # Curves take half of the time of such small runs to draw.
    session.plot_run = lambda folder: folder  # type: ignore[attr-defined]
    # Rows fall between stages, so that one more, of an interrupt, is noticed.
    learner.ROWS_A_RUN = 3  # type: ignore[misc]
    warm_up(folder)
    rng, wholes, done = random.Random(seed), dict[Cell, tuple[Trial, dict[str, str]]](), 0
    first = rng.randrange(len(cells))
    for number, cell in enumerate(itertools.cycle(cells[first:] + cells[:first])):
        if done >= num_kills:
            return
        if cell not in wholes:
            whole = Trial(cell, folder / "-".join(["whole", *filter(None, cell)]))
            whole.train()
            wholes[cell] = whole, whole.digest()
        most = min(num_kills - done, rng.choice([1, 2, 3, 4]))
        done += kill_and_compare(*wholes[cell], folder / f"killed-{number}", most, rng)


if __name__ == "__main__":
    wanted = set_cells() if "--settings" in sys.argv else few_cells() if "--few" in sys.argv else all_cells()
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), wanted)
