"""Which algorithm of Stable-Baselines3 a buffer works for: the buffer needs its discount factor."""

import warnings
from typing import Final
from weakref import ref

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from recollect.adapters.sb3.callers import calling_algorithm
from recollect.errors import RecollectWarning

DEFAULT_GAMMA: Final = 0.99


class ReportsErrors:
    """Marks algorithms that weigh their losses and report TD errors."""


class Owner:
    """The algorithm that a buffer was made or loaded by, or that first draws from it.

    SB3 tells a buffer neither gamma nor who it is made for, and a wrong gamma would silently spoil every n-step
    return. The algorithm is looked up among the callers, once, and only referred to weakly.
    """

    def __init__(self) -> None:
        self._algorithm: ref[OffPolicyAlgorithm] | None = None
        self.find()

    def find(self) -> OffPolicyAlgorithm | None:
        """The algorithm, looked for among the callers if none is known."""
        known = None if self._algorithm is None else self._algorithm()
        if known is None and (known := calling_algorithm()) is not None:
            self._algorithm = ref(known)
        return known

    @property
    def gamma(self) -> float:
        """The algorithm's discount factor, as it is now; SB3's default if there is no algorithm."""
        algorithm = self.find()
        return DEFAULT_GAMMA if algorithm is None else algorithm.gamma

    def warn_without_errors(self, buffer_name: str) -> None:
        """Warn if the algorithm would not report the errors that priorities are made of."""
        algorithm = self.find()
        if algorithm is not None and not isinstance(algorithm, ReportsErrors):
            name = type(algorithm).__name__
            warnings.warn(
                f"{name} reports no TD errors and uses no weights, so {buffer_name} draws uniformly; use "
                "recollect.adapters.sb3's SAC, TD3, DQN or TQC, or alpha=0",
                RecollectWarning,
                stacklevel=4,
            )
