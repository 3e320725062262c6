"""Train in your own environment: write it for Gymnasium, register it, and use its id like any other.

The task: an elevator with three buttons (down, wait, up) must reach the floor where somebody is waiting.
"""

import argparse
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

import recollect as rc


class Elevator(gym.Env[np.ndarray, np.int64]):
    """Ends when the floor is reached (terminated) or after 30 steps (by Gymnasium's time limit, truncated)."""

    def __init__(self, num_floors: int = 10) -> None:
        self.num_floors = num_floors
        self.observation_space = Box(0, 1, (2,), np.float32)
        self.action_space = Discrete(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.floor, self.goal = self.np_random.choice(self.num_floors, 2, replace=False)
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.floor = int(np.clip(self.floor + action - 1, 0, self.num_floors - 1))
        arrived = bool(self.floor == self.goal)
        return self._observe(), 1.0 if arrived else -0.1, arrived, False, {"is_success": arrived}

    def _observe(self) -> np.ndarray:
        return np.array([self.floor, self.goal], np.float32) / self.num_floors


gym.register("Elevator-v0", Elevator, max_episode_steps=30)  # type: ignore[arg-type]  # asks for **kwargs


def main(steps: int = 8_000, seed: int = 1) -> float:
    agent = rc.Agent(
        "ddqn",
        "Elevator-v0",
        num_envs=4,
        seed=seed,
        hidden_sizes=(64, 64),
        critic_lr=1e-3,
        tau=0.02,
        epsilon_steps=3_000,
        start_steps=500,
        update_every=4,
        num_mini_batch=2,
        mini_batch_size=64,
    )
    agent.learn(steps)
    evaluation = agent.evaluate(episodes=50)
    agent.close()
    print(f"{evaluation}; {np.mean(evaluation.lengths):.1f} steps on average")
    return evaluation.success_rate or 0.0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8_000)
    parser.add_argument("--seed", type=int, default=1)
    main(**vars(parser.parse_args()))
