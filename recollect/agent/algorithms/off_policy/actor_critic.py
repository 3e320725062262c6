"""`ActorCritic`: a policy beside the critics, with or without noise when it explores."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, get_args

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from recollect.agent.actors.noise import GaussianNoise, OUNoise
from recollect.agent.algorithms.config import OffPolicyConfig, critic_count, learning_rate
from recollect.agent.algorithms.learning import LearningAlgorithm
from recollect.agent.algorithms.off_policy.base import OffPolicyAlgorithm
from recollect.agent.algorithms.optimiser import ParameterGroup
from recollect.errors import ConfigError
from recollect.options import count, count_or_zero, number, one_of, option, optional


def target_critic_count(default: int | None) -> Any:
    """Declare the option `num_target_critics`, which algorithms give different defaults."""
    doc = "How many critics, drawn at random for each update, the lowest value of a target is of; none for all."
    return option(default, doc, optional(count))


def no_start_steps() -> Any:
    """Declare the option `start_steps` of algorithms that begin with given data: theirs are the first actions."""
    return option(0, "Steps with random actions before learning, over all envs.", count_or_zero)


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(OffPolicyConfig):
    """Options of every off-policy algorithm that has a policy."""

    policy_lr: float = learning_rate(3e-4, "Learning rate of the policy.")
    critic_lr: float = learning_rate(3e-4, "Learning rate of the critics.")
    num_critics: int = critic_count(2)
    num_target_critics: int | None = target_critic_count(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_target_critics is not None and self.num_target_critics > self.num_critics:
            raise ConfigError(
                f"num_target_critics must be at most num_critics, which is {self.num_critics}, got "
                f"{self.num_target_critics}; train more critics, or leave it out to use all"
            )


class ActorCritic(OffPolicyAlgorithm):
    """Base of the off-policy algorithms that have a policy."""

    config: ActorCriticConfig

    def _groups(self) -> list[ParameterGroup]:
        return [
            ParameterGroup("critic", self.actor.critic_parameters(), "critic_lr"),
            ParameterGroup("policy", self.actor.policy_parameters(), "policy_lr"),
        ]

    def _lowest(self, values: Tensor) -> Tensor:
        """Lowest of the critics' values `[num_critics, …]`, or of a random subset of them: what targets trust."""
        num = self.config.num_target_critics
        if num is None or num == len(values):
            return values.amin(0)
        drawn = torch.randperm(len(values), generator=self.generator, device=values.device)[:num]
        return values[drawn].amin(0)

    def _act(
        self, features: Tensor, done: Tensor, deterministic: bool, mask: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        policy = self._distribution(features, mask)
        return policy.mode() if deterministic else policy.sample(self.actor.generator), {}


_DRIFT: Final = "drift"
NOISE_DOC: Final = "Noise on actions while exploring: none, gaussian or ou."
NoiseKind = Literal["none", "gaussian", "ou"]
Noise = GaussianNoise | OUNoise
NOISES: Final[dict[NoiseKind, type[Noise]]] = {"gaussian": GaussianNoise, "ou": OUNoise}


def noise_kind(name: str, value: object) -> object:
    """Check a kind of noise; `none`, as files and command lines have it, is read as None."""
    return one_of(*get_args(NoiseKind))(name, "none" if value is None else value)


@dataclass(frozen=True, kw_only=True)
class ContinuousConfig(ActorCriticConfig):
    """Options of every off-policy algorithm with continuous actions."""

    noise: NoiseKind = option("none", NOISE_DOC, noise_kind)
    noise_std: float = option(0.1, "Deviation of the noise, of actions in [-1, 1].", number(0.0))


class ContinuousActorCritic(ActorCritic):
    """Base of the off-policy algorithms with continuous actions, which may add noise of their own kind."""

    config: ContinuousConfig
    _noise: Noise | None
    action_spaces: ClassVar[tuple[type[gym.Space[Any]], ...]] = (gym.spaces.Box,)

    @contextmanager
    def preserving_exploration(self) -> Iterator[None]:
        kept, self._noise = self._noise, copy(self._noise)
        try:
            with super().preserving_exploration():
                yield
        finally:
            self._noise = kept

    def state(self) -> dict[str, Any]:
        drift = getattr(self._noise, _DRIFT, None)
        return super().state() | ({} if drift is None else {_DRIFT: drift.clone()})

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        if isinstance(self._noise, OUNoise):
            self._noise.load_drift(state.get(_DRIFT), self.actor.device)

    def _act(
        self, features: Tensor, done: Tensor, deterministic: bool, mask: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        action, other = super()._act(features, done, deterministic, mask)
        if not deterministic and self._noise is not None:
            action = self._noise.add_to(action, done, self.actor.generator)
        return action, other

    def _act_on_rows(self, rows: np.ndarray, deterministic: bool) -> Tensor | None:
        own = type(self)
        is_drawn = own._act is ContinuousActorCritic._act and own._distribution is LearningAlgorithm._distribution
        if deterministic or self._noise is not None or not is_drawn or not hasattr(self.policy, "draw"):
            return None
        action: Tensor | None = self.policy.draw(rows, self.actor.generator)
        return action

    def _configure(self) -> None:
        super()._configure()
        kind = NOISES.get(self.config.noise)
        self._noise = None if kind is None else kind(self.config.noise_std)
