"""Draws where the time of our loops goes, in processor time of one core.

python -m benchmarks.loops.breakdown                      all loops into benchmarks/results/breakdown.png, three minutes
python -m benchmarks.loops.breakdown sac ddqn-small --out breakdown.png
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
import torch

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.loops.chart import COLOURS
from benchmarks.loops.profile import ROOT, advance, clock_all, start
from benchmarks.loops.tasks import TASKS, Task, find

PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "environment": ("env step",),
    "acting": ("acting", "taking steps: the rest", "observe (normalisers)"),
    "storing": ("storing steps: the rest", "insert"),
    "batches": ("sample", "before gradients", "after gradients"),
    "gradients": (
        "gradients: the rest",
        "forward and backward",
        "zero gradients",
        "clip gradients",
        "losses to numbers",
    ),
    "optimiser and target networks": ("optimiser", "apply: the rest", "target networks"),
    "stages": ("learner: the rest of a stage", "collection: the rest"),
}
"""Parts of a loop, each with the sections of `profile` that it consists of."""
SECONDS_A_LOOP: Final = 6.0


def measure(task: Task, seconds: float = SECONDS_A_LOOP) -> dict[str, float]:
    """Return the µs that each part takes of a step."""
    agent, learner = start(task)
    num_steps, _, elapsed_s = advance(learner, 200)
    sections = clock_all(agent, learner)
    num_steps, _, _ = advance(learner, max(200, int(seconds * num_steps / elapsed_s)))
    agent.close()
    found = {part: sum(sections.seconds[title] for title in titles) for part, titles in PARTS.items()}
    return {part: part_s / num_steps * 1e6 for part, part_s in found.items()}


def draw(loops: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Write a chart with a bar for each loop, whose whole length is the time of a step."""
    figure, axes = plt.subplots(figsize=(10, 1.4 + 0.55 * len(loops)), layout="constrained")
    for row, times in enumerate(loops.values()):
        whole, left = sum(times.values()), 0.0
        for colour, part in zip(COLOURS, PARTS, strict=False):
            share = times[part] / whole
            axes.barh(row, share, 0.7, left=left, color=colour, label=part if row == 0 else None)
            if share > 0.05:
                axes.text(left + share / 2, row, f"{share:.0%}", ha="center", va="center", fontsize=8)
            left += share
        axes.text(1.01, row, f"{whole:,.0f} µs a step", va="center", fontsize=8)
    axes.set_yticks(range(len(loops)), list(loops))
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.0)
    axes.set_xticks([])
    axes.spines[:].set_visible(False)
    figure.legend(loc="outside upper center", ncols=len(PARTS), frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the loops that are asked for, print the parts and draw them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loops.breakdown", description=__doc__)
    keys = [task.key for task in TASKS]
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"loops, by default all: {', '.join(keys)}")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "breakdown.png")
    options = parser.parse_args(arguments)
    if unknown := set(options.tasks) - set(keys):
        parser.error(f"unknown {', '.join(sorted(unknown))}; known: {', '.join(keys)}")
    torch.set_num_threads(1)
    loops = {}
    for key in options.tasks or keys:
        task = find(key)
        loops[task.title] = measure(task)
        print(task.title, *(f"  {part:30} {us:9,.1f} µs" for part, us in loops[task.title].items()), sep="\n")
    draw(loops, options.out)
    print(f"wrote {options.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
