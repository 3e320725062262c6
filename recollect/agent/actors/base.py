"""The actor: all networks of an agent, and how observations pass through them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import gymnasium as gym
import numpy as np
import torch
from torch import Generator, Tensor, nn

from recollect import keys
from recollect.agent.actors.actions import ChoiceActions, build_actions
from recollect.agent.actors.checkpoint import load_weights, save_weights
from recollect.agent.actors.config import ActorConfig, ActorOptions
from recollect.agent.actors.factory import ActorFactory, AlgorithmLike, CreatesActors, plan_of
from recollect.agent.actors.networks.body import Body
from recollect.agent.actors.networks.critics import build_critics
from recollect.agent.actors.networks.curiosity import RandomDistillation
from recollect.agent.actors.networks.heads import build_policy
from recollect.agent.actors.networks.mlp.layers import LearningPart, NoisyLinear
from recollect.agent.actors.networks.normalise import ObservationNormaliser, RewardNormaliser
from recollect.agent.actors.networks.target_networks import TargetNetworks, frozen_copy
from recollect.agent.actors.plan import ActorPlan
from recollect.agent.actors.running_statistics import RunningStatistics
from recollect.agent.actors.spaces import as_tensor, first_array, map_observation
from recollect.agent.masks import has_mask, visible_space, without_mask
from recollect.roles import Observation

NO_STATE: Final = torch.zeros(1, 1)
"""Hidden state and `done` where there are none: actors without memory ignore them."""

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# Modules that never read `training`. To switch all the others costs small networks more than a layer.
_WITHOUT_MODES: Final = ("recollect.", *(f"torch.nn.modules.{kind}" for kind in ("container", "conv", "linear")))


class Actor(RunningStatistics):
    """Base of the actors: a body, a policy, critics, and target networks.

    The body gives features, which heads turn into distributions and values:
    `actor.policy(features)` and `actor.critics(features)` or `actor.critics(features, action)`. For flat
    observations without memory it has no weights, and there is no `target_body`.

    Parameters
    ----------
    obs_space, action_space : gymnasium.Space
        Spaces of one environment.
    plan : ActorPlan
        What the algorithm needs.
    config : ActorConfig
        Sizes and kinds of the networks.
    """

    rescale_actions: ClassVar[bool]
    # What `create_factory` takes as keywords.
    config_class: ClassVar = ActorOptions

    policy: nn.Module | None
    target_body: Body | None
    target_policy: nn.Module | None
    target_critics: nn.Module | None

    def __init__(
        self, obs_space: gym.Space[Any], action_space: gym.Space[Any], plan: ActorPlan, config: ActorConfig
    ) -> None:
        super().__init__()
        self.obs_space = obs_space
        self.action_space = action_space
        self.plan = plan
        self.config = config
        self.is_masked = has_mask(obs_space, action_space)
        self.generator = Generator()
        self.actions = build_actions(action_space, rescale=self.rescale_actions)
        visible = visible_space(obs_space) if self.is_masked else obs_space
        self.normaliser = ObservationNormaliser(visible) if config.normalises else None
        self.reward_normaliser = RewardNormaliser() if config.normalise_rewards else None
        self.body = Body(visible, config)
        self._is_bare = self.body.is_bare and not self.is_masked
        self.policy = build_policy(plan, self.body.out_features, action_space, config, masks=self.is_masked)
        self.critics = build_critics(plan, self.body.out_features, action_space, config)
        self._initialise()
        self._add_targets()
        self.curiosity = RandomDistillation(visible) if plan.intrinsic == "rnd" else None
        self.eval()

    def _initialise(self) -> None:
        """Draw the first weights again, where those of the parts are not what is wanted."""

    def _add_targets(self) -> None:
        needs_body = self.plan.has_targets and any(True for _ in self.body.parameters())
        self.target_body = frozen_copy(self.body) if needs_body else None
        self.target_policy = frozen_copy(self.policy) if self.policy is not None and self.plan.target_policy else None
        self.target_critics = frozen_copy(self.critics) if self.plan.target_critics else None
        pairs = ((self.body, self.target_body), (self.policy, self.target_policy), (self.critics, self.target_critics))
        self._targets = TargetNetworks(pairs)
        self._learning_parts = [part for part in self.modules() if isinstance(part, LearningPart)]
        heads = [head for head in (self.policy, self.critics) if head is not None]
        self.noisy_parts = [part for head in heads for part in head.modules() if isinstance(part, NoisyLinear)]
        self._trained_networks = [network for network in (self.body, *heads) if _has_modes(network)]

    if TYPE_CHECKING:
        create_factory: ClassVar[CreatesActors]
    else:

        @classmethod
        def create_factory(
            cls, obs_space: gym.Space[Any], action_space: gym.Space[Any], algorithm: AlgorithmLike, **options: object
        ) -> ActorFactory:
            """Return a function that creates actors of this class, called with a device.

            Parameters
            ----------
            obs_space, action_space : gymnasium.Space
                Spaces of one environment.
            algorithm : AlgorithmFactory, type, str or ActorPlan
                The algorithm's factory, or its class or name if it has the default options; or its plan.
            **options
                Fields of `ActorOptions`: networks, `seed` and `restart_model`.
            """
            plan = plan_of(algorithm, action_space)
            return ActorFactory(cls, obs_space, action_space, plan, cls.config_class.of("actor", options))

    @contextmanager
    def learning(self, generator: Generator) -> Iterator[None]:
        """Let networks behave as in learning inside: with dropout, noise, shifts and the statistics of batches."""
        for part in self._learning_parts:
            part.begin(generator)
        for network in self._trained_networks:
            network.train()
        try:
            yield
        finally:
            for network in self._trained_networks:
                network.eval()
            for part in self._learning_parts:
                part.end()

    def reset_noise(self, generator: Generator | None) -> None:
        """Draw the noise of noisy layers, for a step that explores; None to act without it."""
        for part in self.noisy_parts:
            if generator is None:
                part.end()
            else:
                part.begin(generator)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.generator.device

    @property
    def is_recurrent(self) -> bool:
        """Whether the actor has a memory."""
        return self.config.memory is not None

    @property
    def recurrent_size(self) -> int:
        """Width of a hidden state; 1 without memory."""
        return 1 if self.body.memory is None else self.body.memory.state_size

    @property
    def sequence_overlap(self) -> int:
        """Burn-in: first steps of a sequence that only warm up the memory."""
        return self.config.sequence_overlap

    def place(self, device: torch.device | str) -> None:
        """Move the weights to a device, and make a generator there."""
        self.to(device)
        self.generator = Generator(torch.device(device))

    def seed(self, seed: int) -> None:
        """Seed what draws actions."""
        self.generator.manual_seed(seed)

    def actor_initial_states(self, obs: Observation) -> tuple[Observation, Tensor, Tensor]:
        """Return what acting begins with.

        Parameters
        ----------
        obs : array or (nested) dict of arrays
            First observations `[num_envs, …]`.

        Returns
        -------
        obs
            As given.
        rhs : Tensor
            Hidden states of zeros `[num_envs, recurrent_size]`.
        done : Tensor
            Ones `[num_envs, 1]`: an episode begins.
        """
        num_envs = len(first_array(obs))
        rhs = torch.zeros(num_envs, self.recurrent_size, device=self.device)
        return obs, rhs, torch.ones(num_envs, 1, device=self.device)

    def to_tensors(self, obs: Observation) -> Observation:
        """Put a (nested) observation on the actor's device, in its own dtypes."""
        device = self.device
        if type(obs) is np.ndarray or type(obs) is Tensor:
            return as_tensor(obs, device)
        return map_observation(lambda array: as_tensor(array, device), obs)

    def encode(self, obs: Observation, rhs: Tensor, done: Tensor, target: bool = False) -> tuple[Tensor, Tensor]:
        """Take one step.

        Parameters
        ----------
        obs : Tensor or (nested) dict of tensors
            Raw observations `[batch, …]`.
        rhs : Tensor
            Hidden states before the step `[batch, recurrent_size]`.
        done : Tensor
            1 where an episode begins with this step `[batch, 1]`.
        target : bool
            Whether the target body encodes, where there is one.

        Returns
        -------
        features : Tensor
            `[batch, num_features]`.
        rhs : Tensor
            Hidden states after the step; without memory, as given.
        """
        visible, body = self._normalise(obs), self._body(target)
        if body.passes_through(visible):
            return visible, rhs
        encoded: tuple[Tensor, Tensor] = body(visible, rhs, done)
        return encoded

    def rows_of(self, obs: Observation) -> np.ndarray | None:
        """Features float32 `[num_envs, F]`, where they are what came from environments; None elsewhere."""
        if type(obs) is not np.ndarray or obs.ndim != 2 or not self._is_bare or self.normaliser is not None:
            return None
        if obs.dtype == _SINGLE:
            return obs if obs.flags.carray else None
        return obs.astype(_SINGLE) if obs.dtype == _DOUBLE else None

    def unroll(self, obs: Observation, rhs: Tensor, done: Tensor, target: bool = False) -> tuple[Tensor, Tensor]:
        """Take all steps of sequences.

        Parameters
        ----------
        obs : Tensor or (nested) dict of tensors
            Raw observations `[num_seq, length, …]`.
        rhs : Tensor
            Hidden states before the first step `[num_seq, recurrent_size]`.
        done : Tensor
            1 where an episode begins `[num_seq, length, 1]`.
        target : bool
            Whether the target body encodes, where there is one.

        Returns
        -------
        features : Tensor
            `[num_seq, length, num_features]`.
        states : Tensor
            Hidden states after each step `[num_seq, length, recurrent_size]`.
        """
        return self._body(target).unroll(self._normalise(obs), rhs, done)

    def _body(self, target: bool) -> Body:
        return self.body if not target or self.target_body is None else self.target_body

    def visible(self, obs: Observation) -> Observation:
        """What networks see of observations `[rows, …]`, on the actor's device: not which actions are allowed."""
        return self.to_tensors(without_mask(obs) if self.is_masked else obs)

    def _normalise(self, obs: Observation) -> Observation:
        visible = without_mask(obs) if self.is_masked else obs
        return visible if self.normaliser is None else self.normaliser(visible)

    def action_mask(self, obs: Observation) -> Tensor | None:
        """Say which actions are allowed, where observations tell it: bool `[..., num_actions]`, None if all are.

        For MultiDiscrete and MultiBinary actions `[..., num_choices, max_actions]`.
        """
        if not self.is_masked:
            return None
        return cast(ChoiceActions, self.actions).read_mask(as_tensor(obs[keys.ACTION_MASK], self.device))

    def random_actions(self, num: int, obs: Observation = None) -> Tensor:
        """Draw actions without regard to the policy, in policy units `[num, action]`: those that `obs` allows."""
        return self.actions.draw(num, self.generator, None if obs is None else self.action_mask(obs))

    def to_env(self, action: Tensor) -> Tensor:
        """Turn actions in policy units into what the environment accepts."""
        return self.actions.to_env(action)

    def policy_parameters(self) -> list[nn.Parameter]:
        """Return the weights of the policy alone; none without a policy."""
        return [] if self.policy is None else list(self.policy.parameters())

    def critic_parameters(self) -> list[nn.Parameter]:
        """Return the weights of the critics and of the body that they share with the policy."""
        return list(chain(self.critics.parameters(), self.body.parameters()))

    def update_targets(self, tau: float) -> None:
        """Move every target network a share `tau` of the way to its trained one; 1 copies."""
        self._targets.update(tau)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all weights, with target networks and running means and variances, as safetensors."""
        save_weights(self, path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read weights that an actor of the same shape saved."""
        load_weights(self, path)


def _has_modes(network: nn.Module) -> bool:
    """Whether a network may behave differently where it learns. Ours, which do, have `begin` and `end` for it."""
    return any(not type(module).__module__.startswith(_WITHOUT_MODES) for module in network.modules())
