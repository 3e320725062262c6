"""Write your own algorithm: soft Q-learning in a few lines on top of DDQN.

An algorithm supplies its options and what differs, here the target. Storages (n-step, priorities, sequences),
memory, optimisers, checkpoints and the training loop stay as they are.
"""

import argparse
from dataclasses import dataclass

import torch
from torch import Tensor

import recollect as rc
from recollect.agent.algorithms.losses.targets import td_target
from recollect.agent.algorithms.off_policy.ddqn import DDQN, DDQNConfig
from recollect.agent.algorithms.transitions import Transitions
from recollect.options import number, option


@dataclass(frozen=True, kw_only=True)
class SoftQConfig(DDQNConfig):
    """Options of `SoftQ`."""

    temperature: float = option(0.1, "How soft the maximum over actions is.", number(0.0, above_low=True))


class SoftQ(DDQN):
    """Soft Q-learning (Haarnoja et al., 2017, https://arxiv.org/abs/1702.08165), for discrete actions."""

    config_class = SoftQConfig
    config: SoftQConfig
    title = "SoftQ"

    @torch.no_grad()
    def _target(self, steps: Transitions) -> Tensor:
        q_tp1 = self.target_critics(steps.next_features(target=True))[0]  # [rows, num_actions]
        heat = self.config.temperature
        v_tp1 = heat * torch.logsumexp(q_tp1 / heat, -1, keepdim=True)
        return td_target(steps.reward, steps.discount, v_tp1)


def main(steps: int = 15_000, seed: int = 1) -> float:
    envs, action_space, obs_space = rc.VecEnv.create_factory("CartPole-v1", vec_env_size=2, seed=seed)
    algorithm = SoftQ.create_factory(
        temperature=0.05,
        tau=0.01,
        update_every=4,
        num_mini_batch=4,
        mini_batch_size=64,
        epsilon_steps=5_000,
        test_every=0,
    )
    scheme = rc.Scheme(
        algorithm,
        rc.OffPolicyActor.create_factory(obs_space, action_space, algorithm, seed=seed, hidden_sizes=(128, 128)),
        rc.PERBuffer.create_factory(50_000, n_step=3, alpha=0.6, beta=0.4, epsilon=0.01, seed=seed),
        envs,
        envs,
    )
    learner = rc.Learner(scheme, target_steps=steps)
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
