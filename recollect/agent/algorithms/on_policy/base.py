"""`OnPolicyAlgorithm`: what algorithms share that learn from rollouts of their own policy."""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from recollect import keys
from recollect.agent.actors.base import NO_STATE
from recollect.agent.actors.spaces import map_observation
from recollect.agent.algorithms.config import AlgorithmConfig, grad_norm_limit, learning_rate
from recollect.agent.algorithms.learning import LearningAlgorithm
from recollect.agent.algorithms.optimiser import ParameterGroup
from recollect.errors import ConfigError
from recollect.options import choices, count, count_or_zero, option
from recollect.roles import Batch, Observation


def _no_start_steps(name: str, value: object) -> int:
    if value != 0:
        raise ConfigError(
            f"{name} must be 0, got {value!r}; on-policy algorithms learn only from actions of their own policy"
        )
    return 0


@dataclass(frozen=True, kw_only=True)
class OnPolicyConfig(AlgorithmConfig):
    """Options of every on-policy algorithm."""

    lr: float = learning_rate(3e-4, "Learning rate.")
    anneal_steps: int = option(
        0, "Steps, over all envs, in which the learning rate falls to 0; 0 to keep it.", count_or_zero
    )
    update_every: int = option(
        128, "Steps of every env between update stages.", count, search=choices(32, 64, 128, 256, 512)
    )
    num_mini_batch: int = option(
        4, "Mini-batches of an epoch, equal shares of all steps.", count, search=choices(2, 4, 8, 16)
    )
    mini_batch_size: int = option(
        0, "Steps of a mini-batch, instead of `num_mini_batch`; 0 to go by that.", count_or_zero
    )
    num_epochs: int = option(4, "Epochs of an update stage.", count, search=choices(4, 10, 20))
    start_steps: int = option(0, "Steps with random actions; there can be none.", _no_start_steps)
    max_grad_norm: float | None = grad_norm_limit(0.5)


class OnPolicyAlgorithm(LearningAlgorithm):
    """Base of the on-policy algorithms.

    Recurrent actors learn from whole sequences that begin with the hidden states that they acted with; the actor's
    `sequence_overlap` steps before a sequence are burn-in: they run without gradients, so that it begins with the
    present memory's state.
    """

    config: OnPolicyConfig
    is_on_policy = True
    masks_actions = True

    @property
    def num_mini_batch(self) -> int:
        if self.config.mini_batch_size == 0:
            return self.config.num_mini_batch
        return max(1, round(self._stage_steps / self.config.mini_batch_size))

    @property
    def mini_batch_size(self) -> int:
        return self.config.mini_batch_size or -(-self._stage_steps // self.config.num_mini_batch)

    def end_stages(self, num_updates: int, num_stages: int = 1) -> None:
        """Note how many updates are missing, for lack of sequences or since `target_kl` was reached."""
        num_planned = num_stages * self.num_epochs * self.num_mini_batch
        self.num_missed += max(0, num_planned - num_updates)

    @torch.no_grad()
    def next_values(self, batch: Batch) -> Tensor:
        """Values `[rows, 1]` of the observations that the steps of a batch led to."""
        rhs = NO_STATE
        if self.actor.is_recurrent:
            rhs = self.actor.encode(batch[keys.OBS], batch[keys.RHS], batch[keys.DONE])[1]
        features, _ = self.actor.encode(batch[keys.NEXT_OBS], rhs, torch.zeros_like(batch[keys.REWARD]))
        return self._value(features, batch[keys.NEXT_OBS])

    @abstractmethod
    def evaluate_actions(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Values and log-probabilities `[rows, 1]` of the steps of a batch under the present networks."""

    def _groups(self) -> list[ParameterGroup]:
        return [
            ParameterGroup("policy", self.actor.policy_parameters(), "lr"),
            ParameterGroup("critic", self.actor.critic_parameters(), "lr"),
        ]

    @abstractmethod
    def _value(self, features: Tensor, obs: Observation) -> Tensor:
        """Values `[rows, 1]` of the states that features were made of."""

    def _read(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
        """Features `[rows, F]`, columns and masks `[rows, ...]` of the steps to learn from, no padding or burn-in."""
        mask = self.actor.action_mask(batch[keys.OBS])
        columns = {key: batch[key] for key in (keys.ACTION, keys.LOG_PROB, keys.VALUE, keys.ADVANTAGE, keys.RETURN)}
        if keys.MASK not in batch:
            return self.actor.encode(batch[keys.OBS], NO_STATE, NO_STATE)[0], columns, mask
        is_step = batch[keys.MASK].squeeze(-1).bool()  # [num_seq, length]
        rows = {key: values[is_step] for key, values in columns.items()}
        return self._encode_sequences(batch, is_step), rows, None if mask is None else mask[is_step]

    def _encode_sequences(self, batch: Batch, is_step: Tensor) -> Tensor:
        """Features `[rows, F]` of the steps to learn from, behind those that only warm the memory up."""
        obs, states, done = batch[keys.OBS], batch[keys.RHS], batch[keys.DONE]
        num_warm = is_step.int().argmax(1)  # [num_seq]
        if num_warm.any():
            states = self._warm_states(batch, num_warm)
            # The steps to learn from come first in each row; what wraps around behind them is masked.
            steps = torch.arange(int(is_step.sum(1).max()), device=done.device)
            places = torch.arange(len(done), device=done.device)[:, None], (num_warm[:, None] + steps) % done.shape[1]
            obs, done, is_step = map_observation(lambda values: values[places], obs), done[places], is_step[places]
        return self.actor.unroll(obs, states, done)[0][is_step]

    @torch.no_grad()
    def _warm_states(self, batch: Batch, num_warm: Tensor) -> Tensor:
        """Hidden states `[num_seq, R]` of the present memory after the first `num_warm` steps, from the stored ones."""
        end = int(num_warm.max())
        obs = map_observation(lambda values: values[:, :end], batch[keys.OBS])
        _, states = self.actor.unroll(obs, batch[keys.RHS], batch[keys.DONE][:, :end])
        after = torch.cat([batch[keys.RHS][:, None], states], 1)  # [num_seq, 1 + end, R]
        return after[torch.arange(len(after), device=after.device), num_warm]

    def _rate_share(self) -> float:
        if not self.config.anneal_steps:
            return 1.0
        num_stages = self.config.anneal_steps / (self._stage_steps * self.num_learners)
        num_due = self.num_updates + self.num_missed
        return max(0.0, 1.0 - num_due / (num_stages * self.num_epochs * self.num_mini_batch))

    @property
    def _stage_steps(self) -> int:
        """Steps of all envs, of all workers that collect, between update stages."""
        return self.config.update_every * self.envs.num_envs * self.num_collectors
