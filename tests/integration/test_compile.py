"""Compiled updates are the updates that are not compiled, but for rounding."""

import pytest
import torch

from recollect.agent.algorithms.acceleration import compiled
from tests.unit.agent.algorithms.off_policy.agents import make_agent, make_batch

NUM_UPDATES = 4


def has_compiler() -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *args, **kwargs: None)
        return compiled(torch.relu, torch.device("cpu")) is not torch.relu


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
@pytest.mark.parametrize("name", ["ddqn", pytest.param("sac", marks=pytest.mark.long)])
def test_learning_is_the_same(name: str) -> None:
    plain, fast = make_agent(name), make_agent(name, compile=True)
    for seed in range(NUM_UPDATES):
        for agent in (plain, fast):
            agent.algo.compute_gradients(make_batch(agent, seed=seed))
            agent.algo.apply_gradients()
    for found, expected in zip(fast.actor.parameters(), plain.actor.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
