"""`RunningStatistics`: an actor's normalisers of observations and rewards, and its novelty estimate."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from recollect.agent.actors.networks.curiosity import RandomDistillation
from recollect.agent.actors.networks.normalise import ObservationNormaliser, RewardNormaliser
from recollect.agent.actors.spaces import map_observation
from recollect.roles import Array, Observation


class RunningStatistics(nn.Module):
    """Base of the actors: parts that follow every step, where the config or the algorithm asks for them."""

    normaliser: ObservationNormaliser | None
    reward_normaliser: RewardNormaliser | None
    curiosity: RandomDistillation | None

    def to_tensors(self, obs: Observation) -> Observation:
        """Put a (nested) observation on the actor's device, in its own dtypes."""
        raise NotImplementedError

    def visible(self, obs: Observation) -> Observation:
        """What networks see of observations `[rows, …]`, on the actor's device."""
        raise NotImplementedError

    def observe(
        self,
        obs: Observation,
        reward: Array,
        done: Array,
        gamma: float = 0.99,
        *,
        source: Hashable = 0,
        skip: np.ndarray | None = None,
    ) -> None:
        """Update the normalisers, where there are any, with one step of every env.

        Parameters
        ----------
        obs : array or (nested) dict of arrays
            Observations `[num_envs, …]`.
        reward, done : array
            Rewards, and whether an episode ended with them, `[num_envs, 1]`.
        gamma : float
            Discount of the returns whose deviation scales rewards.
        source : hashable
            Where the step comes from, such as a worker: each source has running returns of its own.
        skip : bool array `[num_envs, 1]`, optional
            Rows that are no transition and are left out.
        """
        rows = slice(None) if skip is None else np.flatnonzero(~skip)
        if self.normaliser is not None or self.curiosity is not None:
            seen = self.visible(map_observation(lambda values: values[rows], obs))
            for part in (self.normaliser, self.curiosity):
                if part is not None:
                    part.update(seen)
        if self.reward_normaliser is not None:
            self.reward_normaliser.update(self.to_tensors(reward), self.to_tensors(done), gamma, source, rows)

    def episodes_state(self) -> dict[str, Tensor]:
        """What it keeps of the episodes in progress, for a checkpoint."""
        return {} if self.reward_normaliser is None else self.reward_normaliser.episodes_state()

    def load_episodes(self, state: Mapping[str, Any], num_envs: int) -> None:
        """Continue the episodes of `episodes_state`, or begin new ones if it is empty."""
        if self.reward_normaliser is not None:
            self.reward_normaliser.load_episodes(state, num_envs)

    def novelty(self, obs: Observation) -> Tensor | None:
        """How badly the novelty of observations `[rows, …]` is predicted, `[rows, 1]`; None if nobody asks for it."""
        if self.curiosity is None:
            return None
        return self.curiosity.novelty(self.visible(obs))

    def intrinsic_reward(self, obs: Observation) -> Tensor | None:
        """Rewards `[rows, 1]` of having reached observations `[rows, …]`; None if there are none."""
        if self.curiosity is None:
            return None
        rewards: Tensor = self.curiosity(self.visible(obs))
        return rewards

    def normalise_reward(self, reward: Tensor) -> Tensor:
        """Scale rewards, if the config asks for it."""
        return reward if self.reward_normaliser is None else self.reward_normaliser(reward)
