"""`NStepReplayBuffer`: replay with multi-step returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from recollect.agent.storages.base import Creates
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.off_policy.config import ReplayConfig
from recollect.agent.storages.off_policy.replay_buffer import ReplayBuffer
from recollect.options import choices, count, option


@dataclass(frozen=True)
class NStepConfig(ReplayConfig):
    """Options of replay with multi-step returns."""

    n_step: int | float = option(1, "Most steps of a return.", count, changes=True, search=choices(1, 3, 5))

    @classmethod
    def recommended(cls, given: Mapping[str, Any], num_envs: int) -> dict[str, Any]:
        return {"n_step": 3}


class NStepReplayBuffer(ReplayBuffer):
    """Replay with multi-step returns (Hessel et al., 2017, https://arxiv.org/abs/1710.02298).

    Windows are found when a batch is drawn: they never cross an episode's end, bootstrap from the
    true last observation of a truncated one, and `n_step` may change at any time.

    Parameters
    ----------
    size, device, actor, algorithm, envs
        As in `ReplayBuffer`.
    *values, **given
        See `NStepConfig`.
    """

    create_factory = Creates(NStepConfig)
    title = "n-step replay"
    config: NStepConfig
    n_step: int

    def _make_parts(self) -> None:
        super()._make_parts()
        self._follow_n_step()

    def _limits(self) -> np.ndarray:
        return self._max_steps

    def _on_change(self, name: str) -> None:
        super()._on_change(name)
        self._follow_n_step()

    def _follow_n_step(self) -> None:
        # No lane numbers more steps than this, so that longer windows are the same ones.
        self._max_steps = np.array([min(self.n_step, layout.ID_MASK)], np.int64)
