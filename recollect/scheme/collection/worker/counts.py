"""`Counts`: steps and episodes so far, merged over collections and split again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from recollect.files.records import as_count
from recollect.scheme.collection.worker.episodes import EpisodeHistory, equal_shares

NUM_STEPS: Final = "num_steps"
EPISODES: Final = "episodes"


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
        return {**vars(self), EPISODES: self.episodes.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from `state`."""
        for name in vars(self).keys() - {EPISODES}:
            setattr(self, name, as_count(state[name]))
        self.episodes.load_state(state[EPISODES])


def merge_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Put the states of several collections together: their numbers are added up."""
    names = {name: None for state in states for name in state if name != EPISODES}
    merged: dict[str, Any] = {name: sum(state.get(name, 0) for state in states) for name in names}
    return {**merged, EPISODES: EpisodeHistory.merge([state[EPISODES] for state in states])}


def share_state(state: Mapping[str, Any], num_shares: int) -> list[dict[str, Any]]:
    """Split the counts of a state among `num_shares` collections."""
    counts = {name: equal_shares(value, num_shares) for name, value in state.items() if isinstance(value, int)}
    episodes = EpisodeHistory.share(state[EPISODES], num_shares)
    return [
        {**{name: shares[index] for name, shares in counts.items()}, EPISODES: episodes[index]}
        for index in range(num_shares)
    ]
