"""The mutants still fit the source that they are planted into."""

import pytest

from tests.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_fits(mutant: Mutant) -> None:
    assert mutant.fits
    assert mutant.old != mutant.new
