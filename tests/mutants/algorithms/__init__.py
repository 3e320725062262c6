"""Faults in algorithms: what they share, and the targets and losses of each."""

from typing import Final

from tests.mutants.algorithms import (
    ddpg,
    ddqn,
    distributional,
    mpo,
    offline,
    ppo,
    sac,
    sac_discrete,
    shared,
    transitions,
)
from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = tuple(
    mutant
    for part in (shared, transitions, ddqn, ddpg, sac, sac_discrete, mpo, ppo, distributional, offline)
    for mutant in part.MUTANTS
)
