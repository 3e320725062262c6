"""Command line: plants mutants, prints what became of each, and ends with status 1 if one was not killed."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from tests.mutants import AREAS, MUTANTS
from tests.mutants.copies import Copy, CopyPool, verdict
from tests.mutants.mutant import Mutant


class Choice(NamedTuple):
    """What the command line asks for."""

    mutants: list[Mutant]
    num_jobs: int


def choose(arguments: Sequence[str]) -> Choice:
    """Return the mutants that the command line names, all if it names none; an unknown name ends the process."""
    by_name = {mutant.name: mutant for mutant in MUTANTS}
    parser = _parser()
    given = parser.parse_args(arguments)
    for name in given.names:
        if name not in by_name:
            closest = get_close_matches(name, by_name, n=1, cutoff=0.0)[0]
            parser.error(f"there is no mutant {name!r}; did you mean {closest!r}? --help lists all")
    chosen = [by_name[name] for name in dict.fromkeys(given.names)]
    chosen += [mutant for area in dict.fromkeys(given.areas) for mutant in AREAS[area] if mutant not in chosen]
    return Choice(chosen or list(MUTANTS), given.jobs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Plant faults into copies of the package, one at a time, and check that the tests find each.",
        epilog="\n".join(
            f"{area}:\n" + "\n".join(f"  {mutant.name}" for mutant in mutants) for area, mutants in AREAS.items()
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutant to try, in quotes; all if none is given")
    parser.add_argument(
        "--only-area", dest="areas", action="append", default=[], choices=AREAS, help="mutants of one area"
    )
    parser.add_argument("-n", "--jobs", type=int, default=1, help="how many to try side by side")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Try the chosen mutants; return the status of the process."""
    chosen = choose(arguments)
    for mutant in chosen.mutants:
        if not mutant.fits:
            print(f"does not fit the source: {mutant.name}")
            return 1
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        pool = CopyPool(Path(folder), chosen.num_jobs)
        if not pool.is_compiled:
            print("the package cannot be imported without any mutant")
            return 1
        return 0 if _pass_without(chosen.mutants, pool) and _die(chosen.mutants, pool) else 1


def _pass_without(mutants: list[Mutant], pool: CopyPool) -> bool:
    """Whether all tests pass while no mutant is planted: otherwise their failures would prove nothing."""
    selections = list(dict.fromkeys(mutant.tests for mutant in mutants))
    num_failed = 0
    for number, (tests, status) in enumerate(pool.run(Copy.test, selections), start=1):
        num_failed += status != 0
        result = "passes" if status == 0 else "FAILS"
        print(f"[{number:3d}/{len(selections)}] {result} without any mutant: {' '.join(tests)}", flush=True)
    return num_failed == 0


def _die(mutants: list[Mutant], pool: CopyPool) -> bool:
    """Whether every mutant is killed."""
    survivors = []
    for number, (mutant, (status, elapsed_s)) in enumerate(pool.run(_timed, mutants), start=1):
        result = verdict(status)
        if not result.startswith("killed"):
            survivors.append(mutant)
        print(f"[{number:3d}/{len(mutants)}] {result:<16} {elapsed_s:6.1f} s  {mutant.name}", flush=True)
    for area, of_area in AREAS.items():
        tried = [mutant for mutant in of_area if mutant in mutants]
        if tried:
            print(f"{area:<12} {len(tried) - sum(mutant in survivors for mutant in tried)} of {len(tried)} killed")
    for mutant in survivors:
        print(f"not killed: {mutant.name}")
    print(f"{len(mutants) - len(survivors)} killed, {len(survivors)} survived")
    return not survivors


def _timed(copy: Copy, mutant: Mutant) -> tuple[int, float]:
    begin_s = time.perf_counter()
    return copy.test_mutant(mutant), time.perf_counter() - begin_s


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
