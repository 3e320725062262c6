"""The learner's worker, which takes in what others collected."""

import torch

from recollect.agent.actors import OffPolicyActor
from recollect.agent.algorithms.off_policy.ddqn import DDQN
from recollect.agent.envs import VecEnv
from recollect.agent.storages import ReplayBuffer
from recollect.scheme.collection.agent_worker import AgentWorker
from recollect.scheme.collection.c_worker import CWorker
from recollect.scheme.collection.collectors.inbox import Inbox
from recollect.scheme.collection.worker.components import Factories
from recollect.scheme.weights import pack_weights


def test_normalisers_of_the_learner_see_the_steps_of_a_worker_and_no_resets() -> None:
    envs, action_space, obs_space = VecEnv.create_factory("CartPole-v1", vec_env_size=2, kind="native", seed=1)
    options = {"hidden_sizes": (4,), "normalise_observations": True, "normalise_rewards": True}
    parts = (
        DDQN.create_factory(update_every=60),
        OffPolicyActor.create_factory(obs_space, action_space, DDQN, **options),
        ReplayBuffer.create_factory(100),
    )
    collector = CWorker(0, 0, *parts, train_envs_factory=envs, device="cpu")
    learner = AgentWorker(0, 0, Factories(*parts, envs), device="cpu")
    inbox, weights = Inbox(learner), pack_weights(collector.actor)
    for _ in range(3):
        new = collector.collect_piece(weights, 1, 0)
        for _ in range(2):  # what comes twice counts once
            inbox.insert(new, 1)
        for ours, expected in zip(learner.actor.buffers(), collector.actor.buffers(), strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    collector.stop()
    assert learner.actor.normaliser.running.count == collector.num_steps < 360
