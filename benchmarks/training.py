"""Times whole training loops of Recollect and its peers, side by side in one run.

python -m benchmarks.training            the whole run: eight loops, one and two cores, about 45 minutes
python -m benchmarks.training --quick    short windows and two rounds: does everything run?
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if not __package__:  # run as a file, not as a module
    sys.path.insert(0, str(ROOT))

from benchmarks import machine  # noqa: E402
from benchmarks.documents import write_section  # noqa: E402
from benchmarks.loops import harness, report, tasks  # noqa: E402
from benchmarks.loops.catalog import COMPETITORS  # noqa: E402
from benchmarks.loops.results import Results  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "results" / "training.md"
JAX_PYTHON = ROOT / ".venv-jax" / "bin" / "python"
CORES = (1, 2)

logger = logging.getLogger("benchmarks")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training",
        description="Time whole training loops of Recollect and its peers, side by side in one run.",
    )
    parser.add_argument("--quick", action="store_true", help="short windows and two rounds")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="tasks or algorithms, such as sac or ddqn-small")
    parser.add_argument("--competitors", nargs="+", choices=tuple(COMPETITORS), metavar="NAME")
    parser.add_argument("--rounds", type=int, help="timed rounds (5, quick: 2)")
    parser.add_argument("--cores", nargs="+", type=int, default=list(CORES), metavar="N", help="numbers of cores (1 2)")
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: processor time, for one core of a busy machine",
    )
    parser.add_argument("--out", type=Path, help="folder for JSON and PNG (a whole run: benchmarks/results)")
    parser.add_argument(
        "--publish", action="store_true", help="write the page of results, as a whole run does; others are labelled"
    )
    parser.add_argument("--render", type=Path, metavar="JSON", help="time nothing: report what a run has written")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="interpreter of the PyTorch peers")
    parser.add_argument("--jax-python", type=Path, default=JAX_PYTHON, help="interpreter of SBX (.venv-jax)")
    options = parser.parse_args(arguments)
    known = {name for task in tasks.TASKS for name in (task.key, task.group)}
    if unknown := set(options.only or ()) - known:
        parser.error(f"--only: unknown {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}")
    available = len(os.sched_getaffinity(0))
    if wrong := [number for number in options.cores if not 1 <= number <= available]:
        parser.error(f"--cores: this machine has {available}, got {wrong[0]}; choose with --cores")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print the tables and write the files."""
    options = parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", force=True)
    folder = options.out or (RESULTS if is_whole(options) or options.publish else None)
    if options.render is not None:
        outcome, interrupted = report.Report.read(options.render), False
    else:
        outcome, interrupted = measure(options, folder)
    print(report.text(outcome))
    if folder is not None and outcome.results.entries:
        chart = write_chart(outcome, folder)
        if options.publish or (is_whole(options) and not options.out and not interrupted):
            write_section(PAGE, "training", report.markdown(outcome, os.path.relpath(chart, PAGE.parent)))
    return 130 if interrupted else 0


def is_whole(options: argparse.Namespace) -> bool:
    """Say whether all rows are run as the page has them."""
    partial = options.quick or options.only or options.competitors or options.render or options.clock != "wall"
    return not partial and options.rounds in (None, harness.FULL.rounds) and tuple(options.cores) == CORES


def measure(options: argparse.Namespace, folder: Path | None) -> tuple[report.Report, bool]:
    """Time what the options ask for; returns what there is, and whether the run was interrupted."""
    chosen = list(tasks.TASKS) if options.only is None else tasks.select(options.only)
    plan = harness.QUICK if options.quick else harness.FULL
    plan = plan if options.rounds is None else replace(plan, rounds=options.rounds)
    place = machine.describe(max(options.cores))
    place["packages"] = {name: number for name, number in place["packages"].items() if name != "tensordict"}
    results = Results(clock=options.clock)

    def reported() -> report.Report:
        settings = {
            "date": date.today().isoformat(),
            "quick": options.quick,
            "rounds": plan.rounds,
            "whole": is_whole(options),
            "loop_s": plan.loop_s,
            "updates_s": plan.updates_s,
            "clock": options.clock,
        }
        return report.Report(machine=place, settings=settings, results=results)

    def keep(_: Results) -> None:
        if folder is not None:
            write_json(reported(), folder)

    log = sys.stderr if os.environ.get("BENCH_TRACEBACKS") else None
    start = harness.Starter(sorted(os.sched_getaffinity(0)), options.python, options.jax_python, log)
    try:
        cells = harness.cells_of(chosen, options.cores)
        harness.run(start, cells, options.competitors or list(COMPETITORS), plan, keep, results)
    except KeyboardInterrupt:
        logger.warning("interrupted; what was measured is kept")
        return reported(), True
    return reported(), False


def stem_of(outcome: report.Report, folder: Path) -> Path:
    """Say where a run's files lie, without their suffix."""
    kind = "training-quick" if outcome.settings["quick"] else "training"
    return folder / f"{kind}-{outcome.settings['date']}"


def write_json(outcome: report.Report, folder: Path) -> None:
    """Write what there is, through a neighbour, so that a run that is stopped leaves no half of a file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = stem_of(outcome, folder).with_suffix(".json")
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(outcome.to_json(), indent=1, ensure_ascii=False) + "\n")
    beside.replace(path)


def write_chart(outcome: report.Report, folder: Path) -> Path:
    """Write JSON and chart, and return the chart's path."""
    from benchmarks.loops import chart

    write_json(outcome, folder)
    path = stem_of(outcome, folder).with_suffix(".png")
    chart.draw(outcome, path)
    logger.info("wrote %s", path)
    return path


if __name__ == "__main__":
    sys.exit(main())
