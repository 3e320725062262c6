"""Use only the replay buffer: your own training loop, without any other part of the library.

Fills a prioritised buffer with random play of CartPole, then learns Q-values from it without acting at all.
"""

import argparse
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

import recollect as rc

NUM_ENVS = 8


def collect(memory: Any, num_steps: int, seed: int) -> None:
    """Store random play. `SAME_STEP` returns the true last observation of each episode."""
    same_step = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
    envs = gym.make_vec("CartPole-v1", NUM_ENVS, vectorization_mode="sync", vector_kwargs=same_step)
    envs.action_space.seed(seed)
    obs, _ = envs.reset(seed=seed)
    for _ in range(num_steps // NUM_ENVS):
        action = envs.action_space.sample()
        after, reward, terminated, truncated, infos = envs.step(action)
        next_obs, ended = after.copy(), terminated | truncated
        if ended.any():
            next_obs[ended] = np.stack(infos["final_obs"][ended])
        memory.add(obs, action, reward, next_obs, terminated, truncated)
        obs = after


def learn(memory: Any, num_updates: int) -> nn.Module:
    """Fitted Q-learning: `Discount` is the whole bootstrap, for any n and any kind of end."""
    q = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    slow = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    for update in range(num_updates):
        if update % 100 == 0:
            slow.load_state_dict(q.state_dict())
        batch = memory.sample(128)
        with torch.no_grad():
            best = slow(batch["NextObservation"]).amax(1, keepdim=True)
            target = batch["Reward"] + batch["Discount"] * best
        errors = target - q(batch["Observation"]).gather(1, batch["Action"].view(-1, 1))
        optimizer.zero_grad()
        (batch["per_weights"] * errors.square()).mean().backward()
        optimizer.step()
        memory.update_priorities(batch, errors.detach().abs())
    return q


def play(q: nn.Module, num_episodes: int = 20) -> float:
    """Mean return of acting greedily."""
    env, returns = gym.make("CartPole-v1"), []
    for episode in range(num_episodes):
        (obs, _), total, ended = env.reset(seed=100 + episode), 0.0, False
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(int(q(torch.as_tensor(obs)).argmax()))
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def main(steps: int = 10_000, seed: int = 1) -> float:
    torch.manual_seed(seed)
    memory = rc.PERBuffer.standalone(
        steps // NUM_ENVS, num_envs=NUM_ENVS, gamma=0.99, seed=seed, n_step=3, alpha=0.6, beta=0.4
    )
    collect(memory, steps, seed)
    score = play(learn(memory, num_updates=steps // 4))
    print(f"{len(memory):,} random steps stored; a policy learned from them alone: {score:.0f} (random play: about 22)")
    return score


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    main(**vars(parser.parse_args()))
