"""Use your own feature network, in an agent assembled from its parts.

The actor reads `out_features` from its feature extractor and feeds it raw observations; policy and critics share
it. Here it is a Fourier embedding, which helps with angles and positions.
"""

import argparse
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

import recollect as rc


class FourierFeatures(nn.Module):
    """Sines and cosines of random directions of the observation (Rahimi and Recht, 2007)."""

    waves: Tensor

    def __init__(self, obs_space: gym.Space[Any], num_waves: int = 32) -> None:
        super().__init__()
        assert obs_space.shape is not None
        self.register_buffer("waves", torch.randn(obs_space.shape[0], num_waves))
        self.mix = nn.Linear(2 * num_waves, 64)
        self.out_features = 64

    def forward(self, obs: Tensor) -> Tensor:
        phases = obs @ self.waves
        return torch.relu(self.mix(torch.cat([phases.sin(), phases.cos()], -1)))


def main(steps: int = 15_000, seed: int = 1) -> float:
    train_envs, action_space, obs_space = rc.VecEnv.create_factory("CartPole-v1", vec_env_size=2, seed=seed)
    test_envs, _, _ = rc.VecEnv.create_factory("CartPole-v1", vec_env_size=10, seed=seed)
    algo = rc.DDQN.create_factory(
        update_every=4, num_mini_batch=4, mini_batch_size=64, tau=0.01, epsilon_steps=5_000, test_every=0
    )
    actor = rc.OffPolicyActor.create_factory(
        obs_space, action_space, rc.DDQN, seed=seed, features=FourierFeatures, hidden_sizes=(64,), dueling=True
    )
    storage = rc.NStepReplayBuffer.create_factory(50_000, n_step=3, seed=seed)

    learner = rc.Learner(rc.Scheme(algo, actor, storage, train_envs, test_envs), target_steps=steps)
    while not learner.done():
        learner.step()
    evaluation = learner.evaluate(num_episodes=20)
    learner.stop()
    print(evaluation)
    return evaluation.mean


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=15_000)
    parser.add_argument("--seed", type=int, default=1)
    main(**vars(parser.parse_args()))
