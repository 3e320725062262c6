"""Faults that are planted into a copy of the package, one at a time; the tests must find each.

Run them with ``make mutants``. Each area has a file with its faults, `copies.py` plants them.
"""

from typing import Final

from tests.mutants import (
    actors,
    adapters,
    algorithms,
    collection,
    config,
    data,
    envs,
    export,
    learner,
    mixed,
    rollouts,
    runs,
    schemes,
    storages,
)
from tests.mutants.mutant import Mutant

AREAS: Final[dict[str, tuple[Mutant, ...]]] = {
    "storages": storages.MUTANTS,
    "mixed": mixed.MUTANTS,
    "rollouts": rollouts.MUTANTS,
    "envs": envs.MUTANTS,
    "actors": actors.MUTANTS,
    "algorithms": algorithms.MUTANTS,
    "collection": collection.MUTANTS,
    "schemes": schemes.MUTANTS,
    "learner": learner.MUTANTS,
    "runs": runs.MUTANTS,
    "config": config.MUTANTS,
    "adapters": adapters.MUTANTS,
    "data": data.MUTANTS,
    "export": export.MUTANTS,
}
MUTANTS: Final = tuple(mutant for mutants in AREAS.values() for mutant in mutants)
