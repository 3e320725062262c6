"""Episode statistics: returns and lengths, followed step by step."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import numpy as np

from recollect.agent.envs.step import Step
from recollect.files.records import as_count, as_number
from recollect.keys import IS_SUCCESS

NUM_RECENT_EPISODES: Final = 20
_NUM_EPISODES: Final = "num_episodes"
_RECENT: Final = "recent"
_REWARDS: Final = "rewards"
_STEPS: Final = "steps"
# Episodes that nobody has asked for yet.
_NEW: Final = "new"


class Episode(NamedTuple):
    """An episode that ended: which env it was in, the sum of its rewards, its steps and whether it succeeded."""

    env: int
    total_reward: float
    num_steps: int
    success: float | None


class EpisodeHistory:
    """The episodes that ended: how many, the latest of them, and those that nobody has asked for yet.

    Attributes
    ----------
    num_episodes : int
        Episodes so far.
    recent : deque of Episode
        The latest ones.
    """

    def __init__(self) -> None:
        self.num_episodes = 0
        self.recent: deque[Episode] = deque(maxlen=NUM_RECENT_EPISODES)
        self._new: list[Episode] = []

    @property
    def mean_return(self) -> float:
        """Mean return of recent episodes, NaN before the first one ends."""
        return _mean([episode.total_reward for episode in self.recent])

    @property
    def mean_length(self) -> float:
        """Mean steps of recent episodes, NaN before the first one ends."""
        return _mean([episode.num_steps for episode in self.recent])

    @property
    def success_rate(self) -> float | None:
        """Share of recent episodes that succeeded, None where the environment does not say."""
        successes = [episode.success for episode in self.recent if episode.success is not None]
        return float(np.mean(successes)) if successes else None

    def add(self, episodes: Sequence[Episode]) -> None:
        """Take in episodes that ended."""
        self.num_episodes += len(episodes)
        self.recent.extend(episodes)
        self._new.extend(episodes)

    def take_new(self) -> list[Episode]:
        """Hand over the episodes that ended since the last call."""
        new, self._new = self._new, []
        return new

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {
            _NUM_EPISODES: self.num_episodes,
            _RECENT: [list(episode) for episode in self.recent],
            _NEW: [list(episode) for episode in self._new],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from `state`."""
        self.num_episodes = as_count(state[_NUM_EPISODES])
        self.recent = deque((_load_episode(*values) for values in state[_RECENT]), maxlen=NUM_RECENT_EPISODES)
        self._new = [_load_episode(*values) for values in state.get(_NEW, ())]

    @staticmethod
    def merge(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Put states together; episodes are dealt in turn from the newest on, because only the last few count."""
        turns = zip_longest(*(reversed(state[_RECENT]) for state in states))
        newest_first = [episode for turn in turns for episode in turn if episode is not None]
        return {
            _NUM_EPISODES: sum(state[_NUM_EPISODES] for state in states),
            _RECENT: newest_first[::-1],
            _NEW: [episode for state in states for episode in state.get(_NEW, ())],
        }

    @staticmethod
    def share(state: Mapping[str, Any], num_shares: int) -> list[dict[str, Any]]:
        """Deal the number of episodes out; each has all of the recent ones, so that their means stay, one the new."""
        shares = equal_shares(state[_NUM_EPISODES], num_shares)
        new = state.get(_NEW, ())
        return [{**state, _NUM_EPISODES: share, _NEW: () if index else new} for index, share in enumerate(shares)]


class EpisodeLog:
    """Follows the episodes of envs that step together."""

    def __init__(self, num_envs: int) -> None:
        self._rewards = np.zeros(num_envs)
        self._num_steps = np.zeros(num_envs, np.int64)

    def state(self) -> dict[str, np.ndarray]:
        """What the episodes brought that have not ended."""
        return {_REWARDS: self._rewards.copy(), _STEPS: self._num_steps.copy()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from `state`."""
        rewards = np.asarray(state[_REWARDS]).astype(np.float64)
        num_steps = np.asarray(state[_STEPS]).astype(np.int64)
        if rewards.shape != self._rewards.shape or num_steps.shape != self._num_steps.shape:
            raise ValueError(f"returns of {rewards.shape} episodes are not those of {len(self._rewards)} envs")
        if not np.isfinite(rewards).all() or (num_steps < 0).any():
            raise ValueError("episodes have returns that are not finite, or fewer steps than none")
        self._rewards, self._num_steps = rewards, num_steps

    @property
    def longest(self) -> int:
        """Steps so far of the longest episode that has not ended."""
        return int(self._num_steps.max())

    def follow(self, step: Step, ended: np.ndarray) -> list[Episode]:
        """Take in a step of every env and return the episodes that ended with it.

        Parameters
        ----------
        step : Step
            What the step brought.
        ended : bool [num_envs, 1]
            Where it ended an episode.
        """
        if step.skip is None:
            self._rewards += step.reward[:, 0]
            self._num_steps += 1
        else:
            counts = ~step.skip[:, 0]
            self._rewards += np.where(counts, step.reward[:, 0], 0.0)
            self._num_steps += counts
        if step.is_plain:
            return []
        episodes = [self._episode(step, int(env)) for env in np.flatnonzero(ended[:, 0])] if ended.any() else []
        if episodes or step.cut.any():
            self._forget((ended | step.cut)[:, 0])
        return episodes

    def _episode(self, step: Step, env: int) -> Episode:
        return Episode(env, float(self._rewards[env]), int(self._num_steps[env]), _success(step.infos, env))

    def _forget(self, envs: np.ndarray) -> None:
        self._rewards[envs] = 0
        self._num_steps[envs] = 0


def equal_shares(total: int, num_shares: int) -> list[int]:
    """Whole numbers that add up to `total`, as equal as can be."""
    share, rest = divmod(total, num_shares)
    return [share + (index < rest) for index in range(num_shares)]


def _load_episode(env: object, total: object, length: object, success: object) -> Episode:
    """An episode from what a file says of it."""
    return Episode(as_count(env), as_number(total), as_count(length), None if success is None else as_number(success))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _success(infos: Mapping[str, Any], env: int) -> float | None:
    """What an env says of success; None if it says nothing."""
    if IS_SUCCESS not in infos or not infos.get(f"_{IS_SUCCESS}", {env: True})[env]:
        return None
    return float(infos[IS_SUCCESS][env])
