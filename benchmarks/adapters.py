"""Our buffers inside other libraries: time of the whole loop, scores and memory, theirs and ours in one run.

`make bench-adapters` takes turns between the two, seed by seed, takes up where it was stopped, and ends with the table
in `docs/results/adapters.md`. Each loop runs in a process of its own, on one thread.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks import machine
from benchmarks.documents import write_section
from benchmarks.learn.statistics import mean_and_error

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = Path(__file__).parent / "results" / "adapters.json"
PAGE: Final = ROOT / "docs" / "results" / "adapters.md"
SIDES: Final = ("theirs", "ours")
LEARNED: Final = {"sb3": "SB3's DQN", "cleanrl": "CleanRL's `dqn.py`", "torchrl": "a DQN loop of TorchRL"}
FILLED: Final = {"sb3": "SB3, CleanRL", "torchrl": "TorchRL"}

Outcomes = Mapping[str, Mapping[str, float]]


def commands(num_seeds: int) -> Iterator[tuple[str, ...]]:
    """What to run, such as `learn sb3 ours 1`; the sides take turns."""
    for library in FILLED:
        yield from (("memory", library, side) for side in SIDES)
    for seed in range(1, num_seeds + 1):
        for library in LEARNED:
            yield from (("learn", library, side, str(seed)) for side in SIDES)


def run(command: tuple[str, ...]) -> dict[str, float]:
    """Run one loop; returns what it printed last."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.adapter_loops", *command]
    outcome = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if outcome.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {outcome.stderr[-800:]}")
    found: dict[str, float] = json.loads(outcome.stdout.splitlines()[-1])
    return found


def table(outcomes: Outcomes) -> str:
    """Processor time (the best of the seeds), scores and memory of both sides."""
    lines = ["| what | seeds | theirs | ours |", "| --- | ---: | ---: | ---: |"]
    for library, title in LEARNED.items():
        found = [_outcomes_of(outcomes, "learn", library, side) for side in SIDES]
        if num := min(map(len, found)):
            best = " | ".join(f"{min(each['cpu_s'] for each in side):.1f}" for side in found)
            scores = (mean_and_error([each["score"] for each in side]) for side in found)
            lines.append(f"| {title}, processor time in s | {num} | {best} |")
            lines.append(
                f"| {title}, return | {num} | {' | '.join(f'{each.mean:.0f} ± {each.error:.0f}' for each in scores)} |"
            )
    for library, title in FILLED.items():
        found = [_outcomes_of(outcomes, "memory", library, side) for side in SIDES]
        if min(map(len, found)):
            sizes = " | ".join(f"{first['mb']:.0f}" for first, *_ in found)
            lines.append(f"| {title}, MB of 5,000 stacks of frames | | {sizes} |")
    return "\n".join(lines)


def _outcomes_of(outcomes: Outcomes, *words: str) -> list[Mapping[str, float]]:
    return [found for name, found in outcomes.items() if name.split()[: len(words)] == list(words)]


def main() -> None:
    """Run what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    num_seeds = parser.parse_args().seeds
    known: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"outcomes": {}}
    for command in commands(num_seeds):
        name = " ".join(command)
        if name not in known["outcomes"]:
            known["outcomes"][name] = run(command)
            known |= {"date": datetime.now(UTC).date().isoformat(), "machine": machine.describe(1)}
            RESULTS.write_text(json.dumps(known, indent=1) + "\n")
            print(f"{name}: {known['outcomes'][name]}", flush=True)
    section = f"{table(known['outcomes'])}\n\n{known['date']}; {machine.summary(known['machine'])}."
    write_section(PAGE, "adapters", section)
    print(section)


if __name__ == "__main__":
    main()
