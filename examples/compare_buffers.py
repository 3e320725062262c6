"""Compare storages fairly: same agent, same seeds, learning curves with confidence bands.

On the command line, run `recollect train sac Pendulum-v1 --seeds 3 --set storage=ere` for each storage, then
`recollect plot runs/pendulum-sac-* --by storage`.
"""

import argparse
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import recollect as rc
from recollect.runs.plots import plot_runs

STORAGES: dict[str, dict[str, Any]] = {
    "replay": {},
    "per": {},
    "ere": {"cmin": 1_000},
}


def train(storage: str, seed: int, steps: int, folder: Path) -> Path:
    options = {"test_every": max(1, steps // 8), "num_test_episodes": 5}
    agent = rc.Agent("sac", "Pendulum-v1", storage, seed=seed, preset="none", **options, **STORAGES[storage])
    agent.learn(steps, log_dir=folder / f"{storage}-{seed}")
    agent.close()
    return folder / f"{storage}-{seed}"


def main(steps: int = 5_000, num_seeds: int = 3) -> list[Path]:
    folder = Path(mkdtemp())
    runs = [train(storage, seed, steps, folder) for storage in STORAGES for seed in range(1, num_seeds + 1)]
    files = plot_runs(runs, folder / "storages", by="storage")
    print(*files)
    return files


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5_000)
    parser.add_argument("--num-seeds", type=int, default=3)
    main(**vars(parser.parse_args()))
