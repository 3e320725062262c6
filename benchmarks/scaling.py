"""Measures how collection scales with the number of workers, and what a step and a byte cost on their way.

python -m benchmarks.scaling            the whole run: up to 16 workers, some minutes
python -m benchmarks.scaling --quick    up to 4 workers, few seconds each: does everything run?

Workers act in an env that sleeps for 10 ms in every step, so that two cores hold sixteen of them. All ratios are
between rates of the same run.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if not __package__:  # run as a file, not as a module
    sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402

from benchmarks import machine  # noqa: E402
from benchmarks.documents import write_section  # noqa: E402
from benchmarks.sleepers import make_parts  # noqa: E402
from recollect import keys  # noqa: E402
from recollect.scheme.base import engine  # noqa: E402
from recollect.scheme.base.worker import Worker  # noqa: E402
from recollect.scheme.base.worker_set import WorkerSet  # noqa: E402
from recollect.scheme.collection.c_worker_set import CWorkerSet  # noqa: E402
from recollect.scheme.collection.inbox import Inbox  # noqa: E402
from recollect.scheme.collection.slices import Slice, SliceRecorder  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
GUIDE = ROOT / "docs" / "guide" / "scaling.md"
SECTION = "scaling"
SLEEP_S = 0.01
UPDATE_EVERY = 100
SLOW_FACTOR = 5.0
LEAST_EFFICIENCY = {"async": 0.90, "sync": 0.85}
LEAST_WITH_STRAGGLER = 0.85


@dataclass
class Outcome:
    """What a run has measured.

    Attributes
    ----------
    rates : dict
        Steps per second by mode and number of workers.
    overhead_us : dict
        Time of the learner's process for each collected step, in µs, by mode and number of workers.
    straggler : dict
        Steps per second with and without one slow worker, and with it but without preemption.
    path : dict
        MB/s from a worker into the learner's storage, and of a plain copy of the same bytes; ms per message.
    """

    machine: dict[str, Any]
    rates: dict[str, dict[int, float]] = field(default_factory=dict)
    overhead_us: dict[str, dict[int, float]] = field(default_factory=dict)
    straggler: dict[str, float] = field(default_factory=dict)
    path: dict[str, float] = field(default_factory=dict)

    def efficiency(self, mode: str) -> float:
        """Rate of the most workers against as many times that of one."""
        rates = self.rates[mode]
        most = max(rates)
        return rates[most] / (most * rates[1])


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="up to 4 workers and a few seconds each")
    parser.add_argument("--seconds", type=float, help="time of each measurement (12, quick: 3)")
    parser.add_argument("--out", type=Path, help="folder for the JSON (a whole run: benchmarks/results)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark, print the table and write the files."""
    options = parse(arguments)
    torch.set_num_threads(1)
    engine.connect(runtime_env={"env_vars": {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}})
    try:
        outcome = measure(options.quick, options.seconds or (3.0 if options.quick else 12.0))
    finally:
        engine.disconnect()
    text = report(outcome)
    print(text)
    folder = options.out or (None if options.quick else RESULTS)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"scaling-{date.today().isoformat()}.json").write_text(json.dumps(asdict(outcome), indent=1) + "\n")
    if not options.quick and options.out is None:
        write_section(GUIDE, SECTION, text)
    return 0


def measure(quick: bool, seconds: float) -> Outcome:
    """Measure everything."""
    most = 4 if quick else 16
    update_every = 20 if quick else UPDATE_EVERY
    outcome = Outcome(machine.describe(1))
    for mode in ("sync", "async"):
        outcome.rates[mode], outcome.overhead_us[mode] = measure_rates(mode, most, update_every, seconds)
    outcome.straggler = measure_straggler(most, update_every, seconds)
    outcome.path = measure_path(num_messages=20 if quick else 200)
    return outcome


def measure_rates(mode: str, most: int, update_every: int, seconds: float) -> tuple[dict[int, float], dict[int, float]]:
    """Steps per second of 1, 2, 4, ... workers, and the learner's own time for each step, in µs."""
    workers = CWorkerSet(most, 0, **make_parts(SLEEP_S, update_every), mode=mode)
    rates, overheads = {}, {}
    while True:
        rates[workers.num_workers], overheads[workers.num_workers] = rate_of(workers, seconds)
        if workers.num_workers == 1:
            break
        workers.collection.remove_workers(workers.num_workers // 2)
    workers.stop()
    return dict(sorted(rates.items())), dict(sorted(overheads.items()))


def rate_of(workers: CWorkerSet, seconds: float) -> tuple[float, float]:
    """Steps per second over some stages, and the learner's own time for each step, in µs."""
    learner = workers.local_worker()
    workers.collection.collect()
    while min(report.num_steps for report in workers.collection.reports()) == 0:  # some are still being built
        workers.collection.collect()
    begin, begin_cpu, num_before = time.perf_counter(), time.process_time(), learner.num_steps
    while time.perf_counter() - begin < seconds:
        workers.collection.collect()
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


class SliceSource(Worker):
    """A worker that sends the same steps again and again, as the next ones of its stream."""

    def __init__(self, index_worker: int, epoch: int, arrays: dict[str, np.ndarray]) -> None:
        super().__init__(index_worker)
        self._arrays = arrays
        self._epoch = epoch

    def send(self, number: int, num_steps: int) -> Slice:
        """The steps as the slice with a running number."""
        self.tick()
        info = {keys.COLLECTION: {"time_s": 0.0}, "ended": [], "env_failures": 0}
        return Slice((0, self.index_worker), self._epoch, number * num_steps, 1, self._arrays, info)

    def stop(self) -> None:
        """There is nothing to stop."""


def measure_path(num_messages: int, num_steps: int = 100, obs_size: int = 7056) -> dict[str, float]:
    """MB/s on the way from a worker into the learner's storage, against a copy in memory, and ms per small message."""
    big, num_bytes = _path_rate(num_messages, num_steps, obs_size)
    small, _ = _path_rate(num_messages, 1, 1)
    source = np.ones(num_bytes, np.uint8)
    target = np.empty_like(source)
    begin = time.perf_counter()
    for _ in range(num_messages):
        np.copyto(target, source)
    copied = num_messages * num_bytes / (time.perf_counter() - begin)
    return {
        "mb_per_s": num_bytes / big / 1e6,
        "copy_mb_per_s": copied / 1e6,
        "message_ms": 1e3 * small,
        "message_bytes": num_bytes,
    }


def _path_rate(num_messages: int, num_steps: int, obs_size: int) -> tuple[float, int]:
    """Seconds of a message from another process into the storage, and its bytes."""
    parts = make_parts(0.0, num_steps, obs_size=obs_size)
    learner = CWorkerSet(0, 0, **parts).local_worker()
    learner.collect_train_data(num_steps)
    arrays = _steps(learner, num_steps)
    inbox = Inbox(learner)
    sources = WorkerSet(SliceSource, {"arrays": arrays}, None, 1)
    sent = sources.wait_all([sources.call(0, "send", number, num_steps) for number in range(2)])
    for answer in sent:
        inbox.insert(answer.value, 1)
    begin = time.perf_counter()
    for number in range(2, num_messages + 2):
        (answer,) = sources.wait_all([sources.call(0, "send", number, num_steps)])
        inbox.insert(answer.value, 1)
    elapsed_s = (time.perf_counter() - begin) / num_messages
    sources.stop()
    learner.stop()
    return elapsed_s, answer.value.num_bytes


def _steps(learner: Any, num_steps: int) -> dict[str, np.ndarray]:
    """Steps as they travel, recorded by hand."""
    recorder = SliceRecorder(num_steps)
    obs = learner.envs_train.reset()
    for _ in range(num_steps):
        action, clipped, _, _ = learner.algo.acting_step(obs, learner.rhs, learner.done)
        step = learner.envs_train.step(clipped)
        recorder.insert_transition(
            {
                keys.OBS: obs,
                keys.DONE: np.zeros((1, 1), np.float32),
                keys.ACTION: action,
                keys.REWARD: step.reward,
                keys.NEXT_OBS: step.next_obs,
                keys.NEXT_DONE: step.terminated,
                keys.NEXT_TERMINATED: step.terminated,
            }
        )
        obs = step.obs
    return recorder.take()


def report(outcome: Outcome) -> str:
    """The tables as Markdown."""
    most = max(outcome.rates["sync"])
    lines = [f"*{machine.summary(outcome.machine)}, {outcome.machine['time'][:10]}.*", ""]
    lines += ["| workers | sync, steps/s | async, steps/s | learner, µs a step |", "| --- | --- | --- | --- |"]
    for number in outcome.rates["sync"]:
        sync, unsync = outcome.rates["sync"][number], outcome.rates["async"][number]
        lines.append(f"| {number} | {sync:,.0f} | {unsync:,.0f} | {outcome.overhead_us['async'][number]:,.0f} |")
    lines.append("")
    for mode, least in LEAST_EFFICIENCY.items():
        lines.append(f"- Efficiency of {most} {mode} workers: {outcome.efficiency(mode):.0%} (at least {least:.0%}).")
    alike = outcome.straggler["all_alike"]
    kept, lost = outcome.straggler["one_slow_preempted"] / alike, outcome.straggler["one_slow"] / alike
    lines.append(
        f"- One of {most} synchronous workers five times slower: {lost:.0%} of the rate without it; with preemption "
        f"{kept:.0%} (at least {LEAST_WITH_STRAGGLER:.0%})."
    )
    path = outcome.path
    lines.append(
        f"- From a worker into the learner's storage: {path['mb_per_s']:,.0f} MB/s in messages of "
        f"{path['message_bytes'] / 1e6:.1f} MB (a plain copy in memory: {path['copy_mb_per_s']:,.0f} MB/s); "
        f"a small message takes {path['message_ms']:.1f} ms."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
