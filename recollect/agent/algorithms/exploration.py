"""`EpsilonGreedy`: greedy actions, and random ones with a probability that decays."""

from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.agent.algorithms.config import AlgorithmConfig
from recollect.agent.algorithms.learning import LearningAlgorithm
from recollect.options import count, log_range, number, option


@dataclass(frozen=True, kw_only=True)
class EpsilonConfig(AlgorithmConfig):
    """Options of `EpsilonGreedy`."""

    initial_epsilon: float = option(1.0, "Share of random actions at the beginning.", number(0.0, 1.0))
    final_epsilon: float = option(
        0.05, "Share of random actions at the end.", number(0.0, 1.0), search=log_range(0.01, 0.2)
    )
    epsilon_steps: int = option(10_000, "Steps over which the share of random actions falls, over all envs.", count)


class EpsilonGreedy(LearningAlgorithm):
    """Part of the algorithms that act by the values of finitely many actions."""

    config: EpsilonConfig

    @property
    def epsilon(self) -> float:
        """Share of random actions now."""
        start, end = self.config.initial_epsilon, self.config.final_epsilon
        return start + (end - start) * min(1.0, self.num_acted / self.config.epsilon_steps)

    _room: Tensor | None = None

    def _room_like(self, actions: Tensor) -> Tensor:
        """A float32 tensor of their shape, the same one each time: to make one takes longer than to fill it."""
        if self._room is None or self._room.shape != actions.shape or self._room.device != actions.device:
            self._room = torch.empty(actions.shape, device=actions.device)
        return self._room

    def _explore(self, greedy: Tensor, mask: Tensor | None) -> Tensor:
        """Put allowed actions at random in the place of some greedy ones `[num_envs, 1]`."""
        chance = self._room_like(greedy).uniform_(generator=self.actor.generator)
        if min(chance.tolist())[0] >= self.epsilon:
            return greedy  # actions at random are drawn only for steps in which somebody explores
        random = self.actor.actions.draw(len(greedy), self.actor.generator, mask)
        return torch.where(chance < self.epsilon, random, greedy)
