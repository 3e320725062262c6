"""`LearningAlgorithm`: what all algorithms have in common, from one typed config."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from recollect import keys
from recollect.agent.actors.base import Actor
from recollect.agent.actors.plan import ActorPlan
from recollect.agent.actors.spaces import map_observation
from recollect.agent.algorithms.acceleration import check_precision, compiled, products_in
from recollect.agent.algorithms.base import Algorithm
from recollect.agent.algorithms.config import AlgorithmConfig
from recollect.agent.algorithms.factory import AlgorithmFactory, CreatesAlgorithms
from recollect.agent.algorithms.optimiser import GroupedOptimiser, ParameterGroup, copy_fitting
from recollect.agent.algorithms.utils import backward, put_gradients, take_gradients
from recollect.agent.registry import advice
from recollect.errors import ConfigError, NotFiniteError, RecollectWarning, closest
from recollect.files.records import as_count
from recollect.roles import ActingStep, Batch, Device, Gradients, Info, Observation, VectorEnvs, Weights

# Options that the optimiser and the compiled losses are built from.
_FIXED: Final = ("optimiser", "optimiser_kwargs", "compile")
# Names in `state`.
_COUNTERS: Final = ("num_updates", "num_computed", "num_acted", "num_missed")
_MULTIPLIERS: Final = "multipliers."
_OPTIMISER: Final = keys.OPTIMISER_PREFIX
_GENERATOR: Final = "generator"
_CPU: Final = "cpu"


class Losses(NamedTuple):
    """What a backward pass tells: scalars by name, and the TD error of each row if there are any."""

    scalars: Mapping[str, Tensor | float]
    errors: Tensor | None = None


class LearningAlgorithm(Algorithm):
    """Base of the algorithms at hand: a subclass supplies its plan, parameters, losses and actions.

    Parameters
    ----------
    device : torch.device or str
        Where the networks are.
    actor : Actor
        The networks that act and learn.
    envs : VecEnv
        The environments that are acted in.
    config : AlgorithmConfig
        Options, of the class's `config_class`.

    Attributes
    ----------
    num_updates : int
        Optimisation steps taken.
    num_computed : int
        Gradients computed, which is not the same where they come from other processes.
    num_acted : int
        Steps acted with exploration, over all envs.
    num_missed : int
        Updates that past stages were due and did not make, where schedules go by the run's steps.
    num_collectors, num_learners : int
        Workers that collect what one stage learns from, and those whose gradients make one update together:
        both multiply the steps of a run between updates.
    changed_parameters : dict
        Values of the options that were changed while running.
    generator : torch.Generator
        Source of chance in learning. Acting draws from the actor's, so that learning is the same whether it
        is done beside the acting or in another process.
    """

    config_class: ClassVar[type[AlgorithmConfig]]
    # How people and messages call the algorithm, and the action spaces that it can act in.
    title: ClassVar[str]
    action_spaces: ClassVar[tuple[type[gym.Space[Any]], ...]]
    optimiser_epsilon: ClassVar[float] = 1e-8
    # Whether it leaves out the actions that an environment does not allow.
    masks_actions: ClassVar[bool] = False
    # Whether only what the present policy did can be learned from.
    is_on_policy: ClassVar[bool] = False

    def __init__(self, device: Device, actor: Actor, envs: VectorEnvs, config: AlgorithmConfig | None = None) -> None:
        self.device = torch.device(device)
        self.actor = actor
        self.envs = envs
        # The plan decides which of them exist and what they take.
        self.policy: Any = actor.policy
        self.critics: Any = actor.critics
        self.config = self.config_class() if config is None else config
        self._check_actor()
        check_precision(self.config.precision, self.device, is_recurrent=actor.is_recurrent)
        # Parameters that are the algorithm's and not the actor's, such as temperatures.
        self.multipliers = nn.ParameterDict()
        self.generator = _generator_beside(actor.generator, 1)
        self._other_generator = _generator_beside(actor.generator, 2)
        starts = self._multiplier_starts().values()
        self.multipliers.update({name: nn.Parameter(torch.tensor(value)) for name, value in starts})
        self._configure()
        self.multipliers.to(self.device)
        self.optimiser = GroupedOptimiser(
            [*self._groups(), *self._curiosity_group()], self.config, self.optimiser_epsilon
        )
        self._learn_from = compiled(self._backward, self.device) if self.config.compile else self._backward
        self.num_updates = 0
        self.num_computed = 0
        self.num_acted = 0
        self.num_missed = 0
        self.num_collectors = 1
        self.num_learners = 1
        self.changed_parameters: dict[str, Any] = {}

    if TYPE_CHECKING:
        create_factory: ClassVar[CreatesAlgorithms]
    else:

        @classmethod
        def create_factory(cls, **options: object) -> AlgorithmFactory:
            """Return a function that creates algorithms of this class.

            Parameters
            ----------
            **options
                Fields of `config_class`.
            """
            return AlgorithmFactory(cls, cls.config_class.of(cls.title, options))

    @classmethod
    def plan(cls, action_space: gym.Space[Any], config: AlgorithmConfig | None = None) -> ActorPlan:
        """Say what networks the algorithm needs to act in `action_space`; refuses one that it cannot act in.

        Parameters
        ----------
        action_space : gymnasium.Space
            Actions of one environment.
        config : AlgorithmConfig, optional
            Options, such as the number of critics; the defaults if there is none.
        """
        if not isinstance(action_space, cls.action_spaces):
            raise ConfigError(f"{cls.title} cannot act in {action_space}. {advice(action_space)}")
        config = cls.config_class() if config is None else config
        return replace(config.plan(action_space), intrinsic=config.intrinsic)

    @property
    def gamma(self) -> float:
        return self.config.gamma

    @property
    def start_steps(self) -> int:
        return self.config.start_steps

    @property
    def num_epochs(self) -> int:
        return self.config.num_epochs

    @property
    def update_every(self) -> int:
        return self.config.update_every

    @property
    def num_mini_batch(self) -> int:
        return self.config.num_mini_batch

    @property
    def mini_batch_size(self) -> int:
        return self.config.mini_batch_size

    @property
    def test_every(self) -> int:
        return self.config.test_every

    @property
    def num_test_episodes(self) -> int:
        return self.config.num_test_episodes

    def acting_step(
        self, obs: Observation, rhs: Tensor, done: Tensor, deterministic: bool = False, *args: object
    ) -> ActingStep:
        rows = self.actor.rows_of(obs)
        action = None if rows is None else self._act_on_rows(rows, deterministic)
        other: dict[str, Tensor] = {}
        if action is not None:
            clipped_action = self.actor.to_env(action)
        else:
            with torch.no_grad():
                action, clipped_action, rhs, other = self.act(self.actor.to_tensors(obs), rhs, done, deterministic)
        if not deterministic:
            self.num_acted += action.shape[0]  # `len` of a tensor takes six times as long
        return action, clipped_action, rhs, other

    def act(self, obs: Observation, rhs: Tensor, done: Tensor, deterministic: bool) -> ActingStep:
        """`acting_step` as a function of tensors on the actor's device, which exports trace; nothing is counted."""
        actor = self.actor
        features, rhs = actor.encode(obs, rhs, done)
        mask = actor.action_mask(obs)
        if actor.noisy_parts:
            actor.reset_noise(None if deterministic else actor.generator)
        action, other = self._act(features, done, deterministic, *(() if mask is None else (mask,)))
        if actor.noisy_parts:
            actor.reset_noise(None)
        return action, actor.to_env(action), rhs, other

    def acting_through(self, actor: Actor) -> Self:
        """Return this algorithm as it is now, acting through other networks; chance and noise are the same ones."""
        other = copy(self)
        other.actor, other.policy, other.critics = actor, actor.policy, actor.critics
        return other

    @contextmanager
    def preserving_exploration(self) -> Iterator[None]:
        kept = self.actor.generator, self.num_acted
        self.actor.generator = self._other_generator
        try:
            yield
        finally:
            self.actor.generator, self.num_acted = kept

    def compute_gradients(self, batch: Batch, grads_to_cpu: bool = True, *args: object) -> tuple[Gradients, Info]:
        self.optimiser.zero_grad()
        with self.actor.learning(self.generator), products_in(self.config.precision, self.device):
            losses = self._learn_from(batch)
            told = {**losses.scalars, **self._learn_novelty(batch)}
        scalars = self._finite({**told, **self._clip_gradients()})
        self.num_computed += 1
        info: Info = {**scalars}
        if losses.errors is not None:
            info[keys.ERRORS] = losses.errors
        return take_gradients(self.optimiser.parameters, grads_to_cpu=grads_to_cpu), {keys.ALGORITHM: info}

    def apply_gradients(self, gradients: Gradients | None = None, *args: object) -> None:
        if gradients is not None:
            put_gradients(self.optimiser.parameters, gradients, self.device)
        self.optimiser.step(self.config, self._rate_share())
        self.num_updates += 1
        self._after_step()

    @property
    def intrinsic_weight(self) -> float:
        """Weight of intrinsic rewards beside the task's."""
        return self.config.intrinsic_weight

    @property
    def recomputes_intrinsic(self) -> bool:
        """Whether replayed steps get the intrinsic rewards of now."""
        return self.config.intrinsic is not None and self.config.recompute_intrinsic

    def intrinsic_reward(self, obs: Observation) -> Tensor | None:
        """Rewards `[rows, 1]` of having reached observations `[rows, ...]`; None if there are none."""
        return self.actor.intrinsic_reward(obs)

    def set_weights(self, actor_weights: Weights, *args: object) -> None:
        self.actor.load_state_dict(actor_weights)

    def update_algorithm_parameter(self, parameter_name: str, new_parameter_value: object, *args: object) -> None:
        known = self.config.docs()
        if parameter_name not in known:
            warnings.warn(
                f"{self.title} has no parameter {parameter_name!r}, nothing was changed; "
                f"{closest(parameter_name, known)}",
                RecollectWarning,
                stacklevel=2,
            )
            return
        self.config = self.config_with(parameter_name, new_parameter_value)
        self.changed_parameters[parameter_name] = new_parameter_value
        if parameter_name in (starts := self._multiplier_starts()):
            name, value = starts[parameter_name]
            self.multipliers[name].data.fill_(value)
        self._configure()

    def config_with(self, parameter_name: str, new_parameter_value: object) -> AlgorithmConfig:
        """Options with another value of one of them; refuses one that cannot be, or not while running."""
        change: dict[str, Any] = {parameter_name: new_parameter_value}
        config = replace(self.config, **change)
        if parameter_name in _FIXED or self.plan(self.actor.action_space, config) != self.actor.plan:
            raise ConfigError(
                f"{parameter_name} of {self.title} cannot change while it runs, got {new_parameter_value!r}: networks "
                "and optimiser are built from it; build a new agent"
            )
        return config

    def state(self) -> dict[str, Any]:
        """All that a checkpoint needs beside the actor: tensors and plain numbers by name."""
        counters = {name: getattr(self, name) for name in _COUNTERS}
        multipliers = {_MULTIPLIERS + name: value.detach().clone() for name, value in self.multipliers.items()}
        optimiser = {_OPTIMISER + name: value for name, value in self.optimiser.state().items()}
        return counters | multipliers | optimiser | {_GENERATOR: self.generator.get_state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from what `state` returned."""
        for name in _COUNTERS:
            setattr(self, name, as_count(state.get(name, 0)))
        with torch.no_grad():
            for name, value in self.multipliers.items():
                copy_fitting(name, value, state[_MULTIPLIERS + name])
        self.optimiser.load_state(
            {name.removeprefix(_OPTIMISER): value for name, value in state.items() if name.startswith(_OPTIMISER)}
        )
        self.generator.set_state(state[_GENERATOR])

    def _check_actor(self) -> None:
        """Refuse an actor that was built for another algorithm, or for other options of this one."""
        plan = self.plan(self.actor.action_space, self.config)
        if self.actor.plan != plan:
            raise ConfigError(
                f"{self.title} needs an actor of {plan}, got one of {self.actor.plan}; give this algorithm's factory "
                "to the actor's create_factory, or the class if all options that shape networks have their defaults"
            )
        if self.actor.is_masked and not self.masks_actions:
            raise ConfigError(
                f"{self.title} cannot leave out actions, and the environment masks them; use ddqn, ppo or "
                "sac-discrete, or an environment without action masks"
            )

    @abstractmethod
    def _groups(self) -> list[ParameterGroup]:
        """Parameters that are trained, and with what learning rates."""

    @abstractmethod
    def _act(
        self, features: Tensor, done: Tensor, deterministic: bool, mask: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions for features `[num_envs, F]` in the policy's units, and what the storage keeps beside them.

        An algorithm that `masks_actions` gets which are allowed, bool `[num_envs, num_actions]`, if not all are.
        """

    def _act_on_rows(self, rows: np.ndarray, deterministic: bool) -> Tensor | None:
        """What `_act` makes of features float32 `[num_envs, F]`, if a kernel can without tensors in between."""
        return None

    def _distribution(self, features: Tensor, mask: Tensor | None) -> Any:
        """What the policy says of the allowed actions, one distribution for each row of features."""
        policy = self.policy(features)
        return policy if mask is None else policy.masked(mask)

    @abstractmethod
    def _backward(self, batch: Batch) -> Losses:
        """Compute the losses of a batch and let their gradients flow into the parameters."""

    def _curiosity_group(self) -> list[ParameterGroup]:
        curiosity = self.actor.curiosity
        if curiosity is None:
            return []
        return [ParameterGroup("intrinsic", list(curiosity.predictor.parameters()), "intrinsic_lr")]

    def _learn_novelty(self, batch: Batch) -> dict[str, Tensor]:
        """Learn to predict what was reached, where that is rewarded; returns the loss by name."""
        if self.actor.curiosity is None:
            return {}
        obs = batch[keys.NEXT_OBS]
        if keys.MASK in batch:
            is_step = batch[keys.MASK].squeeze(-1).bool()  # [num_seq, length]
            obs = map_observation(lambda values: values[is_step], obs)
        novelty = self.actor.novelty(obs)
        assert novelty is not None
        loss = novelty.mean()
        backward(loss)
        return {"loss_intrinsic": loss}

    def _multiplier_starts(self) -> dict[str, tuple[str, float]]:
        """Options that say where multipliers begin, each with the multiplier's name and the value it gets."""
        return {}

    def _configure(self) -> None:
        """Rebuild what depends on the config; called first, and whenever an option changes."""

    def _rate_share(self) -> float:
        """Share of the learning rates that is in force now."""
        return 1.0

    def _after_step(self) -> None:
        """Called after an optimisation step, for example to update target networks."""

    def _clip_gradients(self) -> dict[str, Tensor | float]:
        if self.config.max_grad_norm is None:
            return {}
        norms = self.optimiser.clip_gradients(self.config.max_grad_norm)
        return {f"grad_norm_{name}": norm for name, norm in norms.items()}

    def _finite(self, scalars: Mapping[str, Tensor | float]) -> dict[str, float]:
        """Scalars as numbers, fetched from a device at once; refuses those that are not finite."""
        if self.device.type == _CPU:
            numbers = {name: each.item() if isinstance(each, Tensor) else each for name, each in scalars.items()}
        else:
            rows = [torch.as_tensor(scalar, device=self.device).detach() for scalar in scalars.values()]
            numbers = dict(zip(scalars, torch.stack(rows).tolist(), strict=True))
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise NotFiniteError(
                    f"{name} of {self.title} is {value} at update {self.num_updates}, expected a finite number; "
                    "check for extreme observations or rewards, lower the learning rate, or set max_grad_norm"
                )
        return numbers


def _generator_beside(acting: torch.Generator, number: int) -> torch.Generator:
    """Generator beside that of the actor, seeded from it, with numbers of its own."""
    seed = np.random.SeedSequence([acting.initial_seed(), number]).generate_state(1, np.uint64)[0]
    return torch.Generator(acting.device).manual_seed(int(seed >> np.uint64(1)))
