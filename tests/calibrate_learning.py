"""Repeat the learning checks under many seeds, numbers of threads and instruction sets, and tell how safe each one is.

    python -m tests.calibrate_learning                      what is missing, then the table
    python -m tests.calibrate_learning --only ppo           checks whose name has these words
    python -m tests.calibrate_learning --again --only ppo   forget what there was, as after a change to a preset
    python -m tests.calibrate_learning --report             only the table

Every trial has a seed of its own. There is a process per setting, as PyTorch reads the instruction set when it is
loaded. Each score is written to `learning_trials.jsonl` at once, so a script that was stopped continues where it was.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from datetime import date
from typing import Any, Final

import torch

from benchmarks.machine import cpu_model
from tests.integration import test_alpha_alone, test_examples, test_learning
from tests.integration.ray import test_cells, test_killed_runs
from tests.integration.ray.cluster import running_cluster
from tests.learning import MAX_FALSE_ALARMS, TRIALS, Check, read_trials, scores_of

RAY_CHECKS: Final = test_cells.CHECKS | test_killed_runs.CHECKS
CHECKS: Final[dict[str, Check]] = test_learning.CHECKS | test_examples.CHECKS | test_alpha_alone.CHECKS | RAY_CHECKS
INSTRUCTIONS: Final[dict[str, dict[str, str]]] = {
    "native": {},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "sse": {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}
SETTINGS: Final = list(itertools.product((1, 2), INSTRUCTIONS))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=24, help="trials of each check (24)")
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORDS", help="checks whose name has these words")
    parser.add_argument("--again", action="store_true", help="forget the trials of these checks first")
    parser.add_argument("--report", action="store_true", help="train nothing, print the table of what there is")
    parser.add_argument("--setting", type=int, help=argparse.SUPPRESS)  # how the script calls itself
    options = parser.parse_args()
    options.names = [name for name in CHECKS if any(words in name for words in options.only)]
    return options


def main() -> int:
    """Run the trials that are missing and print the table; 1 if a check is not safe."""
    options = parse()
    if options.setting is not None:
        run_setting(options.setting, options.names, options.trials)
        return 0
    if options.again:
        kept = [trial for trial in read_trials() if trial["check"] not in options.names]
        TRIALS.write_text("".join(json.dumps(trial) + "\n" for trial in kept))
    for number, (threads, instructions) in enumerate(SETTINGS):
        if not options.report and pending(number, options.names, options.trials):
            arguments = ["--setting", str(number), "--trials", str(options.trials), "--only", *options.only]
            command = [sys.executable, "-m", "tests.calibrate_learning", *arguments]
            # Threads that spin while they wait for each other are many times slower on a machine that is not idle.
            waiting = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
            environment = os.environ | INSTRUCTIONS[instructions] | waiting
            subprocess.run(command, env=environment, check=True)
    return report(options.names)


def pending(setting: int, names: list[str], num_trials: int) -> list[tuple[str, int]]:
    """Checks and seeds that are still to be run under a setting."""
    done = {(trial["check"], trial["seed"]) for trial in read_trials()}
    seeds = range(setting + 1, num_trials + 1, len(SETTINGS))
    return [(name, seed) for name in names for seed in seeds if (name, seed) not in done]


def run_setting(setting: int, names: list[str], num_trials: int) -> None:
    """Run the trials of one setting in this process."""
    threads, instructions = SETTINGS[setting]
    torch.set_num_threads(threads)
    todo = pending(setting, names, num_trials)
    with running_cluster(threads) if any(name in RAY_CHECKS for name, _ in todo) else nullcontext():
        for place, (name, seed) in enumerate(todo):
            start = time.perf_counter()
            score = round(CHECKS[name].train(seed), 4)
            trial = {"check": name, "seed": seed, "threads": threads, "instructions": instructions, "score": score}
            write(trial | {"elapsed_s": round(time.perf_counter() - start, 1)})
            print(
                f"{place + 1:3} of {len(todo)}, {threads} x {instructions}: {name}, seed {seed}: {score:.4g}",
                flush=True,
            )


def write(trial: dict[str, Any]) -> None:
    """Add a trial to the file."""
    with TRIALS.open("a") as file:
        file.write(json.dumps(trial | {"date": date.today().isoformat(), "processor": cpu_model()}) + "\n")


def report(names: list[str]) -> int:
    """Print what each check's trials gave; 1 if one of them may raise too many false alarms."""
    trials, num_unsafe = read_trials(), 0
    for name in names:
        check, scores = CHECKS[name], scores_of(name, trials)
        unsafe = not scores or check.false_alarm(scores) >= MAX_FALSE_ALARMS
        num_unsafe += unsafe
        line = check.summary(scores) if scores else "no trials"
        print(f"{name:48} threshold {check.threshold:6}  {line}{'  UNSAFE' if unsafe else ''}")
    return min(1, num_unsafe)


if __name__ == "__main__":
    sys.exit(main())
