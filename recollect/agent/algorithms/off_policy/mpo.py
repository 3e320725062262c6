"""`MPO`: maximum a posteriori policy optimisation."""

import math
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import gymnasium as gym
import torch
from torch import Tensor
from torch.nn import functional

from recollect.agent.actors.networks.distributions import Gaussian, SquashedGaussian
from recollect.agent.actors.plan import ActorPlan
from recollect.agent.algorithms.config import grad_norm_limit, learning_rate
from recollect.agent.algorithms.learning import Losses
from recollect.agent.algorithms.losses.targets import improved_weights, lagrangian, td_target, temperature_dual
from recollect.agent.algorithms.off_policy.actor_critic import ContinuousActorCritic, ContinuousConfig
from recollect.agent.algorithms.optimiser import ParameterGroup
from recollect.agent.algorithms.transitions import Transitions
from recollect.agent.algorithms.utils import backward, gaussian_kl
from recollect.options import count, number, option
from recollect.roles import Batch

# Names of what bounds the KLs: of the improved policy, and of a step by its mean and by its deviation.
_MULTIPLIERS: Final = ("temperature", "mean", "std")
# A temperature of zero would divide by it.
_FLOOR: Final = 1e-8

positive = number(0.0, above_low=True)


@dataclass(frozen=True, kw_only=True)
class MPOConfig(ContinuousConfig):
    """Options of `MPO`."""

    policy_lr: float = learning_rate(1e-3, "Learning rate of the policy.")
    critic_lr: float = learning_rate(1e-3, "Learning rate of the critics.")
    multiplier_lr: float = learning_rate(1e-2, "Learning rate of the temperature and the multipliers.")
    max_grad_norm: float | None = grad_norm_limit(40.0)
    num_samples: int = option(20, "Actions sampled in each state.", count)
    epsilon: float = option(0.1, "Largest KL of the improved policy to the old one.", positive)
    epsilon_mean: float = option(0.01, "Largest KL of a policy step by its mean.", positive)
    epsilon_std: float = option(1e-4, "Largest KL of a policy step by its deviation.", positive)
    temperature: float = option(1.0, "Temperature of the improved policy, at the beginning.", positive)
    multiplier_mean: float = option(1.0, "Multiplier of the mean's KL, at the beginning.", positive)
    multiplier_std: float = option(10.0, "Multiplier of the deviation's KL, at the beginning.", positive)

    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        return ActorPlan(
            policy="squashed_gaussian", critic="q_action", num_critics=self.num_critics, target_policy=True
        )


class Sampled(NamedTuple):
    """Actions of the old policy after the windows, before tanh `[num_samples, rows, action]`, and their values."""

    old: SquashedGaussian
    actions: Tensor
    values: Tensor


class MPO(ContinuousActorCritic):
    """Maximum a posteriori policy optimisation (Abdolmaleki et al., 2018, https://arxiv.org/abs/1812.02256).

    The policy is a Gaussian squashed by tanh. Squashing changes neither KLs nor the maximum of a likelihood, so
    everything is computed before it. The old policy is the target network,
    and values come from one step with its samples instead of Retrace.

    Examples
    --------
    >>> MPO.create_factory(num_samples=30)
    AlgorithmFactory(MPO, num_samples=30)
    """

    config_class = MPOConfig
    config: MPOConfig
    title = "MPO"

    def _multiplier_starts(self) -> dict[str, tuple[str, float]]:
        options = ("temperature", "multiplier_mean", "multiplier_std")
        pairs = zip(options, _MULTIPLIERS, strict=True)
        return {option: (name, _raw(getattr(self.config, option))) for option, name in pairs}

    def _groups(self) -> list[ParameterGroup]:
        multipliers = list(self.multipliers.parameters())
        return [*super()._groups(), ParameterGroup("multiplier", multipliers, "multiplier_lr", decays=False)]

    def _backward(self, batch: Batch) -> Losses:
        steps = self._read(batch)
        with torch.no_grad():
            sampled = self._sample_next(steps)
            target = td_target(steps.reward, steps.discount, sampled.values.mean(0))
        fit = self._fit(steps, (steps.features, steps.action), target)
        backward(fit.loss)
        return Losses({"loss_q": fit.loss} | self._improve_policy(steps, sampled), fit.sizes)

    def _sample_next(self, steps: Transitions) -> Sampled:
        features = steps.next_features(target=True)
        old = self.target_policy(features)
        num = self.config.num_samples
        actions = Gaussian(old.mean.expand(num, -1, -1), old.std).sample(self.generator)
        values = self._lowest(self.target_critics(features.repeat(num, 1), actions.tanh().flatten(0, 1)))
        return Sampled(old, actions, values.view(*actions.shape[:2], 1))

    def _improve_policy(self, steps: Transitions, sampled: Sampled) -> dict[str, Tensor]:
        """Fit the policy to the improved one, as far as the KLs allow, where the windows led to."""
        old, new = sampled.old, self.policy(steps.next_features(target=False))
        temperature, *multipliers = (functional.softplus(self.multipliers[name]) + _FLOOR for name in _MULTIPLIERS)
        dual = steps.mean(temperature_dual(sampled.values, temperature, self.config.epsilon))
        weights = improved_weights(sampled.values, temperature.detach())
        by_mean, by_std = Gaussian(new.mean, old.std), Gaussian(old.mean, new.std)
        fits = by_mean.log_prob(sampled.actions) + by_std.log_prob(sampled.actions)
        loss_pi = -steps.mean((weights * fits).sum(0))
        kls = gaussian_kl(old.mean, new.mean, old.std.square().diag_embed(), new.std.square().diag_embed())
        limits = (self.config.epsilon_mean, self.config.epsilon_std)
        mean, std = (lagrangian(*bound) for bound in zip(kls, multipliers, limits, strict=True))
        backward(loss_pi + mean.penalty + std.penalty, dual + mean.loss + std.loss)
        return {"loss_pi": loss_pi, "temperature": temperature, "kl_mean": kls[0], "kl_std": kls[1]}


def _raw(value: float) -> float:
    """Number whose softplus is `value`."""
    return value + math.log(-math.expm1(-value))
