"""Double Q-learning in one file."""

import copy
import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.loops import tasks
from benchmarks.loops.competitors.plain_replay import Replay
from benchmarks.loops.frames import make_env
from benchmarks.loops.tasks import Task
from benchmarks.loops.watch import Watch


class Scaled(nn.Module):
    """Bytes as floats from 0 to 1."""

    def forward(self, frames: Tensor) -> Tensor:
        return frames / 255.0


def make_network(task: Task, obs_space: Any, num_actions: int) -> nn.Module:
    """The Nature CNN, or two hidden layers."""
    if task.has_frames:
        return nn.Sequential(
            Scaled(),
            nn.Conv2d(4, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(3136, 512),
            nn.ReLU(),
            nn.Linear(512, num_actions),
        )
    first, second = task.hidden
    return nn.Sequential(
        nn.Linear(obs_space.shape[0], first),
        nn.ReLU(),
        nn.Linear(first, second),
        nn.ReLU(),
        nn.Linear(second, num_actions),
    )


def run(task: Task, watch: Watch) -> None:
    """Train until the watch stops it."""
    torch.manual_seed(tasks.SEED)
    rng = np.random.default_rng(tasks.SEED)
    env = make_env(task)
    space = env.action_space
    assert isinstance(space, gym.spaces.Discrete)
    network = make_network(task, env.observation_space, int(space.n))
    target = copy.deepcopy(network)
    optimiser = torch.optim.Adam(network.parameters(), lr=task.learning_rate)
    replay = Replay(task.buffer, env.observation_space, (1,), np.int64)
    updates = itertools.count(1)

    def update() -> int:
        batch = replay.sample(task.batch)
        with torch.no_grad():
            best = network(batch.next_obs).argmax(1, keepdim=True)
            next_value = target(batch.next_obs).gather(1, best).squeeze(1)
            goal = batch.reward + task.gamma * (1 - batch.terminated) * next_value
        value = network(batch.obs).gather(1, batch.action).squeeze(1)
        loss = functional.smooth_l1_loss(value, goal)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), tasks.MAX_GRAD_NORM)
        optimiser.step()
        if next(updates) % tasks.TARGET_EVERY == 0:
            target.load_state_dict(network.state_dict())
        return 1

    watch.ready(update, sum(weight.numel() for weight in network.parameters()))
    obs, _ = env.reset(seed=tasks.SEED)
    for step in itertools.count(1):
        if step <= task.start_steps or rng.random() < tasks.EPSILON:
            action = int(space.sample())
        else:
            with torch.no_grad():
                action = int(network(torch.from_numpy(obs).unsqueeze(0)).argmax())
        next_obs, reward, terminated, truncated, _ = env.step(action)
        replay.add(obs, action, reward, next_obs, terminated)
        obs = env.reset()[0] if terminated or truncated else next_obs
        if step % task.update_every == 0:
            if step > task.start_steps:
                update()
            watch.tick(step)
