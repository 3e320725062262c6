"""Drop-in replay buffers for CleanRL's scripts: replace the import and keep the rest.

Two lines of a script change. Its target, `data.rewards.flatten() + (1 - data.dones.flatten()) * args.gamma * value`,
becomes `data.rewards.flatten() + data.discounts.flatten() * value`; and with `PERBuffer` the loss is weighted by
`data.weights`, and `rb.update_priorities(data, errors)` follows it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import torch
from gymnasium import spaces

from recollect import keys
from recollect.adapters.layout import StepLayout, make_memory
from recollect.agent.storages.off_policy import ere_buffer, nstep_buffer, per_buffer, replay_buffer
from recollect.checks import check_count
from recollect.roles import Batch, Numbers, Observation

_TRUNCATED: Final = "TimeLimit.truncated"
# Where vector environments put last observations, and which envs have one: Gymnasium's names now and before.
_FINALS: Final = ((keys.FINAL_OBS, keys.HAS_FINAL_OBS), (keys.OLD_FINAL_OBS, keys.HAS_OLD_FINAL_OBS))


class ReplayBufferSamples(NamedTuple):
    """Tensors `[batch, ...]`; learn `rewards + discounts * value(next_observations)`.

    Attributes
    ----------
    dones : float32 [batch, 1]
        1 where the window ended in a termination.
    discounts : float32 [batch, 1]
        0 there, and gamma to the power of the window's steps elsewhere.
    weights : float32 [batch, 1]
        What to multiply the losses of rows with; ones where all steps are drawn alike.
    batch : dict
        The batch that the storage drew, with the ids of its rows.
    """

    observations: Any
    actions: torch.Tensor
    next_observations: Any
    dones: torch.Tensor
    rewards: torch.Tensor
    discounts: torch.Tensor
    weights: torch.Tensor
    batch: Batch


class ReplayBuffer:
    """Uniform replay as CleanRL's scripts make and use it.

    Parameters
    ----------
    buffer_size : int
        Transitions, over all environments together.
    observation_space, action_space : gymnasium.Space
        Those of one environment.
    device : torch.device or str
        Where batches are placed.
    n_envs : int
        Environments that are stepped together.
    optimize_memory_usage, handle_timeout_termination : bool
        Change nothing: observations are always stored once, and truncated episodes always bootstrap.
    gamma : float
        Discount factor of `discounts`: give the script's.
    seed : int, optional
        Seed of the draws; none to take one from NumPy's global generator, which the scripts seed.
    **options
        Those of the storage: `n_step`, `frame_stack`, `backing`, ...

    Examples
    --------
    >>> import gymnasium as gym
    >>> box, discrete = gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(2)
    >>> rb = ReplayBuffer(1000, box, discrete, "cpu", n_envs=2, gamma=0.99, n_step=3)
    """

    storage_class: ClassVar[type[replay_buffer.ReplayBuffer]] = nstep_buffer.NStepReplayBuffer

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "cpu",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        gamma: float = 0.99,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        self.n_envs = n_envs
        self.buffer_size = max(check_count("buffer_size", buffer_size) // n_envs, 1)
        self._layout = StepLayout(observation_space, action_space, n_envs)
        self._none = np.zeros(n_envs, np.bool_)
        given = {"size": self.buffer_size, **options}
        chosen = {**self._recommended(given), **options, "gamma": gamma, "device": device}
        self.memory = make_memory(self.storage_class, self.buffer_size, n_envs, seed, chosen)

    def add(
        self,
        obs: Observation,
        next_obs: Observation,
        action: Numbers,
        reward: Numbers,
        done: Numbers,
        infos: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    ) -> None:
        """Store one step of every env, `[n_envs, ...]`.

        `done` are terminations. `infos` tell where episodes were truncated, and what their last observations were.
        """
        step = self._layout
        next_obs, terminated, truncated = step.observations(next_obs), done, self._none
        if infos:  # which most steps have none of
            flags = np.asarray(done, np.bool_).reshape(self.n_envs)
            next_obs, terminated, truncated = self._with_ends(next_obs, flags, infos)
        self.memory.add(step.observations(obs), step.actions(action), reward, next_obs, terminated, truncated)

    def sample(self, batch_size: int) -> ReplayBufferSamples:
        """Draw a batch."""
        batch: Any = self.memory.sample(batch_size)
        rewards = batch[keys.REWARD]
        return ReplayBufferSamples(
            batch[keys.OBS],
            batch[keys.ACTION],
            batch[keys.NEXT_OBS],
            batch[keys.NEXT_TERMINATED],
            rewards,
            batch[keys.DISCOUNT],
            batch.get(keys.PER_WEIGHTS, torch.ones_like(rewards)),
            batch,
        )

    def update_priorities(self, data: ReplayBufferSamples, errors: Numbers) -> None:
        """Tell the storage the sizes of TD errors of a batch, `[batch]` or `[batch, 1]`."""
        self.memory.update_priorities(data.batch, errors)

    def size(self) -> int:
        """Steps stored of each env."""
        return self.memory.size

    def _with_ends(
        self, next_obs: Observation, terminated: np.ndarray, infos: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> tuple[Observation, np.ndarray, np.ndarray]:
        """Next observations with the true last ones in place, terminations and truncations, as infos tell them."""
        if isinstance(infos, Mapping):
            next_obs, ended = self._with_finals(next_obs, infos)
            return next_obs, terminated, ended & ~terminated
        truncated = np.array([bool(info.get(_TRUNCATED)) for info in infos])
        return next_obs, terminated & ~truncated, truncated

    def _with_finals(self, next_obs: Observation, infos: Mapping[str, Any]) -> tuple[Observation, np.ndarray]:
        """Next observations with the true last ones in place, and which envs have one."""
        for key, mask in _FINALS:
            if key in infos:
                ended = np.asarray(infos.get(mask, [final is not None for final in infos[key]]), np.bool_)
                return self._layout.replaced(next_obs, np.flatnonzero(ended), infos[key]), ended
        return next_obs, self._none

    def _recommended(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Values of options that were not given."""
        return {}


class PERBuffer(ReplayBuffer):
    """Prioritised replay; tell it TD errors with `update_priorities`."""

    storage_class = per_buffer.PERBuffer

    def _recommended(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return self.storage_class.config_class.recommended(given, self.n_envs)


class EREBuffer(PERBuffer):
    """Replay that emphasises recent experience."""

    storage_class = ere_buffer.EREBuffer
