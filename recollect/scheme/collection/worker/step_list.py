"""`StepList`: a storage-like list of steps that returns them as arrays."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from recollect import keys
from recollect.agent.actors.spaces import map_observation
from recollect.agent.storages.experience.store.schema.planning import to_numpy

# Keys that a step has only if there is something to say.
_OPTIONAL_KEYS: Final = (keys.SKIP, keys.CUT)


class StepList:
    """Steps one after the other, each as it was given."""

    def __init__(self) -> None:
        self._samples: list[dict[str, Any]] = []

    def insert_transition(self, sample: Mapping[str, Any]) -> None:
        """Take one step of every env, arrays or tensors `[num_envs, ...]`."""
        self._samples.append(map_observation(lambda value: to_numpy(value).copy(), sample))

    def arrays(self) -> dict[str, Any]:
        """All steps, (nested) arrays `[time, num_envs, ...]` by key."""
        seldom = {key for sample in self._samples for key in sample if key in _OPTIONAL_KEYS}
        for sample in self._samples:
            for key in seldom - sample.keys():
                sample[key] = np.zeros(sample[keys.REWARD].shape, np.bool_)
        first = self._samples[0] if self._samples else {}
        return {key: _stacked([sample[key] for sample in self._samples]) for key in first}


def _stacked(values: Sequence[Any]) -> Any:
    if isinstance(values[0], dict):
        return {key: _stacked([value[key] for value in values]) for key in values[0]}
    return np.stack(values)
