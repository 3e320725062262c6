"""`ResetSteps`: the steps in which a vector environment only begins an episode."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from gymnasium.vector import AutoresetMode

from recollect import keys
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.sampling.outputs import nest
from recollect.agent.storages.experience.store.experience_store import ONE_STEP, ExperienceStore
from recollect.agent.storages.experience.store.schema import KeyPath, to_numpy, walk
from recollect.agent.storages.off_policy.final_obs_check import FinalObsCheck, are_at
from recollect.errors import ConfigError, StorageError
from recollect.roles import Observation

# Envs that are at an end, int64, and by path what their last steps led to, arrays or tensors `[envs, ...]`.
Ends = tuple[np.ndarray, dict[KeyPath, Any]]

_NO_ENDS: Final[Ends] = (np.empty(0, np.int64), {})
_MOST_REDRAWS: Final = 64
_ADVICE: Final = (
    f"Either the envs are reset in the step after an end: say autoreset_mode={AutoresetMode.NEXT_STEP.value!r}. Or the "
    f"true last observations are missing: give them in infos[{keys.FINAL_OBS!r}] or next_observations."
)


class ResetSteps:
    """Finds steps that are none: in mode "NextStep", the one after an end takes no action.

    They are stored, as all envs' steps are, with `Done` as their mark, and never drawn. In the other
    modes there are none; if envs seem to make them all the same, there is a warning.

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
        self._final_obs_check = FinalObsCheck(_ADVICE)
        self._last_ends: Ends = _NO_ENDS

    def find(self, observations: Observation) -> np.ndarray:
        """Which envs only begin an episode in the step to come, bool [num_envs, 1].

        They are still where their last episode ended.
        """
        resets = np.zeros((self._store.num_envs, 1), np.bool_)
        if not self.are_expected and self._final_obs_check.is_over:
            return resets
        ended, led_to = self._newest_ends()
        if len(ended):
            repeated = are_at(ended, led_to, observations)
            if self.are_expected:
                resets[ended, 0] = repeated
            else:
                self._final_obs_check.count(len(ended), int(repeated.sum()))
        return resets

    def keep(self) -> None:
        """Remember which envs are at an end, before the store forgets its steps: their next one is a reset."""
        self._last_ends = self._newest_ends()

    def state(self) -> dict[str, Any]:
        """What a snapshot needs of ends that are not in the store any more: envs, and the bytes of what they led to."""
        ended, led_to = self._last_ends if len(self._store) == 0 else _NO_ENDS
        return {
            "ended": ended.tolist(),
            "led_to": [[list(path), to_numpy(values).tobytes().hex()] for path, values in led_to.items()],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from what `state` gave."""
        ended = np.array(state["ended"], np.int64)
        led_to = {tuple(path): np.frombuffer(bytes.fromhex(data), np.uint8) for path, data in state["led_to"]}
        # Ends are told by their bytes alone, so that dtypes and shapes do not matter.
        self._last_ends = ended, {path: values.reshape(len(ended), -1) for path, values in led_to.items()}

    def replace(self, ids: np.ndarray, draw: Callable[[int], np.ndarray]) -> np.ndarray:
        """Draw others for those of `ids` that are resets."""
        for _ in range(_MOST_REDRAWS if self.are_expected else 0):
            refused = np.flatnonzero(self._is_reset(ids))
            if len(refused) == 0:
                return ids
            ids[refused] = draw(len(refused))
        if self.are_expected:
            raise StorageError("only steps in which an env was reset are stored: add more steps")
        return ids

    def count(self) -> int:
        """Resets among the steps stored."""
        if not self.are_expected:
            return 0
        ring = self._store.ring
        slots = np.arange(ring.firsts[0], ring.heads[0]) % ring.num_slots
        return int(ring.flag_column(layout.R_DONE)[:, slots].sum())

    def _is_reset(self, ids: np.ndarray) -> np.ndarray:
        ring = self._store.ring
        lanes, numbers = ids >> layout.ID_SHIFT, ids & layout.ID_MASK
        resets: np.ndarray = ring.flag_column(layout.R_DONE)[lanes, numbers % ring.num_slots, 0]
        return resets

    def _newest_ends(self) -> Ends:
        """The envs whose newest step ended an episode, and what it led to; of an empty store, what was kept."""
        ring = self._store.ring
        newest = int(ring.heads[0]) - 1
        if newest < ring.firsts[0]:
            return self._last_ends
        ended = np.flatnonzero(ring.flag_column(layout.R_ENDED)[:, newest % ring.num_slots, 0])
        if len(ended) == 0:
            return ended, {}
        rows = self._store.gather((ended << layout.ID_SHIFT) | newest, ONE_STEP, 1.0)
        return ended, dict(walk((), nest(rows.items())[keys.NEXT_OBS]))


def _check_mode(mode: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        known = ", ".join(repr(each.value) for each in AutoresetMode)
        raise ConfigError(f"autoreset_mode must be one of {known}, got {mode!r}") from None
