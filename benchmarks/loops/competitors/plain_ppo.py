"""Proximal policy optimisation in one file."""

import itertools
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor, nn

from benchmarks.loops import tasks
from benchmarks.loops.frames import make_env
from benchmarks.loops.tasks import Task
from benchmarks.loops.watch import Watch


class Agent(nn.Module):
    """A policy and a critic: apart for numbers, behind one CNN for frames."""

    def __init__(self, task: Task, obs_space: Any, action_space: Any) -> None:
        super().__init__()
        self.is_discrete = isinstance(action_space, gym.spaces.Discrete)
        num_outputs = int(action_space.n) if self.is_discrete else action_space.shape[0]
        self.body: nn.Module
        if task.has_frames:
            self.body = nn.Sequential(
                nn.Conv2d(4, 32, 8, stride=4),
                nn.ReLU(),
                nn.Conv2d(32, 64, 4, stride=2),
                nn.ReLU(),
                nn.Conv2d(64, 64, 3),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(3136, 512),
                nn.ReLU(),
            )
            self.policy: nn.Module = nn.Linear(512, num_outputs)
            self.critic: nn.Module = nn.Linear(512, 1)
        else:
            self.body = nn.Identity()
            self.policy = self._layers(obs_space.shape[0], task.hidden, num_outputs)
            self.critic = self._layers(obs_space.shape[0], task.hidden, 1)
        if not self.is_discrete:
            self.log_std = nn.Parameter(torch.zeros(num_outputs))

    def _layers(self, num_obs: int, hidden: tuple[int, ...], num_outputs: int) -> nn.Module:
        first, second = hidden
        return nn.Sequential(
            nn.Linear(num_obs, first), nn.Tanh(), nn.Linear(first, second), nn.Tanh(), nn.Linear(second, num_outputs)
        )

    def forward(self, obs: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Actions, drawn unless given, with log-probabilities, entropies and values."""
        features = self.body(obs / 255.0 if obs.dtype == torch.uint8 else obs)
        outputs = self.policy(features)
        chosen: Any
        if self.is_discrete:
            chosen = torch.distributions.Categorical(logits=outputs)
        else:
            normal = torch.distributions.Normal(outputs, self.log_std.exp().expand_as(outputs))
            chosen = torch.distributions.Independent(normal, 1)
        action = chosen.sample() if action is None else action
        return action, chosen.log_prob(action), chosen.entropy(), self.critic(features).squeeze(1)


def run(task: Task, watch: Watch) -> None:
    """Train until the watch stops it."""
    torch.manual_seed(tasks.SEED)
    rng = np.random.default_rng(tasks.SEED)
    envs = SyncVectorEnv([partial(make_env, task)] * task.num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    space = envs.single_action_space
    agent = Agent(task, envs.single_observation_space, space)
    optimiser = torch.optim.Adam(agent.parameters(), lr=task.learning_rate, eps=tasks.ADAM_EPSILON)
    length, num_envs = task.update_every, task.num_envs
    obs_dtype = torch.uint8 if task.has_frames else torch.float32
    all_obs = torch.zeros((length, num_envs, *(envs.single_observation_space.shape or ())), dtype=obs_dtype)
    action_dtype = torch.int64 if agent.is_discrete else torch.float32
    all_actions = torch.zeros((length, num_envs, *(space.shape or ())), dtype=action_dtype)
    log_probs, rewards, dones, values = (torch.zeros(length, num_envs) for _ in range(4))
    returns, advantages = torch.zeros(length, num_envs), torch.zeros(length, num_envs)

    def to_tensor(array: np.ndarray) -> Tensor:
        return torch.as_tensor(array, dtype=obs_dtype)

    def update() -> int:
        rows = length * num_envs
        obs, actions = all_obs.flatten(0, 1), all_actions.flatten(0, 1)
        old, goals, gains = log_probs.flatten(), returns.flatten(), advantages.flatten()
        for _ in range(task.num_epochs):
            order = torch.from_numpy(rng.permutation(rows))
            for start in range(0, rows, task.batch):
                chosen = order[start : start + task.batch]
                _, log_prob, entropy, value = agent(obs[chosen], actions[chosen])
                ratio = (log_prob - old[chosen]).exp()
                gain = gains[chosen]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                clipped = ratio.clamp(1 - tasks.CLIP, 1 + tasks.CLIP)
                policy_loss = -torch.min(gain * ratio, gain * clipped).mean()
                value_loss = (value - goals[chosen]).square().mean()
                loss = policy_loss + tasks.VALUE_WEIGHT * value_loss - 0.0 * entropy.mean()
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), tasks.ROLLOUT_GRAD_NORM)
                optimiser.step()
        return task.num_epochs * task.num_mini_batch

    watch.ready(update, sum(weight.numel() for weight in agent.parameters()))
    obs = to_tensor(envs.reset(seed=tasks.SEED)[0])
    for rollout in itertools.count(1):
        for t in range(length):
            with torch.no_grad():
                action, log_prob, _, value = agent(obs)
            all_obs[t], all_actions[t], log_probs[t], values[t] = obs, action, log_prob, value
            taken = action.numpy() if agent.is_discrete else action.clamp(-1, 1).numpy()
            next_obs, reward, terminated, truncated, infos = envs.step(taken)
            ended = terminated | truncated
            rewards[t], dones[t] = torch.as_tensor(reward), torch.as_tensor(ended)
            if truncated.any():
                last = to_tensor(np.stack(list(infos["final_obs"][truncated])))
                with torch.no_grad():
                    rewards[t, torch.from_numpy(truncated)] += task.gamma * agent(last)[3]
            obs = to_tensor(next_obs)
        with torch.no_grad():
            next_value = agent(obs)[3]
        gain = torch.zeros(num_envs)
        for t in reversed(range(length)):
            going = 1 - dones[t]
            delta = rewards[t] + task.gamma * going * next_value - values[t]
            gain = delta + task.gamma * tasks.GAE_LAMBDA * going * gain
            advantages[t], next_value = gain, values[t]
        torch.add(advantages, values, out=returns)
        update()
        watch.tick(rollout * length * num_envs)
