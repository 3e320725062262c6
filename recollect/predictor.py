"""`Predictor`: actions for one observation or a batch, in the environment's own forms."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import ArrayLike

from recollect import keys
from recollect.agent.actors.spaces import map_observation
from recollect.agent.envs.spaces import ActionFormat
from recollect.agent.masks import OBSERVATION, choice_starts, has_mask, num_allowed
from recollect.errors import SchemaError
from recollect.roles import Algorithm, Observation


class Predictor:
    """Acts with a trained actor, outside of any training.

    Parameters
    ----------
    algo : Algorithm
        Chooses the actions, with its actor.
    """

    def __init__(self, algo: Algorithm) -> None:
        self.algo = algo
        self._memory: tuple[torch.Tensor, torch.Tensor] | None = None

    def begin_episode(self) -> None:
        """Forget what was observed before; only a recurrent actor remembers anything."""
        self._memory = None

    def predict(self, obs: Observation, deterministic: bool = True, *, action_masks: ArrayLike | None = None) -> Any:
        """Choose an action for an observation, or actions for a batch, of those that `action_masks` allows."""
        arrays = _as_arrays(self._with_masks(obs, action_masks), self.algo.actor.obs_space)
        is_single = _is_single(arrays, self.algo.actor.obs_space)
        if is_single:
            arrays = map_observation(lambda array: array[None], arrays)
        self._check_masks(arrays)
        rhs, done = self._remembered(arrays)
        with self.algo.preserving_exploration():
            _, action, rhs, _ = self.algo.acting_step(arrays, rhs, done, deterministic)
        self._memory = rhs, torch.zeros_like(done)
        actions = ActionFormat(self.algo.actor.action_space, len(action))(action)
        if not is_single:
            return actions
        return actions[0].item() if isinstance(self.algo.actor.action_space, gym.spaces.Discrete) else actions[0]

    def _with_masks(self, obs: Observation, masks: ArrayLike | None) -> Observation:
        """Observations as the actor takes them: with masks, where it was trained with them."""
        if not has_mask(self.algo.actor.obs_space, self.algo.actor.action_space):
            if masks is not None:
                raise SchemaError("the agent's environment masks no actions, got action_masks; leave them out")
            return obs
        named = obs if isinstance(obs, Mapping) else {OBSERVATION: obs}
        masked = named if masks is None else {**named, keys.ACTION_MASK: masks}
        if keys.ACTION_MASK not in masked:
            raise SchemaError(
                "the agent's environment masks actions, and none were given; pass action_masks=, as the environment "
                f"gives them in info[{keys.ACTION_MASK!r}] or by its method action_masks()"
            )
        return masked

    def _check_masks(self, arrays: Observation) -> None:
        """Refuse masks that allow nothing."""
        action_space = self.algo.actor.action_space
        if has_mask(self.algo.actor.obs_space, action_space):
            masks = arrays[keys.ACTION_MASK]
            if not num_allowed(masks, choice_starts(action_space)).all():
                raise SchemaError(f"action_masks allow no action: {masks.tolist()}; 1 stands for allowed")

    def _remembered(self, arrays: Observation) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states and flags for this batch; those of the last one, if it had as many rows."""
        _, rhs, done = self.algo.actor.actor_initial_states(arrays)
        if self._memory is not None and len(self._memory[0]) == len(rhs):
            return self._memory
        return rhs, done


def _as_arrays(obs: Observation, space: gym.Space[Any]) -> Observation:
    if not isinstance(space, gym.spaces.Dict):
        try:
            array = np.asarray(obs.detach().cpu() if isinstance(obs, torch.Tensor) else obs, space.dtype)
        except (TypeError, ValueError) as error:
            raise SchemaError(f"an observation must be an array of {space.dtype}, got {obs!r}: {error}") from error
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise SchemaError(f"an observation is NaN: {array.tolist()}; check what the environment gives")
        return array
    if not isinstance(obs, Mapping) or not set(space) <= set(obs):
        found = sorted(obs) if isinstance(obs, Mapping) else type(obs).__name__
        raise SchemaError(f"an observation must be a dict with {sorted(space)}, got {found}")
    return {name: _as_arrays(obs[name], inner) for name, inner in space.items()}


def _is_single(arrays: Observation, space: gym.Space[Any], what: str = "an observation") -> bool:
    """Whether this is one observation and not a batch; refuses what is neither."""
    if isinstance(space, gym.spaces.Dict):
        kinds = {_is_single(arrays[name], inner, f"{name!r} of an observation") for name, inner in space.items()}
        if len(kinds) > 1:
            raise SchemaError("some entries of the observation are single and others are batches; give one kind")
        return kinds.pop()
    shape = space.shape or ()
    if arrays.shape == shape:
        return True
    if arrays.shape[1:] != shape or arrays.ndim == 0:
        raise SchemaError(f"{what} must have the shape {shape}, or [batch, *{shape}], got {arrays.shape}")
    return False
