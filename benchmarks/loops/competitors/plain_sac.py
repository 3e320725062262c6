"""Soft actor-critic in one file."""

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
    """A squashed Gaussian."""

    def __init__(self, num_obs: int, num_actions: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.first = nn.Linear(num_obs, hidden[0])
        self.second = nn.Linear(hidden[0], hidden[1])
        self.mean = nn.Linear(hidden[1], num_actions)
        self.log_std = nn.Linear(hidden[1], num_actions)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Actions in (-1, 1), and their log-probabilities."""
        x = functional.relu(self.first(obs))
        x = functional.relu(self.second(x))
        log_std = self.log_std(x).clamp(-20, 2)
        normal = torch.distributions.Normal(self.mean(x), log_std.exp())
        raw = normal.rsample()
        action = torch.tanh(raw)
        log_prob = normal.log_prob(raw) - torch.log(1 - action.square() + 1e-6)
        return action, log_prob.sum(1)


def run(task: Task, watch: Watch) -> None:
    """Train until the watch stops it."""
    torch.manual_seed(tasks.SEED)
    env = make_env(task)
    space = env.action_space
    assert isinstance(space, gym.spaces.Box)
    assert env.observation_space.shape is not None
    num_obs, num_actions = env.observation_space.shape[0], space.shape[0]
    actor = Actor(num_obs, num_actions, task.hidden)
    critics = [Critic(num_obs, num_actions, task.hidden) for _ in range(2)]
    targets = [Critic(num_obs, num_actions, task.hidden) for _ in range(2)]
    for critic, target in zip(critics, targets, strict=True):
        target.load_state_dict(critic.state_dict())
    log_alpha = torch.zeros(1, requires_grad=True)
    critic_parameters = list(itertools.chain(*(critic.parameters() for critic in critics)))
    critic_optimiser = torch.optim.Adam(critic_parameters, lr=task.learning_rate)
    actor_optimiser = torch.optim.Adam(actor.parameters(), lr=task.learning_rate)
    alpha_optimiser = torch.optim.Adam([log_alpha], lr=task.learning_rate)
    replay = Replay(task.buffer, env.observation_space, (num_actions,), np.float32)

    def update() -> int:
        batch = replay.sample(task.batch)
        alpha = log_alpha.detach().exp()
        with torch.no_grad():
            next_action, next_log_prob = actor(batch.next_obs)
            next_value = torch.min(*(target(batch.next_obs, next_action) for target in targets))
            next_value = next_value - alpha * next_log_prob
            goal = batch.reward + task.gamma * (1 - batch.terminated) * next_value
        values = [critic(batch.obs, batch.action) for critic in critics]
        critic_loss = sum((functional.mse_loss(value, goal) for value in values), torch.zeros(()))
        critic_optimiser.zero_grad()
        critic_loss.backward()
        critic_optimiser.step()

        action, log_prob = actor(batch.obs)
        value = torch.min(*(critic(batch.obs, action) for critic in critics))
        actor_loss = (alpha * log_prob - value).mean()
        actor_optimiser.zero_grad()
        actor_loss.backward()
        actor_optimiser.step()

        alpha_loss = (-log_alpha.exp() * (log_prob.detach() - num_actions)).mean()
        alpha_optimiser.zero_grad()
        alpha_loss.backward()
        alpha_optimiser.step()

        with torch.no_grad():
            for critic, target in zip(critics, targets, strict=True):
                for weight, copied in zip(critic.parameters(), target.parameters(), strict=True):
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
                action = actor(torch.from_numpy(obs).float().unsqueeze(0))[0][0].numpy()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        replay.add(obs, action, reward, next_obs, terminated)
        obs = env.reset()[0] if terminated or truncated else next_obs
        if step > task.start_steps:
            update()
        watch.tick(step)
