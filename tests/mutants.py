"""Plants mistakes into a copy of the package, one at a time, and checks that the tests find each.

Run it with ``python tests/mutants.py``; names of mutants as arguments run only these, and ``--help`` lists them.
It ends with status 1 if a mutant survives, or if a mutant no longer fits the source, and with 2 if there is no
mutant of a given name.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STORAGES = "recollect/agent/storages"
TESTS = "tests/unit/agent/storages"
PROGRAMS = f"{TESTS}/test_against_reference.py"
FREQUENCIES = f"{TESTS}/test_frequencies.py"
BAD_INPUT = f"{TESTS}/test_bad_input.py"
SKIPS = f"{TESTS}/off_policy/test_skip.py"
HINDSIGHT = f"{TESTS}/experience/sampling/test_hindsight.py"
FAILED = 1  # pytest's status when tests ran and some failed


@dataclass(frozen=True)
class Mutant:
    """One mistake: replace `old` by `new` in a file below the storages; `tests` must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = (PROGRAMS,)

    @property
    def fits(self) -> bool:
        """Whether the text to replace is in the source exactly once."""
        return (ROOT / STORAGES / self.file).read_text().count(self.old) == 1

    @property
    def has_kernels(self) -> bool:
        """Whether compiled code is changed, so that no cached kernel may be used."""
        return "numba" in (ROOT / STORAGES / self.file).read_text() or "kernels" in self.file


MUTANTS = (
    Mutant(
        "ids ignore that the ring has wrapped",
        "experience/kernels/priority_kernels.py",
        "(newest - (age if age >= 0 else age + slots))",
        "(newest - abs(age))",
    ),
    Mutant(
        "rewards are folded past the end of the ring",
        "experience/kernels/gather_kernels.py",
        """        if row == lane_end:
            row -= lane_bytes
    return total""",
        """        if row == lane_end:
            row -= row_bytes
    return total""",
    ),
    Mutant(
        "windows cross the end of an episode",
        "experience/kernels/gather_kernels.py",
        "while used < most and load_i32(row + R_TAIL) == 0:",
        "while used < most:",
    ),
    Mutant(
        "bootstraps at termination",
        "experience/kernels/gather_kernels.py",
        "power if alive else 0.0",
        "power",
    ),
    Mutant(
        "the discount of a shorter window is that of a full one",
        "experience/kernels/gather_kernels.py",
        "if places[P_USED, item] != length:",
        "if places[P_USED, item] > length:",
    ),
    Mutant(
        "the next observation of an end is the next episode's first",
        "experience/kernels/gather_kernels.py",
        """        if places[P_TAIL, item] != 0:
            source = places""",
        """        if places[P_TAIL, item] < 0:
            source = places""",
    ),
    Mutant(
        "the tail of an end comes from the first lane",
        "experience/kernels/append_kernels.py",
        "source = sources[carried[index, C_NEXT_SOURCE]] + (item + 1) * carried[index, C_BYTES] - num_bytes",
        "source = sources[carried[index, C_NEXT_SOURCE]] + carried[index, C_BYTES] - num_bytes",
    ),
    Mutant(
        "breaks between observations are not noticed",
        "experience/kernels/append_kernels.py",
        "if goes_on and not _continues(header, carried, sources, lane, number, row, item):",
        "if goes_on and number < 0:",
    ),
    Mutant(
        "frame stacks reach into the episode before",
        "experience/kernels/append_kernels.py",
        """    if not _is_padding(carried, sources, item):
        if _follows""",
        """    age = min(number, header[H_DEPTH] - 1)
    if number < 0:
        if _follows""",
    ),
    Mutant(
        "alpha is dropped",
        "experience/kernels/priority_kernels.py",
        "if alpha != 1.0:",
        "if alpha < 0.0:",
    ),
    Mutant(
        "overwritten slots keep the priority of what was there",
        "experience/kernels/priority_kernels.py",
        """            errors[slot] = default_error
            if has_tree:""",
        """            if seen[0, lane] == 0:
                errors[slot] = default_error
            if has_tree and sums[slot] == 0.0:""",
    ),
    Mutant(
        "of duplicates the last error wins",
        "experience/kernels/priority_kernels.py",
        "errors[slots[item]] = max(errors[slots[item]], new_errors[item])",
        "errors[slots[item]] = new_errors[item]",
    ),
    Mutant(
        "stale ids change what has taken their slots",
        "experience/kernels/priority_kernels.py",
        " or number < oldest_of(header, lane):",
        ":",
    ),
    Mutant(
        "weights of a recent window are relative to the whole store",
        "experience/kernels/priority_kernels.py",
        "_finish(header, sums, smallest, beta, uniforms, ids, weights)\n    return visited",
        "_finish(header, sums, mins[-1], beta, uniforms, ids, weights)\n    return visited",
    ),
    Mutant(
        "the physical end of the ring counts as newest",
        "experience/kernels/priority_kernels.py",
        "begin_slot, end_slot = begin % slots, (head_of(header, lane) - 1) % slots + 1",
        "begin_slot, end_slot = slots - 1 - count, slots - 1",
    ),
    Mutant(
        "every lane gives equally many recent steps",
        "experience/kernels/draw_kernels.py",
        "math.ceil(num_recent * size / total)",
        "math.ceil(num_recent / num_lanes)",
    ),
    Mutant(
        "the span of updates between episode ends is forgotten",
        "experience/sampling/recent_window.py",
        "self._span, self._drawn = self._drawn, 0",
        "self._drawn = 0",
    ),
    Mutant(
        "sources share lanes",
        "experience/store/sources.py",
        "        elif not self.known:\n            lane = 0",
        "        elif self.known or not self.known:\n            lane = 0",
    ),
    Mutant(
        "repeated steps are stored again",
        "experience/store/experience_store.py",
        "num_repeated = min(known.received - first_step, num_steps)",
        "num_repeated = 0",
    ),
    Mutant(
        "a gap in a source's steps is no cut",
        "experience/store/experience_store.py",
        """            self.ring.cut(known.lane, self.num_envs)
            known.received""",
        "            known.received",
    ),
    Mutant(
        "a skipped row that breaks its stream cuts nothing",
        "experience/store/ring_access.py",
        """            for env in np.flatnonzero(breaks[step]):
                self.ring.cut(lane + int(env), 1)
""",
        "",
        (SKIPS,),
    ),
    Mutant(
        "lanes that skipped steps share the hidden states of the first",
        "experience/sampling/sequences.py",
        "if (heads == heads[0]).all() and (bases == bases[0]).all():",
        "if len(heads):",
        (SKIPS,),
    ),
    Mutant(
        "a smaller store keeps the oldest steps",
        "experience/kernels/transfer_kernels.py",
        "first = max(load_i64(old_header[H_FIRST] + 8 * lane), head - new_header[H_CAPACITY])",
        """first = load_i64(old_header[H_FIRST] + 8 * lane)
    head = min(head, first + new_header[H_CAPACITY])""",
    ),
    Mutant(
        "goals come from the past",
        "experience/kernels/hindsight_kernels.py",
        "oldest = number if strategy == FUTURE else begin",
        "oldest = begin",
    ),
    Mutant(
        "goals come from a later episode",
        "experience/kernels/hindsight_kernels.py",
        "return begin, _entry(ends, entry)",
        "return begin, load_i64(header[H_HEAD] + 8 * lane) - 1",
    ),
    Mutant(
        "a goal reached in hindsight does not end the window",
        "experience/kernels/hindsight_kernels.py",
        "                lengths[row] = index + 1\n",
        "",
    ),
    Mutant(
        "too few rows are relabelled",
        "experience/sampling/hindsight.py",
        "round(self.share * num_sequences)",
        "int(self.share * num_sequences)",
    ),
    Mutant(
        "sequences may be incomplete",
        "experience/kernels/draw_kernels.py",
        "last = head_of(header, lane) - length",
        "last = head_of(header, lane) - 1",
    ),
    Mutant(
        "a reset loses the hidden state of the context",
        "experience/sampling/sequences.py",
        "= recent[lane, numbers % recent.shape[1]]",
        "= 0",
    ),
    Mutant(
        "batches are overwritten while they are held",
        "experience/sampling/tensor_pool.py",
        """            ):
                return False""",
        """            ):
                return True""",
    ),
    Mutant(
        "goals are overwritten while a reward function's caller holds them",
        "experience/sampling/relabelling.py",
        "return getrefcount(self._array) == self._references_at_rest",
        "return True",
        (HINDSIGHT,),
    ),
    Mutant(
        "the right half of a level is never drawn",
        "experience/kernels/priority_kernels.py",
        "while target >= end and node < last:",
        "while target >= end and node < last // 2:",
        (FREQUENCIES,),
    ),
    Mutant(
        "infinite rewards are stored",
        "experience/kernels/check_kernels.py",
        "if not math.isfinite(load_number(address, item, code)):",
        "if math.isnan(load_number(address, item, code)):",
        (BAD_INPUT,),
    ),
    Mutant(
        "goals are not uniform over the future",
        "experience/kernels/hindsight_kernels.py",
        "np.int64(uniforms[row] * (end - oldest + 1))",
        "np.int64(uniforms[row] ** 1.3 * (end - oldest + 1))",
        (FREQUENCIES,),
    ),
    Mutant(
        "frames written ahead leave stacks that reach back to them",
        "experience/store/lane_ring.py",
        "self.forget(env_lane, oldest_kept + reach)",
        "self.forget(env_lane, oldest_kept)",
        (f"{TESTS}/test_columns.py",),
    ),
    Mutant(
        "context of a reset is read back again",
        "experience/store/columns.py",
        "np.maximum(store.ring.firsts[lanes], store.starts.table[layout.A_CONTEXT, lanes])",
        "store.ring.firsts[lanes]",
    ),
    Mutant(
        "a copy's sequences start anywhere",
        "experience/store/ring_access.py",
        "if starts is not None:",
        "if False:",
        (f"{TESTS}/experience/sampling/test_sequences.py",),
    ),
    Mutant(
        "one answer for a batch stands for all its rows",
        "experience/sampling/relabelling.py",
        "if self._is_constant:",
        "if len(achieved):",
        (HINDSIGHT,),
    ),
)


class Copy:
    """A copy of package and tests in which one file at a time is changed.

    Parameters
    ----------
    folder : Path
        Where the copy is made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("recollect", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy2(ROOT / "pyproject.toml", folder)

    def test(self, tests: tuple[str, ...], cache: str) -> int:
        """Run tests until the first failure and return pytest's status."""
        environment = os.environ | {
            "PYTHONPATH": str(self.folder),
            "NUMBA_CACHE_DIR": str(self.folder / cache),
            "PYTHONDONTWRITEBYTECODE": "1",
            "RECOLLECT_PROGRAMS": "small",
        }
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--no-header",
            "-p",
            "no:cacheprovider",
            *tests,
        ]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, check=False)
        return done.returncode

    def test_mutant(self, mutant: Mutant) -> int:
        """Plant a mutant, run its tests and take it out again, with the file's old date."""
        path = self.folder / STORAGES / mutant.file
        source, times = path.read_text(), path.stat()
        path.write_text(source.replace(mutant.old, mutant.new))
        try:
            return self.test(mutant.tests, "mutant_cache" if mutant.has_kernels else "cache")
        finally:
            path.write_text(source)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            shutil.rmtree(self.folder / "mutant_cache", ignore_errors=True)


def verdict(status: int) -> str:
    """Say what a status of pytest means for a mutant."""
    if status < 0:
        return "killed (crash)"
    return {0: "SURVIVED", FAILED: "killed"}.get(status, f"broken (status {status})")


def choose(arguments: list[str]) -> list[Mutant]:
    """Return the mutants named on the command line, all if none is; a name that none has ends the process."""
    by_name = {mutant.name: mutant for mutant in MUTANTS}
    parser = argparse.ArgumentParser(
        prog="python tests/mutants.py",
        description=__doc__.partition("\n")[0],
        epilog="mutants:\n" + "\n".join(f"  {name}" for name in by_name),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutant to try, in quotes; all if none is given")
    names = parser.parse_args(arguments).names
    for name in names:
        if name not in by_name:
            closest = get_close_matches(name, by_name, n=1, cutoff=0.0)[0]
            parser.error(f"there is no mutant {name!r}; did you mean {closest!r}? --help lists all")
    return [by_name[name] for name in dict.fromkeys(names)] or list(MUTANTS)


def main(arguments: list[str]) -> int:
    """Try the named mutants, or all; return the status of the process."""
    chosen = choose(arguments)
    all_tests = tuple(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
    num_bad = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        if copy.test(all_tests, "cache") != 0:
            print("the tests fail without any mutant")
            return 1
        for mutant in chosen:
            start_s = time.perf_counter()
            result = verdict(copy.test_mutant(mutant)) if mutant.fits else "does not fit"
            num_bad += not result.startswith("killed")
            print(f"{result:<20} {time.perf_counter() - start_s:6.1f} s  {mutant.name}", flush=True)
    print(f"{len(chosen) - num_bad} of {len(chosen)} mutants killed")
    return int(num_bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
