"""States of collections, as `CWorker.state` gives them: put together, and dealt out again."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from recollect.scheme.collection.worker.episodes import EpisodeHistory, equal_shares

NUM_STEPS: Final = "num_steps"
EPISODES: Final = "episodes"


def merge_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Put the states of several collections together: their numbers are added up."""
    names = {name: None for state in states for name in state if name != EPISODES}
    merged: dict[str, Any] = {name: sum(state.get(name, 0) for state in states) for name in names}
    return {**merged, EPISODES: EpisodeHistory.merge([state[EPISODES] for state in states])}


def share_state(state: Mapping[str, Any], num_shares: int) -> list[dict[str, Any]]:
    """Deal what a state has counted out to so many collections."""
    counts = {name: equal_shares(value, num_shares) for name, value in state.items() if isinstance(value, int)}
    episodes = EpisodeHistory.share(state[EPISODES], num_shares)
    return [
        {**{name: shares[index] for name, shares in counts.items()}, EPISODES: episodes[index]}
        for index in range(num_shares)
    ]
