"""What a checkpoint of a full replay costs: the 10th of ours, our full dump, and what peers write.

`stall` is how long the training stands still, `time` lasts until all is on disk, `MB` is what was written. Between
two checkpoints come 10,000 new steps. Peers that are not installed are left out. `--slowdown` measures how many fewer
updates a training makes while one of our checkpoints is written beside it.
"""

import argparse
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import synthetic
from benchmarks.workloads import Store

NEW_STEPS = 10_000
NUM_CHECKPOINTS = 10
# What an update computes beside its batch: networks of the size that such tasks are learned with.
BATCH, WIDTH, NUM_UPDATES = 256, 256, 100
STORES = {"per 1M": Store(kind="per", num_steps=1_000_000), "frames 200k": Store(kind="frames", num_steps=200_000)}
Cost = tuple[float, float, int]


def measure_ours(store: Store, folder: Path) -> Iterator[tuple[str, Cost]]:
    """The 10th snapshot of a store that grows, and a full dump of the same."""
    from benchmarks.peers.ours import Recollect
    from recollect.agent.storages.snapshots import StorageSnapshot

    ours = Recollect(store)
    ours.fill()
    snapshot, cost = StorageSnapshot(folder / "steps"), (0.0, 0.0, 0)
    for _ in range(NUM_CHECKPOINTS):
        _add_steps(ours, store)
        cost = _cost(lambda: snapshot.capture(ours.buffer), folder / "steps")
    yield "Recollect, 10th", cost
    full = StorageSnapshot(folder / "full")
    yield "Recollect, full dump", _cost(lambda: full.capture(ours.buffer), folder / "full")


def _add_steps(ours: Any, store: Store) -> None:
    """Append new steps, which overwrite the oldest."""
    num_steps = 0
    for chunk in synthetic.chunks(store):
        new = chunk.rows(0, min(chunk.num_steps, NEW_STEPS - num_steps))
        ours.buffer.insert_data_slice(ours._sample_of(new))
        num_steps += new.num_steps
        if num_steps >= NEW_STEPS:
            return


def measure_sb3(store: Store, folder: Path) -> Iterator[tuple[str, Cost]]:
    """What `save_replay_buffer` does: the whole buffer is pickled."""
    from stable_baselines3.common.save_util import save_to_pkl

    from benchmarks.peers.sb3 import StableBaselines3

    peer = StableBaselines3(Store(kind="uniform" if store.kind == "per" else store.kind, num_steps=store.num_steps))
    peer.fill()
    yield "SB3 save_replay_buffer", _cost(lambda: save_to_pkl(folder / "sb3.pkl", peer.buffer), folder)


def measure_torchrl(store: Store, folder: Path) -> Iterator[tuple[str, Cost]]:
    """`dumps` of a replay buffer, which writes its storage through a checkpointer."""
    from benchmarks.peers.torchrl import TorchRL

    peer: Any = TorchRL(store)
    peer.fill()
    yield "TorchRL dumps", _cost(lambda: peer.buffer.dumps(folder / "torchrl"), folder)


def measure_slowdown(store: Store, folder: Path) -> list[float]:
    """Of each checkpoint, the share of updates that is missing while it is written, against those just before."""
    from benchmarks.peers.ours import Recollect
    from recollect.agent.storages.snapshots import StorageSnapshot

    ours = Recollect(store)
    ours.fill()
    update, snapshot, shares = _updates(ours), StorageSnapshot(folder), []
    snapshot.save(ours.buffer)
    for _ in range(NUM_CHECKPOINTS):
        _add_steps(ours, store)
        writer = threading.Thread(target=snapshot.capture(ours.buffer))
        alone = _updates_per_s(update)
        writer.start()
        shares.append(1 - _updates_per_s(update, writer) / alone)
    return shares


def _updates(ours: Any) -> Callable[[], None]:
    """Draws a batch, trains a network of two hidden layers with it, and answers with errors where they count."""
    import torch

    network = torch.nn.Sequential(
        *(torch.nn.Linear(BATCH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()),
        torch.nn.Linear(WIDTH, 1),
    )
    inputs, is_prioritised = torch.zeros(BATCH, BATCH), ours.store.kind == "per"

    def update() -> None:
        batch = ours.sample(BATCH)
        errors = network(inputs)
        errors.square().mean().backward()
        if is_prioritised:
            ours.answer(batch, errors.detach().abs().ravel().numpy())

    return update


def _updates_per_s(update: Callable[[], None], writer: threading.Thread | None = None) -> float:
    """Updates a second as long as a thread writes, or of so many."""
    num_updates, start = 0, time.perf_counter()
    while num_updates == 0 or (num_updates < NUM_UPDATES if writer is None else writer.is_alive()):
        update()
        num_updates += 1
    return num_updates / (time.perf_counter() - start)


def _cost(begin: Callable[[], Any], folder: Path) -> Cost:
    """Stall in ms, time in s until all is written, and bytes that are new in the folder."""
    before, start = _files(folder), time.perf_counter()
    write = begin()
    stall_ms = 1e3 * (time.perf_counter() - start)
    if callable(write):
        write()
    elapsed_s = time.perf_counter() - start
    return stall_ms, elapsed_s, sum(size for key, size in _files(folder).items() if key not in before)


def _files(folder: Path) -> dict[tuple[str, int], int]:
    found = [(path, path.stat()) for path in folder.rglob("*") if path.is_file()] if folder.exists() else []
    return {(str(path), stat.st_mtime_ns): stat.st_size for path, stat in found}


MEASURES = {"recollect": measure_ours, "stable_baselines3": measure_sb3, "torchrl": measure_torchrl}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    parser.add_argument("--out", type=Path, help="folder on the disk to measure; the temporary one by default")
    parser.add_argument("--slowdown", action="store_true", help="measure what a training loses while one is written")
    options = parser.parse_args()
    if options.slowdown:
        for name in options.stores:
            with tempfile.TemporaryDirectory(dir=options.out) as folder:
                shares = measure_slowdown(STORES[name], Path(folder))
                low, middle, high = (100 * found for found in (min(shares), statistics.median(shares), max(shares)))
                print(
                    f"{name}: {middle:.1f} % fewer updates while one is written, from {low:.1f} to {high:.1f}",
                    flush=True,
                )
        return
    print("| store | who | stall ms | time s | MB |\n| --- | --- | ---: | ---: | ---: |")
    for name in options.stores:
        for package, measure in MEASURES.items():
            folder = Path(tempfile.mkdtemp(dir=options.out))
            try:
                import_module(package)
                for who, (stall_ms, elapsed_s, num_bytes) in measure(STORES[name], folder):
                    print(
                        f"| {name} | {who} | {stall_ms:,.1f} | {elapsed_s:.2f} | {num_bytes / 1e6:,.1f} |", flush=True
                    )
            except Exception as error:  # noqa: BLE001 a peer that fails is a row, not the end
                print(f"| {name} | {package} | failed: {error!r:.80} | | |", flush=True)
            finally:
                shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
