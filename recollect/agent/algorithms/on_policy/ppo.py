"""`PPO`: proximal policy optimisation."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from recollect import keys
from recollect.agent.actors.base import NO_STATE
from recollect.agent.actors.plan import ActorPlan, PolicyKind
from recollect.agent.actors.spaces import map_observation
from recollect.agent.algorithms.config import AlgorithmConfig, grad_norm_limit, learning_rate
from recollect.agent.algorithms.learning import LearningAlgorithm, Losses
from recollect.agent.algorithms.on_policy.surrogate import (
    clipped_fraction,
    clipped_surrogate,
    clipped_value_loss,
    estimated_kl,
    explained_variance,
    normalised,
)
from recollect.agent.algorithms.optimiser import ParameterGroup
from recollect.agent.algorithms.utils import backward
from recollect.errors import ConfigError
from recollect.options import choices, count, count_or_zero, flag, log_range, number, option, optional
from recollect.roles import Batch


def _no_start_steps(name: str, value: object) -> int:
    if value != 0:
        raise ConfigError(f"{name} must be 0, got {value!r}; PPO learns only from actions of its own policy")
    return 0


@dataclass(frozen=True, kw_only=True)
class PPOConfig(AlgorithmConfig):
    """Options of `PPO`."""

    lr: float = learning_rate(3e-4, "Learning rate.")
    clip: float = option(
        0.2,
        "How far the ratio of policies may move from 1.",
        number(0.0, above_low=True),
        search=choices(0.1, 0.2, 0.3),
    )
    value_clip: float | None = option(
        None, "How far a value may move from what it was; none for any.", optional(number(0.0, above_low=True))
    )
    value_weight: float = option(0.5, "Weight of the critic's loss.", number(0.0))
    entropy_weight: float = option(0.0, "Weight of the entropy bonus.", number(0.0), search=log_range(1e-5, 0.1))
    normalise_advantages: bool = option(True, "Give advantages mean 0 and deviation 1 in each mini-batch.", flag)
    target_kl: float | None = option(
        None, "KL divergence from the acting policy that ends an update stage; none for any.", optional(number(0.0))
    )
    anneal_steps: int = option(
        0, "Steps, over all envs, in which the learning rate falls to 0; 0 to keep it.", count_or_zero
    )
    anneal_clip: bool = option(False, "Let `clip` fall with the learning rate.", flag)
    intrinsic_weight: float = option(1.0, "Weight of intrinsic rewards beside the task's.", number(0.0))
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

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        policy: PolicyKind = "gaussian" if isinstance(action_space, gym.spaces.Box) else "categorical"
        return ActorPlan(policy=policy, critic="value", target_critics=False)


class PPO(LearningAlgorithm):
    """Proximal policy optimisation with a clipped objective (Schulman et al., 2017, https://arxiv.org/abs/1707.06347).

    Body, policy and critic take their steps together. A mini-batch whose KL divergence is above
    `target_kl` gives no gradient and ends the update stage. Recurrent actors learn from whole
    sequences that begin with the hidden states that they acted with; the actor's `sequence_overlap` steps
    before a sequence are burn-in: they run without gradients, so that it begins with the present memory's state.

    Examples
    --------
    >>> PPO.create_factory(update_every=64, entropy_weight=0.01)
    AlgorithmFactory(PPO, update_every=64, entropy_weight=0.01)
    """

    config_class = PPOConfig
    config: PPOConfig
    title = "PPO"
    action_spaces = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)
    is_on_policy = True
    masks_actions = True
    adam_epsilon = 1e-5

    @property
    def num_mini_batch(self) -> int:
        if self.config.mini_batch_size == 0:
            return self.config.num_mini_batch
        return max(1, round(self._stage_steps / self.config.mini_batch_size))

    @property
    def mini_batch_size(self) -> int:
        return self.config.mini_batch_size or -(-self._stage_steps // self.config.num_mini_batch)

    @property
    def intrinsic_weight(self) -> float:
        """Weight of intrinsic rewards beside the task's."""
        return self.config.intrinsic_weight

    @property
    def clip(self) -> float:
        """How far the ratio of policies may move from 1 now."""
        return self.config.clip * (self._rate_share() if self.config.anneal_clip else 1.0)

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
        value: Tensor = self.critics(features)
        return value

    @torch.no_grad()
    def evaluate_actions(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Values and log-probabilities `[rows, 1]` of the steps of a batch under the present networks."""
        features, _ = self.actor.encode(batch[keys.OBS], batch.get(keys.RHS, NO_STATE), batch.get(keys.DONE, NO_STATE))
        policy = self._distribution(features, self.actor.action_mask(batch[keys.OBS]))
        return self.critics(features), policy.log_prob(batch[keys.ACTION])

    def _groups(self) -> list[ParameterGroup]:
        return [
            ParameterGroup("policy", self.actor.policy_parameters(), "lr"),
            ParameterGroup("critic", self.actor.critic_parameters(), "lr"),
        ]

    def _act(
        self, features: Tensor, done: Tensor, deterministic: bool, mask: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        policy = self._distribution(features, mask)
        if deterministic:
            return policy.mode(), {}
        action, log_prob = policy.sample_with_log_prob(self.actor.generator)
        return action, {keys.VALUE: self.critics(features), keys.LOG_PROB: log_prob}

    def _backward(self, batch: Batch) -> Losses:
        features, rows, mask = self._read(batch)
        policy = self._distribution(features, mask)
        log_ratio = policy.log_prob(rows[keys.ACTION]) - rows[keys.LOG_PROB]
        kl = estimated_kl(log_ratio.detach())
        stops = self.config.target_kl is not None and bool(kl > self.config.target_kl)
        loss_pi = -clipped_surrogate(log_ratio, self._advantages(rows), self.clip).mean()
        loss_v = self._value_losses(self.critics(features), rows).mean()
        entropy = policy.entropy().mean()
        if not stops:
            backward(loss_pi + self.config.value_weight * loss_v - self.config.entropy_weight * entropy)
        return Losses(
            {
                "loss_pi": loss_pi,
                "loss_v": loss_v,
                "entropy": entropy,
                "kl": kl,
                "clip_fraction": clipped_fraction(log_ratio.detach(), self.clip),
                "explained_variance": explained_variance(rows[keys.VALUE], rows[keys.RETURN]),
                keys.EARLY_STOP: kl.new_tensor(float(stops)),
            }
        )

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

    def _advantages(self, rows: dict[str, Tensor]) -> Tensor:
        advantages = rows[keys.ADVANTAGE]
        return normalised(advantages) if self.config.normalise_advantages else advantages

    def _value_losses(self, values: Tensor, rows: dict[str, Tensor]) -> Tensor:
        if self.config.value_clip is None:
            return (values - rows[keys.RETURN]).square()
        return clipped_value_loss(values, rows[keys.VALUE], rows[keys.RETURN], self.config.value_clip)

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
