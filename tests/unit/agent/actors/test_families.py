import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from recollect.agent.actors import OffPolicyActor
from recollect.errors import ConfigError
from tests.unit.agent.actors.actors import BOX, FLAT, SAC, make_actor


def test_off_policy_actors_act_in_policy_units() -> None:
    in_env = make_actor("sac").to_env(torch.tensor([[1.0, 1.0], [-1.0, -1.0]]))
    assert in_env.tolist() == [BOX.high.tolist(), BOX.low.tolist()]


def test_on_policy_actors_act_in_the_environments_units() -> None:
    in_env = make_actor("ppo-box").to_env(torch.tensor([[1.5, 7.0], [9.0, -9.0]]))
    assert in_env.tolist() == [[1.5, 7.0], [2.0, 0.0]]


def test_off_policy_actors_need_bounded_actions() -> None:
    factory = OffPolicyActor.create_factory(FLAT, Box(-np.inf, np.inf, (1,)), SAC)
    with pytest.raises(ConfigError, match="finite bounds"):
        factory("cpu")


def test_on_policy_weights_are_orthogonal_with_a_small_policy() -> None:
    actor = make_actor("ppo-discrete", feature_sizes=(8,))
    assert actor.policy is not None
    gains = {
        "policy": torch.linalg.svdvals(actor.policy.network.weights[-1][0]).max().item(),
        "critic": torch.linalg.svdvals(actor.critics.weights[-1][0]).max().item(),
        "body": torch.linalg.svdvals(actor.body.layers.weights[0][0]).max().item(),
    }
    assert gains == pytest.approx({"policy": 0.01, "critic": 1.0, "body": math.sqrt(2)}, rel=1e-4)


def test_a_first_on_policy_policy_prefers_no_action() -> None:
    actor = make_actor("ppo-discrete")
    assert actor.policy is not None
    entropy = actor.policy(torch.randn(20, 3)).entropy()
    torch.testing.assert_close(entropy, torch.full_like(entropy, math.log(4)), rtol=1e-3, atol=1e-3)


def test_on_policy_convolutions_are_orthogonal_too() -> None:
    actor = make_actor("ppo-discrete", Box(0, 255, (1, 36, 36), np.uint8))
    weight = actor.body.features.convolutions[0].weight.flatten(1)
    values = torch.linalg.svdvals(weight)
    torch.testing.assert_close(values, torch.full_like(values, math.sqrt(2)))
