"""Faults that are planted into a copy of the package, one at a time; the tests must find each.

Run them with ``make mutants``. Each area has a file with its faults, `copies.py` plants them.
"""

from typing import Final

from tests.mutants import actors, algorithms, collection, config, envs, learner, rollouts, runs, schemes, storages
from tests.mutants.mutant import Mutant

AREAS: Final[dict[str, tuple[Mutant, ...]]] = {
    "storages": storages.MUTANTS,
    "rollouts": rollouts.MUTANTS,
    "envs": envs.MUTANTS,
    "actors": actors.MUTANTS,
    "algorithms": algorithms.MUTANTS,
    "collection": collection.MUTANTS,
    "schemes": schemes.MUTANTS,
    "learner": learner.MUTANTS,
    "runs": runs.MUTANTS,
    "config": config.MUTANTS,
}
MUTANTS: Final = tuple(mutant for mutants in AREAS.values() for mutant in mutants)
