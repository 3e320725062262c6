"""`DDQN`: double Q-learning with a deep network."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from recollect.agent.actors.plan import ActorPlan
from recollect.agent.algorithms.config import OffPolicyConfig, grad_norm_limit, learning_rate
from recollect.agent.algorithms.exploration import EpsilonConfig, EpsilonGreedy
from recollect.agent.algorithms.learning import Losses
from recollect.agent.algorithms.losses.targets import best_action, double_q_value, td_target
from recollect.agent.algorithms.off_policy.base import OffPolicyAlgorithm
from recollect.agent.algorithms.optimiser import ParameterGroup
from recollect.agent.algorithms.transitions import Transitions
from recollect.agent.algorithms.utils import backward
from recollect.options import number, option
from recollect.roles import Batch


@dataclass(frozen=True, kw_only=True)
class DDQNConfig(OffPolicyConfig, EpsilonConfig):
    """Options of `DDQN`."""

    critic_lr: float = learning_rate(5e-4, "Learning rate of the Q network.")
    max_grad_norm: float | None = grad_norm_limit(10.0)
    huber_delta: float = option(1.0, "TD errors beyond it count linearly.", number(0.0, above_low=True))

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        return ActorPlan(policy=None, critic="q_values", num_critics=1)


class DDQN(EpsilonGreedy, OffPolicyAlgorithm):
    """Double deep Q-learning (van Hasselt et al., 2015, https://arxiv.org/abs/1509.06461).

    Dueling networks are an option of the actor; n-step returns and priorities come from the storage.

    Examples
    --------
    >>> DDQN.create_factory(final_epsilon=0.01)
    AlgorithmFactory(DDQN, final_epsilon=0.01)
    """

    config_class = DDQNConfig
    config: DDQNConfig
    title = "DDQN"
    action_spaces = (gym.spaces.Discrete,)
    masks_actions = True

    def _groups(self) -> list[ParameterGroup]:
        return [ParameterGroup("critic", self.actor.critic_parameters(), "critic_lr")]

    def _act_on_rows(self, rows: np.ndarray, deterministic: bool) -> Tensor | None:
        own = type(self)
        if own._act is not DDQN._act or own._mean is not DDQN._mean or not hasattr(self.critics, "best"):
            return None
        best = self.critics.best(rows)
        if best is None:
            return None
        greedy = torch.from_numpy(best)
        return greedy if deterministic else self._explore(greedy, None)

    def _act(
        self, features: Tensor, done: Tensor, deterministic: bool, mask: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        greedy = best_action(self._mean(self.critics(features)[0]), mask)
        return greedy if deterministic else self._explore(greedy, mask), {}

    def _mean(self, atoms: Tensor) -> Tensor:
        """Value of each action, of what a critic says of it; the same here."""
        return atoms

    def _backward(self, batch: Batch) -> Losses:
        steps = self._read(batch)
        inputs, target = (steps.features,), self._target(steps)
        fit = self._fit(steps, inputs, target, action=steps.action, delta=self.config.huber_delta)
        backward(fit.loss)
        return Losses({"loss_q": fit.loss, "q": fit.value}, fit.sizes)

    @torch.no_grad()
    def _target(self, steps: Transitions) -> Tensor:
        q_tp1 = self.critics(steps.next_features(target=False))[0]
        q_tp1_target = self.target_critics(steps.next_features(target=True))[0]
        return td_target(steps.reward, steps.discount, double_q_value(q_tp1, q_tp1_target, steps.next_mask))
