"""`PQN`: Q-learning in parallel environments, without replay and without target networks."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from recollect import keys
from recollect.agent.actors.base import NO_STATE
from recollect.agent.actors.plan import ActorPlan, Layers
from recollect.agent.algorithms.config import grad_norm_limit, learning_rate
from recollect.agent.algorithms.exploration import EpsilonConfig, EpsilonGreedy
from recollect.agent.algorithms.learning import Losses
from recollect.agent.algorithms.losses.targets import best_action, epsilon_greedy_log_prob
from recollect.agent.algorithms.on_policy.base import OnPolicyAlgorithm, OnPolicyConfig
from recollect.agent.algorithms.optimiser import optimiser_name
from recollect.agent.algorithms.utils import backward
from recollect.options import count, option
from recollect.roles import Batch, Observation


@dataclass(frozen=True, kw_only=True)
class PQNConfig(OnPolicyConfig, EpsilonConfig):
    """Options of `PQN`."""

    lr: float = learning_rate(2.5e-4, "Learning rate.")
    update_every: int = option(32, "Steps of every env between update stages.", count)
    num_epochs: int = option(2, "Epochs of an update stage.", count)
    max_grad_norm: float | None = grad_norm_limit(10.0)
    optimiser: str = option("radam", "Optimiser: radam, adam, or any other of torch.optim by name.", optimiser_name)

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        norms = Layers(layer_norm=True)
        return ActorPlan(policy=None, critic="q_values", target_critics=False, critic_layers=norms)


class PQN(EpsilonGreedy, OnPolicyAlgorithm):
    """Parallelised Q-network (Gallici et al., 2024, https://arxiv.org/abs/2407.04811).

    Layer norms stand in for target networks, and fresh steps of many environments for a replay buffer. Targets are
    Q(lambda) returns: the storage's `gae_lambda` is that lambda (0.65 on Atari games in the paper), and the value of a
    state is that of its best action. Actions at random are drawn as in `DDQN`. Convolutions have no layer norms,
    unlike in the paper.

    Examples
    --------
    >>> PQN.create_factory(final_epsilon=0.01)
    AlgorithmFactory(PQN, final_epsilon=0.01)
    """

    config_class = PQNConfig
    config: PQNConfig
    title = "PQN"
    action_spaces = (gym.spaces.Discrete,)

    @torch.no_grad()
    def evaluate_actions(self, batch: Batch) -> tuple[Tensor, Tensor]:
        features, _ = self.actor.encode(batch[keys.OBS], batch.get(keys.RHS, NO_STATE), batch.get(keys.DONE, NO_STATE))
        q_t, mask = self.critics(features)[0], self.actor.action_mask(batch[keys.OBS])
        greedy = best_action(q_t, mask)
        return q_t.gather(-1, greedy), epsilon_greedy_log_prob(q_t, batch[keys.ACTION], greedy, self.epsilon, mask)

    def _act(
        self, features: Tensor, done: Tensor, deterministic: bool, mask: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        q_t = self.critics(features)[0]
        greedy = best_action(q_t, mask)
        if deterministic:
            return greedy, {}
        action = self._explore(greedy, mask)
        log_prob = epsilon_greedy_log_prob(q_t, action, greedy, self.epsilon, mask)
        return action, {keys.VALUE: q_t.gather(-1, greedy), keys.LOG_PROB: log_prob}

    def _value(self, features: Tensor, obs: Observation) -> Tensor:
        q_t: Tensor = self.critics(features)[0]
        return q_t.gather(-1, best_action(q_t, self.actor.action_mask(obs)))

    def _backward(self, batch: Batch) -> Losses:
        features, rows, _ = self._read(batch)
        q_t = self.critics(features)[0].gather(-1, rows[keys.ACTION])
        # The return after the action that was taken; V-trace weighs that of the state.
        target = rows[keys.VALUE] + rows[keys.ADVANTAGE]
        loss = 0.5 * (q_t - target).square().mean()
        backward(loss)
        return Losses({"loss_q": loss, "q": q_t.mean()})
