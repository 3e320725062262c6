"""The mutants still fit the source that they are planted into, and can be chosen."""

import pytest

from tests.mutants import AREAS, MUTANTS
from tests.mutants.__main__ import choose
from tests.mutants.mutant import ROOT, Mutant


def exists(test: str) -> bool:
    file, _, name = test.partition("::")
    return (ROOT / file).is_file() and f"def {name}" in (ROOT / file).read_text()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_fits(mutant: Mutant) -> None:
    assert mutant.fits
    assert mutant.old != mutant.new
    assert mutant.tests
    assert all(exists(test) for test in mutant.tests)


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_mutants_are_chosen_by_name() -> None:
    assert choose([]).mutants == list(MUTANTS)
    assert choose(["alpha is dropped", "goals come from the past", "alpha is dropped"]).mutants == [
        mutant for mutant in MUTANTS if mutant.name in ("alpha is dropped", "goals come from the past")
    ]


def test_mutants_are_chosen_by_area() -> None:
    assert choose(["--only-area", "envs"]).mutants == list(AREAS["envs"])
    assert choose(["--only-area", "runs", "alpha is dropped"]).mutants == [
        *(mutant for mutant in MUTANTS if mutant.name == "alpha is dropped"),
        *AREAS["runs"],
    ]


def test_an_unknown_name_runs_nothing_and_shows_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        choose(["goals come from the past", "alfa is droped"])
    assert "no mutant 'alfa is droped'; did you mean 'alpha is dropped'?" in capsys.readouterr().err


def test_help_lists_all_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        choose(["--help"])
    text = capsys.readouterr().out
    assert all(f"  {mutant.name}\n" in text for mutant in MUTANTS)
