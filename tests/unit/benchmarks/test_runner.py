"""Only what is missing runs; a failure is reported and stops nothing else."""

import stat
import sys
from pathlib import Path

import pytest

from benchmarks.learn.configs import config_of
from benchmarks.learn.experiments import Cell
from benchmarks.learn.records import hash_of
from benchmarks.learn.runner import Progress, Run, Runner
from tests.unit.benchmarks.builders import make_cell, make_record

# Stands in for the worker: writes the record that it finds prepared, and fails for seed 3.
INTERPRETER = """#!{python}
import shutil, sys
_, _, module, cell, seed, folder = sys.argv
assert module == "benchmarks.learn.worker"
print("seed", seed)
if seed == "3":
    sys.exit(7)
shutil.copy(f"{prepared}/{{cell}}-{{seed}}.json", folder)
"""


def prepare(cell: Cell, folder: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        make_record(cell=cell.key, seed=seed, config_hash=hash_of(config_of(cell, seed))).write(folder)


@pytest.fixture
def cell() -> Cell:
    return make_cell(seeds=(1, 2, 3))


@pytest.fixture
def interpreter(tmp_path: Path, cell: Cell) -> Path:
    prepared = tmp_path / "prepared"
    prepare(cell, prepared, (1, 2))
    script = tmp_path / "python"
    script.write_text(INTERPRETER.format(python=sys.executable, prepared=prepared))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


def runs_of(cell: Cell) -> list[Run]:
    return [Run(cell, seed) for seed in cell.seeds]


def test_runs_end_with_their_records_and_failures_with_a_log(cell: Cell, interpreter: Path, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    runner = Runner(folder, 2, {"sb3": interpreter})
    assert runner.run(runs_of(cell)) == [Run(cell, 3)]
    assert sorted(path.name for path in folder.iterdir()) == ["small-1.json", "small-2.json", "small-3.log"]
    assert (folder / "small-3.log").read_text() == "seed 3\n"


def test_what_has_a_record_does_not_run_again(cell: Cell, tmp_path: Path) -> None:
    prepare(cell, tmp_path, (1, 3))
    runner = Runner(tmp_path, 1, {"sb3": Path("/does/not/exist")})
    assert runner.missing(runs_of(cell)) == [Run(cell, 2)]
    assert runner.run([Run(cell, 1), Run(cell, 3)]) == []


def test_other_settings_run_again(cell: Cell, tmp_path: Path) -> None:
    prepare(cell, tmp_path, (1, 2, 3))
    changed = make_cell(seeds=(1, 2, 3), steps=200)
    runner = Runner(tmp_path, 1, {})
    assert runner.missing(runs_of(cell)) == []
    assert len(runner.missing(runs_of(changed))) == 3


def test_progress_estimates_the_rest_from_runs_that_have_ended(cell: Cell) -> None:
    progress = Progress(num_runs=3, num_jobs=2, seconds_per_step={}, num_ended=1)
    assert progress.eta_s(runs_of(cell)) is None
    progress.seconds_per_step["small"] = 1.0
    assert progress.eta_s(runs_of(cell)) == pytest.approx(150.0)
    assert progress.line(Run(cell, 1), "done", runs_of(cell)[1:]) == "[1/3] small seed 1: done  ETA 0:01:40"
