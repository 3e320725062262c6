"""The command `recollect bench learn`."""

import argparse
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.documents import write_section
from benchmarks.learn import ablation, aggregate, report
from benchmarks.learn.ablation import ABLATION
from benchmarks.learn.experiments import SB3, TABLE, Cell, select
from benchmarks.learn.runner import RESULTS, ROOT, Run, Runner, find_pythons

README = ROOT / "README.md"
TABLE_PAGE = ROOT / "docs" / "results" / "learning.md"
ABLATION_PAGE = ROOT / "docs" / "results" / "ablation.md"
AGGREGATE_PAGE = ROOT / "docs" / "results" / "aggregate.md"
FIGURE = ROOT / "benchmarks" / "results" / "ablation.png"
PROFILES = ROOT / "benchmarks" / "results" / "profiles.png"
CURVES = ROOT / "benchmarks" / "results" / "curves.png"

logger = logging.getLogger("benchmarks")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="recollect bench learn",
        description="Train every tuned preset with three to five seeds, evaluate over 100 episodes, and compare with "
        "the scores to reach. What has been run with the same settings is not run again.",
        epilog="examples:\n"
        "  recollect bench learn --jobs 2                     the whole table\n"
        "  recollect bench learn --only pendulum cartpole     some cells\n"
        "  recollect bench learn --ablation --jobs 2          what each rule of a storage adds\n"
        "  recollect bench learn --report                     run nothing, only rewrite the pages",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ablation", action="store_true", help="the ablation of the storages instead of the table")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="cells whose name begins so")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="SEED", help="some of the cells' seeds")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time, one thread each (1)")
    parser.add_argument(
        "--report",
        action="store_true",
        help="run nothing: print the table of the records there are, and rewrite README and docs/results from it",
    )
    parser.add_argument("--list", action="store_true", help="only list the cells and whether they have been run")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the records (benchmarks/results/learn)")
    parser.add_argument("--peer-python", type=Path, help="interpreter with Stable-Baselines3 (.venv-bench/bin/python)")
    options = parser.parse_args(arguments)
    options.suite = ABLATION if options.ablation else TABLE
    try:
        options.cells = select(options.suite, options.only) if options.only else list(options.suite)
    except ValueError as error:
        parser.error(str(error))
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {options.jobs}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, print the table and write the pages."""
    options = parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", force=True)
    runs = [Run(cell, seed) for cell in options.cells for seed in cell.seeds if seed in (options.seeds or cell.seeds)]
    if options.list:
        return _list(runs, options.out)
    failed = [] if options.report else run_missing(runs, options)
    rows = [read_row(cell, options.out) for cell in options.suite]
    if options.ablation:
        _publish_ablation(rows, options.out)
    else:
        _publish_table(rows, options.out)
    if options.out == RESULTS:
        _publish_aggregate()
    return 1 if failed else 0


def run_missing(runs: list[Run], options: argparse.Namespace) -> list[Run]:
    """Do the runs that an interpreter is there for."""
    pythons = {name: python for name, python in find_pythons(options.peer_python).items() if python is not None}
    able = [run for run in runs if run.cell.library in pythons]
    if len(able) < len(runs):
        logger.warning(
            "%s cells are left out: Stable-Baselines3 is missing, or sb3-contrib; `make bench` installs both", SB3
        )
    return Runner(options.out, options.jobs, pythons).run(able)


def read_row(cell: Cell, folder: Path) -> report.Row:
    """Read the records of a cell's seeds that there are."""
    records = (Run(cell, seed).record(folder) for seed in cell.seeds)
    return report.Row(cell, [record for record in records if record is not None])


def _list(runs: list[Run], folder: Path) -> int:
    for run in runs:
        record = run.record(folder)
        print(f"{run!s:34} {run.cell.steps:>9,} steps   {'to do' if record is None else record.date}")
    return 0


def _publish_table(rows: list[report.Row], folder: Path) -> None:
    print(report.text(rows))
    print(report.summary(rows))
    if folder == RESULTS:
        write_section(TABLE_PAGE, "learn", report.markdown(rows))
        write_section(README, "learn", report.sentence(rows))


def _publish_ablation(rows: list[report.Row], folder: Path) -> None:
    outcomes = ablation.analyse(rows)
    print(ablation.text(outcomes))
    if folder == RESULTS and outcomes:
        from benchmarks.learn import figure

        figure.draw(outcomes, FIGURE)
        link = os.path.relpath(FIGURE, ABLATION_PAGE.parent)
        write_section(ABLATION_PAGE, "ablation", ablation.markdown(outcomes, link, report.origin(rows)))


def _publish_aggregate() -> None:
    from benchmarks.learn import overview

    table, others = ([read_row(cell, RESULTS) for cell in suite] for suite in (TABLE, ABLATION))
    combinations = aggregate.combine([*table, *others])
    overview.draw_profiles(combinations, PROFILES)
    overview.draw_curves(table, CURVES)
    profiles, curves = (os.path.relpath(figure, AGGREGATE_PAGE.parent) for figure in (PROFILES, CURVES))
    section = aggregate.markdown(combinations, profiles, curves, report.origin([*table, *others]))
    write_section(AGGREGATE_PAGE, "aggregate", section)
