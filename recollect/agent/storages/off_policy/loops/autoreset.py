"""`ResetSteps`: the steps in which a vector environment only begins an episode."""

from collections.abc import Callable
from typing import Final

import numpy as np
from gymnasium.vector import AutoresetMode

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.store.experience_store import ExperienceStore
from recollect.agent.storages.off_policy.loops.final_obs_check import Ends, ends_of, fingerprint
from recollect.errors import ConfigError, StorageError
from recollect.files.records import as_whole
from recollect.roles import Observation, Sample

_MAX_REDRAWS: Final = 64


class ResetSteps:
    """Finds steps that are none: in mode "NextStep", the one after an end takes no action.

    They are stored, as all envs' steps are, with `Done` as their mark, and never drawn. In the other
    modes there are none.

    Parameters
    ----------
    store : ExperienceStore
        Of a single source.
    mode : AutoresetMode or str
        When the envs are reset.
    """

    def __init__(self, store: ExperienceStore, mode: AutoresetMode | str) -> None:
        self.are_expected = _check_mode(mode) is AutoresetMode.NEXT_STEP
        self._store = store
        self._ends: Ends = {}

    def find(self, observations: Observation) -> np.ndarray:
        """Which envs only begin an episode in the step to come, bool [num_envs, 1].

        They are still where their last episode ended.
        """
        resets = np.zeros((self._store.num_envs, 1), np.bool_)
        for env, led_to in self._ends.items():
            resets[env] = fingerprint(observations, env) == led_to
        return resets

    def follow(self, sample: Sample) -> None:
        """Take note of the ends of a step that was stored."""
        if self.are_expected:
            self._ends = ends_of(sample)

    def state(self) -> list[tuple[int, str]]:
        """What a snapshot needs: the envs that are at an end, and what they led to."""
        return [(env, led_to.hex()) for env, led_to in self._ends.items()]

    def load_state(self, state: list[tuple[int, str]]) -> None:
        """Resume from what `state` gave."""
        most = self._store.num_envs - 1
        self._ends = {as_whole(env, 0, most): bytes.fromhex(led_to) for env, led_to in state}

    def replace(self, ids: np.ndarray, draw: Callable[[int], np.ndarray]) -> np.ndarray:
        """Draw others for those of `ids` that are resets."""
        if not self.are_expected:
            return ids
        ring = self._store.ring
        is_reset = ring.flag_column(layout.R_DONE)[..., 0]  # [num_lanes, num_slots]
        for _ in range(_MAX_REDRAWS):
            slots = (ids & layout.ID_MASK) % ring.num_slots
            refused = np.flatnonzero(is_reset[ids >> layout.ID_SHIFT, slots])
            if len(refused) == 0:
                return ids
            ids[refused] = draw(len(refused))
        raise StorageError("only steps in which an env was reset are stored: add more steps")

    def count(self) -> int:
        """Resets among the steps stored."""
        if not self.are_expected:
            return 0
        ring = self._store.ring
        slots = np.arange(ring.firsts[0], ring.heads[0]) % ring.num_slots
        return int(ring.flag_column(layout.R_DONE)[:, slots].sum())


def _check_mode(mode: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        known = ", ".join(repr(each.value) for each in AutoresetMode)
        raise ConfigError(f"autoreset_mode must be one of {known}, got {mode!r}") from None
