"""A DQN loop in one file, in the manner of CleanRL, around anybody's replay buffer.

Actions are drawn at random, though the network is asked for one at each step: so all buffers see the same episodes.
"""

import copy
from itertools import count
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

TRAIN_EVERY, COPY_EVERY = 10, 500
LEARNING_RATE = 2.5e-4
SEED = 1

Array = NDArray[Any]


class Transitions(NamedTuple):
    """What a network learns from."""

    obs: Tensor  # [batch, 4]
    action: Tensor  # int64 [batch, 1]
    reward: Tensor  # [batch, 1]
    next_obs: Tensor  # [batch, 4]
    discount: Tensor  # [batch, 1], 0 where the episode terminated
    weight: Tensor | None  # [batch, 1], with priorities


class Memory(Protocol):
    """What the loop asks of a replay buffer."""

    def add(
        self, obs: Array, action: Array, reward: Array, next_obs: Array, terminated: Array, truncated: Array
    ) -> None: ...

    def draw(self, batch_size: int) -> Any: ...

    def transitions(self, batch: Any) -> Transitions: ...

    def answer(self, batch: Any, errors: NDArray[np.float32]) -> None: ...


class CartPoleDQN:
    """Steps one environment; every tenth step learns from a batch."""

    def __init__(self, memory: Memory, batch_size: int) -> None:
        torch.manual_seed(SEED)
        self._memory, self._batch_size = memory, batch_size
        self._envs = gym.make_vec(
            "CartPole-v1",
            num_envs=1,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
        )
        self._obs, _ = self._envs.reset(seed=SEED)
        self._network = nn.Sequential(nn.Linear(4, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 2))
        self._target = copy.deepcopy(self._network)
        self._optimiser = torch.optim.Adam(self._network.parameters(), lr=LEARNING_RATE)
        self._rng = np.random.default_rng(SEED)
        self._steps = count(1)

    def step(self) -> None:
        """Act, store, and learn when it is time."""
        with torch.no_grad():
            self._network(torch.from_numpy(self._obs)).argmax(1).numpy()
        action = self._rng.integers(2, size=1)
        after, reward, terminated, truncated, infos = self._envs.step(action)
        next_obs = after
        if terminated[0] or truncated[0]:
            next_obs = np.stack(infos["final_obs"])
        self._memory.add(self._obs, action, reward, next_obs, terminated, truncated)
        self._obs = after
        step = next(self._steps)
        if step % TRAIN_EVERY == 0:
            self._learn()
        if step % COPY_EVERY == 0:
            self._target.load_state_dict(self._network.state_dict())

    def _learn(self) -> None:
        batch = self._memory.draw(self._batch_size)
        rows = self._memory.transitions(batch)
        with torch.no_grad():
            goal = rows.reward + rows.discount * self._target(rows.next_obs).amax(1, keepdim=True)
        errors = goal - self._network(rows.obs).gather(1, rows.action)
        squares = errors.square()
        loss = squares.mean() if rows.weight is None else (rows.weight * squares).mean()
        self._optimiser.zero_grad()
        loss.backward()
        self._optimiser.step()
        if rows.weight is not None:
            self._memory.answer(batch, errors.detach().abs().squeeze(1).numpy())
