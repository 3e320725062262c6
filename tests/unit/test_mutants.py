"""The mutants still fit the source that they are planted into."""

import pytest

from tests.mutants import MUTANTS, Mutant, choose


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_fits(mutant: Mutant) -> None:
    assert mutant.fits
    assert mutant.old != mutant.new


def test_mutants_are_chosen_by_name() -> None:
    assert choose([]) == list(MUTANTS)
    assert choose(["alpha is dropped", "goals come from the past", "alpha is dropped"]) == [
        mutant for mutant in MUTANTS if mutant.name in ("alpha is dropped", "goals come from the past")
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
