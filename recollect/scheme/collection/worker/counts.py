"""`Counts`: what was collected so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recollect.scheme.collection.collectors.states import EPISODES, NUM_STEPS
from recollect.scheme.collection.worker.episodes import EpisodeHistory


@dataclass
class Counts:
    """What was collected so far, by a worker itself or by others for it.

    Attributes
    ----------
    num_steps : int
        Transitions collected, over all environments.
    num_steps_lost : int
        How many of them the present storage has never held.
    iter : int
        Number of times that data were collected.
    actor_version : int
        Number of times that the actor's weights changed.
    episodes : EpisodeHistory
        The train episodes that ended.
    """

    num_steps: int = 0
    num_steps_lost: int = 0
    iter: int = 0
    actor_version: int = 0
    episodes: EpisodeHistory = field(default_factory=EpisodeHistory)

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {
            NUM_STEPS: self.num_steps,
            "num_steps_lost": self.num_steps_lost,
            "iter": self.iter,
            "actor_version": self.actor_version,
            EPISODES: self.episodes.state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from `state`."""
        self.num_steps = int(state[NUM_STEPS])
        self.num_steps_lost = int(state["num_steps_lost"])
        self.iter = int(state["iter"])
        self.actor_version = int(state["actor_version"])
        self.episodes.load_state(state[EPISODES])
