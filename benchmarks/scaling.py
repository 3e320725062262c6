"""Measures how collection scales with the number of workers, and what a step, a message and a byte cost.

python -m benchmarks.scaling            the whole run: up to 16 workers, some minutes
python -m benchmarks.scaling --quick    up to 4 workers, few seconds each: does everything run?

Workers act in an env that sleeps for 10 ms in every step, so that two cores hold sixteen of them. All ratios are
between rates of the same run. RLlib is compared where it is installed, here or in the interpreter that is named.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if not __package__:  # run as a file, not as a module
    sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402

from benchmarks import machine  # noqa: E402
from benchmarks.documents import write_section  # noqa: E402
from benchmarks.scaling_costs import measure_messages, measure_path  # noqa: E402
from benchmarks.scaling_gradients import measure_gradients  # noqa: E402
from benchmarks.scaling_projection import SYNC  # noqa: E402
from benchmarks.scaling_report import MODES, Outcome, draw, figure_link, measured, projected  # noqa: E402
from benchmarks.scaling_rllib import rates_elsewhere  # noqa: E402
from benchmarks.sleepers import make_parts  # noqa: E402
from recollect.scheme.base import engine  # noqa: E402
from recollect.scheme.collection.c_worker_set import CWorkerSet  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
GUIDE = ROOT / "docs" / "guide" / "scaling.md"
SLEEP_S = 0.01
SLOW_FACTOR = 5.0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="up to 4 workers and a few seconds each")
    parser.add_argument("--seconds", type=float, help="time of each measurement (12, quick: 3)")
    parser.add_argument("--rllib-python", default=sys.executable, help="interpreter that has RLlib (this one)")
    parser.add_argument("--out", type=Path, help="folder for JSON and figure (a whole run: benchmarks/results)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark, print the tables and write the files."""
    options = parse(arguments)
    seconds = options.seconds or (3.0 if options.quick else 12.0)
    torch.set_num_threads(1)
    outcome = measure(options.quick, seconds)
    outcome.rllib = rates_elsewhere(
        options.rllib_python, list(outcome.rates[SYNC]), outcome.update_every, SLEEP_S, seconds
    )
    sections = {"scaling": measured(outcome), "scaling-projection": projected(outcome)}
    print("\n\n".join(sections.values()))
    folder = options.out or (None if options.quick else RESULTS)
    if folder is not None:
        figure = write_files(outcome, folder)
        if options.out is None:
            write_guide(sections, figure)
    return 0


def measure(quick: bool, seconds: float) -> Outcome:
    """Measure everything but RLlib, on a Ray of its own."""
    most = 4 if quick else 16
    outcome = Outcome(machine.describe(1), update_every=20 if quick else 100, sleep_s=SLEEP_S)
    engine.connect(runtime_env={"env_vars": {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}})
    try:
        for mode in MODES:
            outcome.rates[mode], outcome.overhead_us[mode] = measure_rates(mode, most, outcome.update_every, seconds)
        outcome.straggler = measure_straggler(most, outcome.update_every, seconds)
        outcome.path = measure_path(num_messages=20 if quick else 200)
        outcome.messages = measure_messages(num_messages=20 if quick else 200)
        outcome.gradients = measure_gradients(seconds)
    finally:
        engine.disconnect()
    return outcome


def measure_rates(mode: str, most: int, update_every: int, seconds: float) -> tuple[dict[int, float], dict[int, float]]:
    """Steps per second of 1, 2, 4, ... workers, and the learner's own time for each step, in µs."""
    workers = CWorkerSet(most, 0, **make_parts(SLEEP_S, update_every), mode=mode)
    rates, overheads = {}, {}
    while True:
        rates[workers.num_workers], overheads[workers.num_workers] = rate_of(workers, seconds)
        if workers.num_workers == 1:
            break
        workers.collector.set_num_workers(workers.num_workers - workers.num_workers // 2)
    workers.stop()
    return dict(sorted(rates.items())), dict(sorted(overheads.items()))


def rate_of(workers: CWorkerSet, seconds: float) -> tuple[float, float]:
    """Steps per second over some stages, and the learner's own time for each step, in µs."""
    learner = workers.local_worker()
    workers.collector.collect()
    while min(report.num_steps for report in workers.collector.reports()) == 0:  # some are still being built
        workers.collector.collect()
    begin, begin_cpu, num_before = time.perf_counter(), time.process_time(), learner.num_steps
    while time.perf_counter() - begin < seconds:
        workers.collector.collect()
    num_steps = learner.num_steps - num_before
    elapsed_s, cpu_s = time.perf_counter() - begin, time.process_time() - begin_cpu
    return num_steps / elapsed_s, 1e6 * cpu_s / num_steps


def measure_straggler(most: int, update_every: int, seconds: float) -> dict[str, float]:
    """Steps per second of synchronous workers: all alike, one slow, and one slow with preemption."""
    preemption = {"fraction_samples": 0.1, "fraction_workers": 0.9 if most >= 10 else (most - 1) / most}
    cases: dict[str, tuple[float, dict[str, Any]]] = {
        "all_alike": (1.0, {}),
        "one_slow": (SLOW_FACTOR, {}),
        "one_slow_preempted": (SLOW_FACTOR, preemption),
    }
    found = {}
    for name, (factor, options) in cases.items():
        workers = CWorkerSet(most, 0, **make_parts(SLEEP_S, update_every, slow_factor=factor), **options)
        found[name], _ = rate_of(workers, seconds)
        workers.stop()
    return found


def write_files(outcome: Outcome, folder: Path) -> Path:
    """Write JSON and figure into a folder; returns the path of the figure."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"scaling-{date.today().isoformat()}"
    (folder / f"{stem}.json").write_text(json.dumps(asdict(outcome), indent=1) + "\n")
    figure = folder / f"{stem}.png"
    draw(outcome, figure)
    return figure


def write_guide(sections: dict[str, str], figure: Path) -> None:
    """Put the sections into the guide, what was measured with its figure."""
    shown = sections | {"scaling": f"{sections['scaling']}\n\n{figure_link(figure, GUIDE)}"}
    for name, text in shown.items():
        write_section(GUIDE, name, text)


if __name__ == "__main__":
    sys.exit(main())
