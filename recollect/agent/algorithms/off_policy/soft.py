"""`SoftActorCritic`: what soft actor-critic does in every action space."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recollect.agent.algorithms.config import learning_rate
from recollect.agent.algorithms.learning import Losses
from recollect.agent.algorithms.losses.regression import Regression
from recollect.agent.algorithms.losses.targets import td_target, temperature_loss
from recollect.agent.algorithms.off_policy.actor_critic import ActorCritic, ActorCriticConfig
from recollect.agent.algorithms.optimiser import ParameterGroup
from recollect.agent.algorithms.transitions import Transitions
from recollect.agent.algorithms.utils import backward
from recollect.options import count, flag, number, option, optional
from recollect.roles import Batch


def policy_delay(default: int) -> Any:
    """Declare the option `policy_delay`, which algorithms give different defaults."""
    return option(default, "Updates of the critics for each one of the policy and the temperature.", count)


@dataclass(frozen=True, kw_only=True)
class SoftConfig(ActorCriticConfig):
    """Options of soft actor-critic."""

    temperature: float = option(1.0, "Weight of the entropy, at the beginning.", number(0.0, above_low=True))
    learn_temperature: bool = option(True, "Adapt the temperature to reach the target entropy.", flag)
    temperature_lr: float = learning_rate(3e-4, "Learning rate of the temperature.")
    target_entropy: float | None = option(
        None, "Entropy that the temperature steers to; none for one that fits the actions.", optional(number(-math.inf))
    )
    policy_delay: int = policy_delay(1)


class SoftActorCritic(ActorCritic):
    """Base of both forms of soft actor-critic.

    Critics, policy and temperature take their steps together, from gradients at the same weights.
    """

    config: SoftConfig

    @property
    def temperature(self) -> Tensor:
        """Weight of the entropy now."""
        log_temperature: Tensor = self.multipliers["log_temperature"]
        return log_temperature.detach().exp()

    @property
    def target_entropy(self) -> float:
        """Entropy that the temperature steers to."""
        given = self.config.target_entropy
        return self._default_target_entropy() if given is None else given

    def _multiplier_starts(self) -> dict[str, tuple[str, float]]:
        return {"temperature": ("log_temperature", math.log(self.config.temperature))}

    def _groups(self) -> list[ParameterGroup]:
        return [
            *super()._groups(),
            ParameterGroup("temperature", list(self.multipliers.parameters()), "temperature_lr", decays=False),
        ]

    def _backward(self, batch: Batch) -> Losses:
        steps = self._read(batch)
        temperature = self.temperature
        loss_q, sizes = self._fit_critics(steps, temperature)
        losses, reported = {"loss_q": loss_q}, {"temperature": temperature}
        if (self.num_computed + 1) % self.config.policy_delay == 0:
            policy_losses, log_prob = self._policy_losses(steps, temperature)
            losses["loss_pi"] = steps.mean(policy_losses)
            reported["entropy"] = -log_prob
            if self.config.learn_temperature:
                log_temperature, target_entropy = self.multipliers["log_temperature"], self._target_entropy(steps)
                losses["loss_temperature"] = temperature_loss(log_temperature, log_prob, target_entropy)
        backward(*losses.values())
        return Losses(losses | reported, sizes)

    def _fit_critics(self, steps: Transitions, temperature: Tensor) -> tuple[Tensor, Tensor]:
        """Sum of all critics' losses, and the sizes of their TD errors as the storage takes them."""
        with torch.no_grad():
            target = td_target(steps.reward, steps.discount, self._next_value(steps, temperature))
        fit = self._fit_taken(steps, target)
        return fit.loss, fit.sizes

    def _target_entropy(self, steps: Transitions) -> float | Tensor:
        """Entropy that the temperature steers to in these states."""
        return self.target_entropy

    @abstractmethod
    def _fit_taken(self, steps: Transitions, target: Tensor) -> Regression:
        """Compare the values of the actions that were taken with a target `[rows, 1]`."""

    @abstractmethod
    def _next_value(self, steps: Transitions, temperature: Tensor) -> Tensor:
        """Soft values `[rows, 1]` after the windows."""

    @abstractmethod
    def _policy_losses(self, steps: Transitions, temperature: Tensor) -> tuple[Tensor, Tensor]:
        """Losses of the policy `[rows, 1]`, and the mean log-probability of its actions."""

    @abstractmethod
    def _default_target_entropy(self) -> float:
        """Entropy that suits the action space."""
