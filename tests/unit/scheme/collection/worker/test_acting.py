"""Random steps at the beginning leave nothing out that later ones have."""

from typing import Any

import pytest
import torch

from recollect import keys
from recollect.agent.actors import OffPolicyActor
from recollect.agent.algorithms.off_policy.ddqn import DDQN
from recollect.agent.envs import VecEnv
from recollect.agent.storages import ReplayBuffer
from recollect.scheme.scheme import Scheme


class Curious(DDQN):
    """Finds everything a little interesting."""

    def _act(self, features: torch.Tensor, done: torch.Tensor, deterministic: bool) -> Any:
        action, other = super()._act(features, done, deterministic)
        return action, other if deterministic else other | {keys.IREWARD: features.abs().mean(-1, keepdim=True)}


def build(algorithm: type[DDQN], memory: str | None) -> Scheme:
    envs, action_space, obs_space = VecEnv.create_factory("CartPole-v1", vec_env_size=2, seed=1)
    return Scheme(
        algorithm.create_factory(
            start_steps=20, update_every=8, num_mini_batch=2, mini_batch_size=16, intrinsic_weight=0.0
        ),
        OffPolicyActor.create_factory(obs_space, action_space, algorithm, hidden_sizes=(8,), memory=memory),
        ReplayBuffer.create_factory(100, seed=1),
        envs,
        device="cpu",
    )


def train(scheme: Scheme) -> dict[str, Any]:
    for _ in range(4):
        scheme.update_worker.step()
    scheme.stop()
    return scheme.storage.get_all_buffer_data()


@pytest.mark.parametrize("memory", [None, "gru"])
def test_intrinsic_rewards_are_stored_from_the_first_step_on(memory: str | None) -> None:
    data = train(build(Curious, memory))
    assert (data[keys.IREWARD] > 0).all()
    if memory is None:
        torch.testing.assert_close(data[keys.IREWARD], data[keys.OBS].abs().mean(-1, keepdim=True))


def test_what_is_told_beside_actions_changes_none_of_them() -> None:
    assert torch.equal(train(build(Curious, None))[keys.ACTION], train(build(DDQN, None))[keys.ACTION])
