"""Faults in actors."""

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = ()
