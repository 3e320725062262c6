"""The learner's worker, which takes in what others collected."""

import torch

from recollect import keys
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
            assert torch.equal(ours, expected)
    collector.stop()
    assert learner.actor.normaliser.running.count == collector.num_steps < 360


def test_normalisers_see_the_steps_of_all_workers() -> None:
    envs, action_space, obs_space = VecEnv.create_factory("CartPole-v1", vec_env_size=2, seed=1)
    parts = (
        DDQN.create_factory(update_every=60),
        OffPolicyActor.create_factory(obs_space, action_space, DDQN, hidden_sizes=(4,), normalise_observations=True),
        ReplayBuffer.create_factory(1000),
    )
    learner = AgentWorker(0, 0, Factories(*parts, envs), device="cpu")
    inbox, weights, seen = Inbox(learner), pack_weights(learner.actor), []
    for index in range(2):
        worker = CWorker(index, 0, *parts, train_envs_factory=envs, device="cpu")
        inbox.insert(worker.collect_piece(weights, 1, 0), 1)
        seen.append(learner.storage.get_all_buffer_data(source=(0, index, 0))[keys.OBS].double().reshape(-1, 4))
        worker.stop()
    running, rows = learner.actor.normaliser.running, torch.cat(seen)
    assert running.count == len(rows)
    torch.testing.assert_close(running.mean, rows.mean(0))
    torch.testing.assert_close(running.variance, rows.var(0, unbiased=False))
