"""One run in a process of its own: train, evaluate, write the record.

python -m benchmarks.learn.worker CELL SEED FOLDER
"""

import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

import torch

from benchmarks.learn import ours, sb3
from benchmarks.learn.ablation import ABLATION
from benchmarks.learn.configs import config_of
from benchmarks.learn.experiments import TABLE, Cell
from benchmarks.learn.records import NUM_EPISODES, Record, Trained, hash_of

PACKAGES = ("recollect", "torch", "gymnasium", "numpy")


def main(arguments: list[str]) -> int:
    """Do the run that the arguments name."""
    key, seed, folder = arguments
    cell = next(cell for cell in (*TABLE, *ABLATION) if cell.key == key)
    torch.set_num_threads(1)
    run(cell, int(seed)).write(Path(folder))
    return 0


def run(cell: Cell, seed: int) -> Record:
    """Train and evaluate one seed of a cell."""
    config = config_of(cell, seed)
    start = time.perf_counter()
    trained = _train(cell, seed)
    return Record(
        cell=cell.key,
        seed=seed,
        config_hash=hash_of(config),
        config=config,
        date=date.today().isoformat(),
        elapsed_s=time.perf_counter() - start,
        evaluation=trained.evaluation,
        curve=trained.curve,
        versions={name: version(name) for name in PACKAGES} | trained.versions,
    )


def _train(cell: Cell, seed: int) -> Trained:
    if cell.peer is not None:
        return sb3.train(cell.peer, cell.steps, seed, NUM_EPISODES)
    return ours.train(cell, seed, NUM_EPISODES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
