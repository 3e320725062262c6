"""The envs of the tasks, among them one with Atari's shapes and next to no emulation."""

from typing import Any, Final

import gymnasium as gym
import numpy as np

from benchmarks.loops.tasks import Task

NUM_FRAMES: Final = 64
EPISODE: Final = 250
NUM_ACTIONS: Final = 6
STACK: Final = 4


class SyntheticFrames(gym.Env[np.ndarray, np.int64]):
    """Shows noise frames in turn: the shapes of Atari, and hardly any time spent in the env."""

    observation_space = gym.spaces.Box(0, 255, (84, 84), np.uint8)
    action_space = gym.spaces.Discrete(NUM_ACTIONS)

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._frames = rng.integers(0, 256, (NUM_FRAMES, 84, 84), np.uint8)
        self._num_steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._num_steps = 0
        return self._frames[0], {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._num_steps += 1
        reward = float(action == self._num_steps % NUM_ACTIONS)
        return self._frames[self._num_steps % NUM_FRAMES], reward, self._num_steps == EPISODE, False, {}


def make_frames() -> gym.Env[Any, Any]:
    """Make the env of Atari's shapes: the last four frames `[4, 84, 84]`, stacked by Gymnasium's own wrapper."""
    return gym.wrappers.FrameStackObservation(SyntheticFrames(), STACK)


def make_env(task: Task) -> gym.Env[Any, Any]:
    """Make one env of a task."""
    return make_frames() if task.has_frames else gym.make(task.env)
