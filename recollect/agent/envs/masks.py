"""Envs that say which actions they allow: their masks are put into the observations, and checked."""

import warnings
from collections.abc import Mapping
from typing import Any, Final

import gymnasium as gym
import numpy as np

from recollect import keys
from recollect.agent.envs.step import Step
from recollect.agent.masks import (
    OBSERVATION,
    choice_counts,
    choice_starts,
    has_mask,
    mask_shape,
    names_mask,
    num_allowed,
)
from recollect.errors import ConfigError, EnvError, RecollectWarning, SchemaError
from recollect.roles import EnvFunction, Observation

# The method of sb3-contrib's convention.
_METHOD: Final = "action_masks"


class MaskedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Puts the mask that an env gives beside its observations into them.

    Parameters
    ----------
    build : callable
        Makes the env.
    index : int
        Which env it is, for messages.
    """

    def __init__(self, build: EnvFunction, index: int = 0) -> None:
        super().__init__(build())  # type: ignore[arg-type]  # makes single envs
        self._index = index
        self._num_steps = 0
        self._shape = mask_shape(self.action_space)
        self.observation_space = masked_space(self.env.observation_space, self.action_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        return self._with_mask(obs, self._read(info)), info

    def step(self, action: object) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._num_steps += 1
        # Nothing is chosen after an end, and many envs have no mask for it.
        mask = np.ones(self._shape, np.int8) if terminated else self._read(info)
        return self._with_mask(obs, mask), reward, terminated, truncated, info

    def _read(self, info: dict[str, Any]) -> np.ndarray:
        if keys.ACTION_MASK not in info and not self.env.has_wrapper_attr(_METHOD):
            raise SchemaError(
                f"env {self._index} gave no info[{keys.ACTION_MASK!r}] after {self._num_steps} of its steps, although "
                "it gave one at first; give it with every reset and step, but for the step that ends an episode"
            )
        given = info[keys.ACTION_MASK] if keys.ACTION_MASK in info else self.env.get_wrapper_attr(_METHOD)()
        mask = np.asarray(given).astype(np.bool_).astype(np.int8)
        if mask.shape != self._shape:
            raise SchemaError(
                f"env {self._index} gave an action mask of shape {mask.shape} after {self._num_steps} of its steps, "
                f"expected {self._shape} for {self.action_space}: an entry for each action, 1 where it is allowed"
            )
        return mask

    def _with_mask(self, obs: Observation, mask: np.ndarray) -> dict[str, Any]:
        return {**(obs if isinstance(obs, Mapping) else {OBSERVATION: obs}), keys.ACTION_MASK: mask}


def masked_space(obs_space: gym.Space[Any], action_space: gym.Space[Any]) -> gym.spaces.Dict:
    """Space of the observations of a `MaskedEnv`."""
    parts = dict(obs_space.spaces) if isinstance(obs_space, gym.spaces.Dict) else {OBSERVATION: obs_space}
    return gym.spaces.Dict(parts | {keys.ACTION_MASK: gym.spaces.MultiBinary(sum(choice_counts(action_space)))})


def gives_mask(env: gym.Env[Any, Any]) -> bool:
    """Whether an env gives masks beside its observations: by a method `action_masks`, or in the info of its resets."""
    if has_mask(env.observation_space, env.action_space):
        return False
    has_method = env.has_wrapper_attr(_METHOD)
    if not choice_counts(env.action_space):
        if has_method or names_mask(env.observation_space):
            warn_of_continuous(env.action_space)
        return False
    if has_method:
        return True
    try:
        _, info = env.reset(seed=0)
    except Exception:  # noqa: BLE001  # whatever an env raises is reported where it is used
        return False
    return keys.ACTION_MASK in info


def warn_of_continuous(action_space: gym.Space[Any]) -> None:
    """Say that masks of continuous actions have no effect."""
    warnings.warn(
        f"action masks are ignored, because the action space is {action_space}: only Discrete, MultiDiscrete and "
        "MultiBinary actions can be masked",
        RecollectWarning,
        stacklevel=2,
    )


def check_known(obs_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
    """Refuse masks in the infos of vector envs whose observations do not hold them."""
    if not choice_counts(action_space):
        warn_of_continuous(action_space)
    elif not has_mask(obs_space, action_space):
        raise ConfigError(
            f"an env gives info[{keys.ACTION_MASK!r}] that nobody would read: it gave none at first, or it is a vector "
            f"env of its own; put the mask into a dict observation, under the key {keys.ACTION_MASK!r}"
        )


class MaskCheck:
    """Refuses observations that allow no action, from all kinds of vector envs.

    Parameters
    ----------
    action_space : gymnasium.Space
        The action space of one env.
    """

    def __init__(self, action_space: gym.Space[Any]) -> None:
        self._starts = choice_starts(action_space)
        self._num_steps = 0

    def check_reset(self, obs: Observation) -> None:
        """Check what to act on after a reset."""
        self._check(obs, np.ones(len(obs[keys.ACTION_MASK]), np.bool_))

    def check_step(self, step: Step) -> None:
        """Check what to act on after a step, and where values are bootstrapped from: what did not terminate."""
        self._num_steps += 1
        continues = ~step.terminated[:, 0]
        self._check(step.next_obs, continues)
        if step.obs is not step.next_obs:
            self._check(step.obs, np.ones_like(continues))

    def _check(self, obs: Observation, rows: np.ndarray) -> None:
        bad = np.flatnonzero((num_allowed(obs[keys.ACTION_MASK], self._starts) == 0).any(1) & rows)
        if len(bad):
            env = int(bad[0])
            raise EnvError(
                f"env {env} allows no action after {self._num_steps} steps: its mask is "
                f"{obs[keys.ACTION_MASK][env].astype(int).tolist()}; an env where nothing can be done must end the "
                "episode, or allow an action that does nothing"
            )
