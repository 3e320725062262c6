"""TD3 in one file."""

import copy
import itertools

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


class Critic(nn.Module):
    """The value of an action."""

    def __init__(self, num_obs: int, num_actions: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.first = nn.Linear(num_obs + num_actions, hidden[0])
        self.second = nn.Linear(hidden[0], hidden[1])
        self.last = nn.Linear(hidden[1], 1)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        x = functional.relu(self.first(torch.cat([obs, action], 1)))
        x = functional.relu(self.second(x))
        values: Tensor = self.last(x)
        return values.squeeze(1)


class Actor(nn.Module):
    """One action in (-1, 1)."""

    def __init__(self, num_obs: int, num_actions: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.first = nn.Linear(num_obs, hidden[0])
        self.second = nn.Linear(hidden[0], hidden[1])
        self.last = nn.Linear(hidden[1], num_actions)

    def forward(self, obs: Tensor) -> Tensor:
        x = functional.relu(self.first(obs))
        x = functional.relu(self.second(x))
        return torch.tanh(self.last(x))


def run(task: Task, watch: Watch) -> None:
    """Train until the watch stops it."""
    torch.manual_seed(tasks.SEED)
    rng = np.random.default_rng(tasks.SEED)
    env = make_env(task)
    space = env.action_space
    assert isinstance(space, gym.spaces.Box)
    assert env.observation_space.shape is not None
    num_obs, num_actions = env.observation_space.shape[0], space.shape[0]
    actor = Actor(num_obs, num_actions, task.hidden)
    critics = [Critic(num_obs, num_actions, task.hidden) for _ in range(2)]
    trained = [actor, *critics]
    target_actor, *target_critics = targets = [copy.deepcopy(network) for network in trained]
    critic_parameters = list(itertools.chain(*(critic.parameters() for critic in critics)))
    critic_optimiser = torch.optim.Adam(critic_parameters, lr=task.learning_rate)
    actor_optimiser = torch.optim.Adam(actor.parameters(), lr=task.learning_rate)
    replay = Replay(task.buffer, env.observation_space, (num_actions,), np.float32)
    updates = itertools.count(1)

    def update() -> int:
        batch = replay.sample(task.batch)
        with torch.no_grad():
            noise = torch.randn_like(batch.action) * tasks.TARGET_NOISE
            noise = noise.clamp(-tasks.TARGET_NOISE_LIMIT, tasks.TARGET_NOISE_LIMIT)
            next_action = (target_actor(batch.next_obs) + noise).clamp(-1, 1)
            next_value = torch.min(*(target(batch.next_obs, next_action) for target in target_critics))
            goal = batch.reward + task.gamma * (1 - batch.terminated) * next_value
        values = [critic(batch.obs, batch.action) for critic in critics]
        critic_loss = sum((functional.mse_loss(value, goal) for value in values), torch.zeros(()))
        critic_optimiser.zero_grad()
        critic_loss.backward()
        critic_optimiser.step()
        if next(updates) % tasks.POLICY_DELAY == 0:
            actor_loss = -critics[0](batch.obs, actor(batch.obs)).mean()
            actor_optimiser.zero_grad()
            actor_loss.backward()
            actor_optimiser.step()
            with torch.no_grad():
                for network, target in zip(trained, targets, strict=True):
                    for weight, copied in zip(network.parameters(), target.parameters(), strict=True):
                        copied.lerp_(weight, tasks.TAU)
        return 1

    num_parameters = sum(weight.numel() for weight in (*critic_parameters, *actor.parameters()))
    watch.ready(update, num_parameters)
    obs, _ = env.reset(seed=tasks.SEED)
    for step in itertools.count(1):
        if step <= task.start_steps:
            action = space.sample()
        else:
            with torch.no_grad():
                action = actor(torch.from_numpy(obs).float().unsqueeze(0))[0].numpy()
            noise = rng.normal(0, tasks.ACTION_NOISE, num_actions)
            action = (action + noise).clip(-1, 1).astype(np.float32)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        replay.add(obs, action, reward, next_obs, terminated)
        obs = env.reset()[0] if terminated or truncated else next_obs
        if step > task.start_steps:
            update()
        watch.tick(step)
