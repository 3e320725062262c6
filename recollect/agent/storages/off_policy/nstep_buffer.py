"""`NStepReplayBuffer`: replay with multi-step returns."""

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
import torch

from recollect.agent.storages.base import StorageFactory
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.off_policy.options import StoreOptions
from recollect.agent.storages.off_policy.replay_buffer import ReplayBuffer
from recollect.checks import check_count


class NStepReplayBuffer(ReplayBuffer):
    """Replay with multi-step returns (Hessel et al., 2017, https://arxiv.org/abs/1710.02298).

    Windows are found when a batch is drawn: they never cross an episode's end, bootstrap from the
    true last observation of a truncated one, and `n_step` may change at any time.

    Parameters
    ----------
    size, device, actor, algorithm, envs
        As in `ReplayBuffer`.
    n_step : int or float
        Most steps of a return.
    """

    def __init__(
        self,
        size: int,
        device: torch.device | str,
        actor: Any,
        algorithm: Any,
        envs: Any,
        n_step: int | float = 1,
        **options: Unpack[StoreOptions],
    ) -> None:
        super().__init__(size, device, actor, algorithm, envs, **options)
        self._set_n_step(n_step)

    @classmethod
    def create_factory(cls, size: int, n_step: int | float = 1, **options: Unpack[StoreOptions]) -> StorageFactory:
        """Return a function that creates `NStepReplayBuffer` instances."""
        return StorageFactory(cls, {"size": size, "n_step": n_step, **options})

    def _limits(self) -> np.ndarray:
        return self._most_steps

    def _parameter_setters(self) -> dict[str, Callable[[Any], None]]:
        return super()._parameter_setters() | {"n_step": self._set_n_step}

    def _set_n_step(self, value: Any) -> None:
        self.n_step = check_count("n_step", value)
        # No lane numbers more steps than this, so that longer windows are the same ones.
        self._most_steps = np.array([min(self.n_step, layout.ID_MASK)], np.int64)
