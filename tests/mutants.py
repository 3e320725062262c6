"""Plants mistakes into a copy of the package, one at a time, and checks that the tests find each.

Run it with ``python tests/mutants.py``; names of mutants as arguments run only these. It ends with
status 1 if a mutant survives, or if a mutant no longer fits the source.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STORAGES = "recollect/agent/storages"
TESTS = "tests/unit/agent/storages"
PROGRAMS = f"{TESTS}/test_against_reference.py"
FREQUENCIES = f"{TESTS}/test_frequencies.py"
BAD_INPUT = f"{TESTS}/test_bad_input.py"
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
    def has_kernels(self) -> bool:
        """Whether compiled code is changed, so that no cached kernel may be used."""
        return "numba" in (ROOT / STORAGES / self.file).read_text() or "kernels" in self.file


MUTANTS: tuple[Mutant, ...] = ()


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
        assert source.count(mutant.old) == 1, f"{mutant.name}: the text to replace must be there exactly once"
        path.write_text(source.replace(mutant.old, mutant.new))
        try:
            return self.test(mutant.tests, "mutant_cache" if mutant.has_kernels else "cache")
        finally:
            path.write_text(source)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            shutil.rmtree(self.folder / "mutant_cache", ignore_errors=True)


def verdict(status: int) -> str:
    """Say what a status of pytest means for a mutant."""
    return {0: "SURVIVED", FAILED: "killed"}.get(status, f"broken (status {status})")


def main(names: list[str]) -> int:
    """Try the named mutants, or all; return the status of the process."""
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    all_tests = tuple(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
    num_bad = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        if copy.test(all_tests, "cache") != 0:
            print("the tests fail without any mutant")
            return 1
        for mutant in chosen:
            start_s = time.perf_counter()
            result = verdict(copy.test_mutant(mutant))
            num_bad += result != "killed"
            print(f"{result:<20} {time.perf_counter() - start_s:6.1f} s  {mutant.name}", flush=True)
    print(f"{len(chosen) - num_bad} of {len(chosen)} mutants killed")
    return int(num_bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
