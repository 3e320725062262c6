"""Times Recollect's storages and their peers on the same work, in one run.

python -m benchmarks.replay            the whole run: stores of 1,000,000 transitions, chart, documents
python -m benchmarks.replay --quick    small stores, few repeats: does everything run?
"""

import argparse
import json
import logging
import os
import sys
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if not __package__:  # run as a file, not as a module
    sys.path.insert(0, str(ROOT))

from benchmarks import harness, machine, report  # noqa: E402
from benchmarks.documents import write_section  # noqa: E402
from benchmarks.targets import Results  # noqa: E402
from benchmarks.worker import Failure  # noqa: E402
from benchmarks.workloads import COMPETITORS, FULL, QUICK, footprints, select, workloads  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "results" / "replay.md"
MEMORY = "memory"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")

logger = logging.getLogger("benchmarks")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replay",
        description="Time Recollect's storages and their peers on the same work, in one run.",
    )
    parser.add_argument("--quick", action="store_true", help="stores a tenth as large and few repeats")
    parser.add_argument("--repeats", type=int, help="timed blocks per competitor and workload (25, quick: 5)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"workloads or groups, and '{MEMORY}'")
    parser.add_argument("--competitors", nargs="+", choices=COMPETITORS, default=COMPETITORS, metavar="NAME")
    parser.add_argument("--threads", type=int, default=1, help="threads of each competitor (1)")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder for JSON and PNG (a whole run: benchmarks/results, and the tables in README and docs/results)",
    )
    options = parser.parse_args(arguments)
    known = {name for workload in workloads(FULL) for name in (workload.key, workload.group)} | {MEMORY}
    if unknown := set(options.only or ()) - known:
        parser.error(f"--only: unknown {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark, print the tables and write the files."""
    options = parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", force=True)
    logging.captureWarnings(True)
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(options.threads)
    outcome = measure(options)
    print(report.text(outcome))
    whole = not (options.quick or options.only) and tuple(options.competitors) == COMPETITORS
    folder = options.out or (RESULTS if whole else None)
    if folder is not None:
        chart = write(outcome, folder)
        if whole and not options.out:
            write_documents(outcome, chart)
    return 0


def measure(options: argparse.Namespace) -> report.Report:
    """Time what the options ask for."""
    sizes = QUICK if options.quick else FULL
    repeats = options.repeats or (5 if options.quick else 25)
    chosen = workloads(sizes) if options.only is None else select(workloads(sizes), options.only)
    stores = footprints(sizes) if options.only is None or MEMORY in options.only else []
    place = machine.describe(options.threads)
    processes = {name: harness.PeerProcess(name, options.threads) for name in options.competitors}
    try:
        competitors, absent = introduce(processes)
        times = harness.run(processes, chosen, repeats)
    finally:
        for process in processes.values():
            process.close()
    return report.Report(
        machine=place,
        settings={
            "date": date.today().isoformat(),
            "quick": options.quick,
            "repeats": repeats,
            "steps": sizes.steps,
            "many_steps": sizes.many_steps,
            "frames": sizes.frames,
        },
        competitors=competitors,
        absent=absent,
        workloads=chosen,
        footprints=stores,
        results=Results(times, harness.measure_footprints(list(competitors), stores, options.threads)),
    )


def introduce(processes: dict[str, harness.PeerProcess]) -> tuple[dict[str, Any], dict[str, str]]:
    """Ask every competitor who it is, and let go of those that do not run."""
    competitors, absent = {}, {}
    for process in processes.values():
        process.send("describe")
    for name, process in list(processes.items()):
        answer = process.receive()
        if isinstance(answer, Failure):
            logger.warning("%s does not run: %s", name, answer.reason)
            absent[name] = answer.reason
            processes.pop(name).close()
        else:
            competitors[name] = answer
    return competitors, absent


def write(outcome: report.Report, folder: Path) -> Path:
    """Write JSON and chart, and return the chart's path."""
    from benchmarks import chart

    folder.mkdir(parents=True, exist_ok=True)
    kind = "replay-quick" if outcome.settings["quick"] else "replay"
    stem = folder / f"{kind}-{outcome.settings['date']}"
    data = json.dumps(report.to_json(outcome), indent=1, ensure_ascii=False)
    stem.with_suffix(".json").write_text(data + "\n")
    path = stem.with_suffix(".png")
    chart.draw(outcome, path)
    logger.info("wrote %s and %s", stem.with_suffix(".json"), path.name)
    return path


def write_documents(outcome: report.Report, chart: Path) -> None:
    """Put the six rows that matter into the README and all rows into the page of results."""
    write_section(README, "bench-short", report.highlights(outcome))
    write_section(PAGE, "bench", report.markdown(outcome, os.path.relpath(chart, PAGE.parent)))


if __name__ == "__main__":
    sys.exit(main())
