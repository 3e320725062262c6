"""What is timed: the training loops, with every number that all competitors share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

SEED: Final = 1
# Off-policy actor-critics.
TAU: Final = 0.005
POLICY_DELAY: Final = 2
ACTION_NOISE: Final = 0.1
TARGET_NOISE: Final = 0.2
TARGET_NOISE_LIMIT: Final = 0.5
# Q-learning.
EPSILON: Final = 0.1
MAX_GRAD_NORM: Final = 10.0
TARGET_EVERY: Final = 250
"""Updates between copies of the Q network into its target."""
# PPO.
CLIP: Final = 0.2
GAE_LAMBDA: Final = 0.95
VALUE_WEIGHT: Final = 0.5
ROLLOUT_GRAD_NORM: Final = 0.5
ADAM_EPSILON: Final = 1e-5

FRAMES: Final = "synthetic frames"
"""Env of the Atari-shaped tasks, see `frames.py`; all others are ids of Gymnasium."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A training loop: an algorithm, an env, and the sizes that set its cost.

    Attributes
    ----------
    hidden : tuple of int
        Hidden layers of the policy and of each critic; behind the Nature CNN, where there are frames, none.
    start_steps : int
        Random steps that fill the buffer before anything is timed; PPO has none.
    update_every : int
        Env steps of each update, off-policy; steps of every env in a rollout, on-policy.
    num_epochs, num_mini_batch : int
        Of a rollout.
    """

    key: str
    title: str
    algorithm: Literal["sac", "td3", "ddqn", "ppo"]
    env: str
    num_envs: int = 1
    hidden: tuple[int, ...] = (256, 256)
    activation: Literal["relu", "tanh"] = "relu"
    learning_rate: float = 3e-4
    gamma: float = 0.99
    batch: int = 256
    update_every: int = 1
    start_steps: int = 2_000
    buffer: int = 1_000_000
    num_epochs: int = 1
    num_mini_batch: int = 1

    @property
    def is_on_policy(self) -> bool:
        return self.algorithm == "ppo"

    @property
    def has_frames(self) -> bool:
        return self.env == FRAMES

    @property
    def group(self) -> str:
        """Algorithm, by which `--only` selects."""
        return self.algorithm


def _rollouts(key: str, title: str, env: str, num_envs: int, length: int, epochs: int, parts: int) -> Task:
    """PPO: `num_envs × length` steps, learned from `epochs` times in `parts` mini-batches."""
    return Task(
        key=key,
        title=title,
        algorithm="ppo",
        env=env,
        num_envs=num_envs,
        hidden=(64, 64),
        activation="tanh",
        update_every=length,
        batch=num_envs * length // parts,
        num_epochs=epochs,
        num_mini_batch=parts,
        start_steps=0,
    )


_CHEETAH: Final = "HalfCheetah-v5"
_POLE: Final = "CartPole-v1"

TASKS: Final[tuple[Task, ...]] = (
    Task(key="sac", title="SAC HalfCheetah-v5, batch 256, 2×256", algorithm="sac", env=_CHEETAH),
    Task(key="td3", title="TD3 HalfCheetah-v5, batch 256, 2×256", algorithm="td3", env=_CHEETAH),
    Task(
        key="ddqn-small",
        title="DDQN CartPole-v1, batch 64 every 4th step, 2×64",
        algorithm="ddqn",
        env=_POLE,
        hidden=(64, 64),
        batch=64,
        update_every=4,
    ),
    Task(
        key="ddqn-large",
        title="DDQN CartPole-v1, batch 256 every 4th step, 2×256",
        algorithm="ddqn",
        env=_POLE,
        update_every=4,
    ),
    _rollouts("ppo-cartpole", "PPO CartPole-v1, 8 envs × 128, 4 epochs of 4", _POLE, 8, 128, 4, 4),
    _rollouts("ppo-cheetah", "PPO HalfCheetah-v5, 1 env × 2,048, 10 epochs of 32", _CHEETAH, 1, 2_048, 10, 32),
    Task(
        key="ddqn-frames",
        title="DDQN 84×84×4 frames, Nature CNN, batch 32 every 4th step",
        algorithm="ddqn",
        env=FRAMES,
        hidden=(),
        batch=32,
        update_every=4,
        buffer=10_000,
    ),
    Task(
        key="ppo-frames",
        title="PPO 84×84×4 frames, Nature CNN, 8 envs × 64, 4 epochs of 4",
        algorithm="ppo",
        env=FRAMES,
        num_envs=8,
        hidden=(),
        update_every=64,
        batch=128,
        num_epochs=4,
        num_mini_batch=4,
        start_steps=0,
    ),
)


def find(key: str) -> Task:
    """Return the task of that name."""
    return next(task for task in TASKS if task.key == key)


def select(names: Sequence[str]) -> list[Task]:
    """Return the tasks that are named by key or by algorithm, in the order of the table."""
    return [task for task in TASKS if task.key in names or task.group in names]
