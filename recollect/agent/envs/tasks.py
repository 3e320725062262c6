"""Small test tasks: one needs hindsight, one needs memory, one needs deep exploration."""

from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from recollect import keys
from recollect.checks import check_count

BIT_FLIP_ID: Final = "recollect/BitFlip-v0"
RECALL_CUE_ID: Final = "recollect/RecallCue-v0"
ROOM_CHAIN_ID: Final = "recollect/RoomChain-v0"


class BitFlip(gym.Env[Any, np.int64]):
    """Turn `n` bits into the goal's, one flip each step (Andrychowicz et al., 2017, https://arxiv.org/abs/1707.01495).

    The reward is 0 when all bits are right, which ends the episode, and -1 otherwise; after `n` steps the
    episode is truncated. Chance finds hardly any of 2**n goals, so hindsight is needed.

    Parameters
    ----------
    n : int
        How many bits.
    """

    metadata = {"render_modes": []}
    state_attributes = ("_bits", "_goal", "_num_steps")

    def __init__(self, n: int = 8) -> None:
        self.n = check_count("n", n)
        bits = Box(0.0, 1.0, (self.n,), np.float32)
        self.observation_space = Dict({"observation": bits, keys.ACHIEVED_GOAL: bits, keys.DESIRED_GOAL: bits})
        self.action_space = Discrete(self.n)
        self._bits = np.zeros(self.n, np.float32)
        self._goal = np.zeros(self.n, np.float32)
        self._num_steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        super().reset(seed=seed)
        self._num_steps = 0
        self._bits, self._goal = self.np_random.integers(2, size=(2, self.n)).astype(np.float32)
        if (self._bits == self._goal).all():
            self._flip(int(self.np_random.integers(self.n)))
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        self._flip(int(action))
        self._num_steps += 1
        solved = bool(self.compute_terminated(self._bits, self._goal, {}))
        reward = float(self.compute_reward(self._bits, self._goal, {}))
        truncated = self._num_steps >= self.n and not solved
        return self._observe(), reward, solved, truncated, {keys.IS_SUCCESS: solved}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: object) -> np.ndarray:
        """Rewards of goals `[..., n]`: 0 where they are the same, otherwise -1."""
        return self.compute_terminated(achieved_goal, desired_goal, info).astype(np.float32) - np.float32(1)

    def compute_terminated(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: object) -> np.ndarray:
        """Whether goals `[..., n]` are the same."""
        same: np.ndarray = np.all(achieved_goal == desired_goal, axis=-1)
        return same

    def _flip(self, bit: int) -> None:
        self._bits[bit] = 1.0 - self._bits[bit]

    def _observe(self) -> dict[str, np.ndarray]:
        return {
            "observation": self._bits.copy(),
            keys.ACHIEVED_GOAL: self._bits.copy(),
            keys.DESIRED_GOAL: self._goal.copy(),
        }


class RecallCue(gym.Env[np.ndarray, np.int64]):
    """Repeat a cue that was shown `delay` steps ago.

    The first observation shows one of `num_cues` cues, those after it are blank, the last one asks. The
    action taken then earns 1 if it is the cue and 0 otherwise; other actions do nothing. Without memory
    there is nothing better than a guess.

    Parameters
    ----------
    delay : int
        Steps between cue and answer.
    num_cues : int
        How many cues there are.
    """

    metadata = {"render_modes": []}
    state_attributes = ("_cue", "_num_steps")

    def __init__(self, delay: int = 5, num_cues: int = 2) -> None:
        self.delay = check_count("delay", delay)
        self.num_cues = check_count("num_cues", num_cues)
        # One number for each cue, and a last one that is 1 when the answer is due.
        self.observation_space = Box(0.0, 1.0, (self.num_cues + 1,), np.float32)
        self.action_space = Discrete(self.num_cues)
        self._cue = 0
        self._num_steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._num_steps = 0
        self._cue = int(self.np_random.integers(self.num_cues))
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        is_answer = self._num_steps == self.delay
        is_right = is_answer and int(action) == self._cue
        self._num_steps += 1
        return self._observe(), float(is_right), is_answer, False, {keys.IS_SUCCESS: is_right}

    def _observe(self) -> np.ndarray:
        obs = np.zeros(self.num_cues + 1, np.float32)
        if self._num_steps == 0:
            obs[self._cue] = 1.0
        obs[-1] = self._num_steps == self.delay
        return obs


class RoomChain(gym.Env[np.int64, np.int64]):
    """Go through a chain of rooms: one of two doors leads on, the other one back, and only the last room pays.

    Which door leads on differs from room to room and is always the same. An episode has half as many steps again as
    there are rooms, so that wandering about does not get to the end: in 60 steps at most 10 may go wrong for 40 rooms.

    Parameters
    ----------
    num_rooms : int
        How many rooms there are to leave.
    """

    metadata = {"render_modes": []}
    state_attributes = ("_room", "_num_steps")

    def __init__(self, num_rooms: int = 40) -> None:
        self.num_rooms = check_count("num_rooms", num_rooms)
        self.observation_space = Discrete(self.num_rooms + 1)
        self.action_space = Discrete(2)
        self._doors = np.random.default_rng(0).integers(2, size=self.num_rooms)
        self._room = 0
        self._num_steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        super().reset(seed=seed)
        self._room = 0
        self._num_steps = 0
        return np.int64(self._room), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        is_right = int(action) == self._doors[self._room]
        self._room = self._room + 1 if is_right else max(0, self._room - 1)
        self._num_steps += 1
        is_out = self._room == self.num_rooms
        truncated = self._num_steps >= self.num_rooms + self.num_rooms // 2 and not is_out
        return np.int64(self._room), float(is_out), is_out, truncated, {keys.IS_SUCCESS: is_out}


def register_tasks() -> None:
    """Make the tasks known to Gymnasium by their ids."""
    for task_id, task in ((BIT_FLIP_ID, BitFlip), (RECALL_CUE_ID, RecallCue), (ROOM_CHAIN_ID, RoomChain)):
        if task_id not in gym.registry:
            gym.register(task_id, entry_point=f"{__name__}:{task.__name__}")
