"""An environment that forbids actions: taking one that its mask leaves out is an error."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from recollect import keys

ACTION_SPACES: dict[str, gym.Space[Any]] = {
    "discrete": Discrete(4),
    "from-5": Discrete(4, start=5),
    "multi-discrete": MultiDiscrete([4, 2]),
    "multi-binary": MultiBinary(2),
}
# What is allowed in the four places, for each kind of action: an entry for each action of each choice.
MASKS: dict[str, list[list[int]]] = {
    "discrete": [[1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 1, 0], [1, 1, 0, 1]],
    "multi-discrete": [[1, 0, 0, 1, 1, 0], [0, 1, 1, 0, 1, 1], [0, 0, 1, 0, 0, 1], [1, 1, 0, 1, 1, 1]],
    "multi-binary": [[1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]],
}
MASKS["from-5"] = MASKS["discrete"]


class Gates(gym.Env[Any, Any]):
    """Goes round four places, each of which forbids other actions; episodes of five steps end in both ways in turn.

    Parameters
    ----------
    gives : {"info", "method", "observation"}
        Where the mask is: in the infos, told by a method, or in a dict observation.
    action : str
        Kind of actions.
    forgets, blocks, widens : int
        Step of the env after which a mask is missing, allows nothing, or has an entry too many; 0 for none.
    """

    def __init__(
        self, gives: str = "info", action: str = "discrete", forgets: int = 0, blocks: int = 0, widens: int = 0
    ) -> None:
        self.action_space = ACTION_SPACES[action]
        self._gives, self._action = gives, action
        self._forgets, self._blocks, self._widens = forgets, blocks, widens
        self._place = self._num_steps = self._num_episodes = 0
        place = Box(0.0, 1.0, (4,), np.float32)
        mask = MultiBinary(len(MASKS[action][0]))
        self.observation_space = Dict({"place": place, keys.ACTION_MASK: mask}) if gives == "observation" else place
        if gives == "method":
            self.action_masks = self._mask

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._num_episodes += 1
        self._steps_left = 5
        self._place = int(self.np_random.integers(4))
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not is_allowed(self._action, self._place, action):
            raise ValueError(f"{action} is not allowed in place {self._place}")
        self._num_steps += 1
        self._steps_left -= 1
        self._place = (self._place + 1) % 4
        is_over = self._steps_left == 0
        terminated = is_over and self._num_episodes % 2 == 0
        info = {} if terminated else self._info()  # nothing can be done after the end
        return self._observe(), float(np.sum(action) % 3), terminated, is_over and not terminated, info

    def _mask(self) -> np.ndarray:
        mask = np.array(MASKS[self._action][self._place], np.int8)
        if self._num_steps and self._num_steps == self._blocks:
            mask[:] = 0
        return np.append(mask, 1) if self._num_steps and self._num_steps == self._widens else mask

    def _info(self) -> dict[str, Any]:
        forgets = self._num_steps and self._num_steps == self._forgets
        return {keys.ACTION_MASK: self._mask()} if self._gives == "info" and not forgets else {}

    def _observe(self) -> Any:
        place = np.eye(4, dtype=np.float32)[self._place]
        return {"place": place, keys.ACTION_MASK: self._mask()} if self._gives == "observation" else place


def is_allowed(kind: str, place: int, action: Any) -> bool:
    """Whether an action, in the units of the space, may be taken in a place."""
    mask, space = MASKS[kind][place], ACTION_SPACES[kind]
    if isinstance(space, Discrete):
        return bool(mask[int(action) - int(space.start)])
    counts = space.nvec if isinstance(space, MultiDiscrete) else [2, 2]
    starts = np.cumsum([0, *counts[:-1]])
    return all(mask[start + number] for start, number in zip(starts, action, strict=True))
