import math

import pytest
import torch
from torch.nn import functional

from recollect import keys
from tests.unit.agent.algorithms.off_policy.agents import Agent, make_agent, make_batch

LIMITS = {"epsilon": 0.2, "epsilon_mean": 0.05, "epsilon_std": 0.02}
FIRST = {"temperature": 0.7, "multiplier_mean": 2.0, "multiplier_std": 5.0}


def make_moved_agent() -> Agent:
    """An agent whose policy has left its target."""
    agent = make_agent("mpo", num_samples=7, max_grad_norm=None, **LIMITS, **FIRST)
    with torch.no_grad():
        for weight in agent.actor.policy_parameters():
            weight.mul_(1.3)
    return agent


def test_multipliers_begin_where_they_should() -> None:
    agent = make_agent("mpo", **FIRST)
    found = {name: functional.softplus(value).item() for name, value in agent.algo.multipliers.items()}
    assert found == pytest.approx({"temperature": 0.7, "mean": 2.0, "std": 5.0})


def test_multipliers_restart_where_a_changed_option_says() -> None:
    agent = make_agent("mpo")
    for option, value in FIRST.items():
        agent.algo.update_algorithm_parameter(option, value)
    found = {name: functional.softplus(value).item() for name, value in agent.algo.multipliers.items()}
    assert found == pytest.approx({"temperature": 0.7, "mean": 2.0, "std": 5.0})
    agent.algo.update_algorithm_parameter("gamma", 0.5)
    assert functional.softplus(agent.algo.multipliers["std"]).item() == pytest.approx(5.0)


def test_a_policy_that_left_its_bounds_is_pulled_back() -> None:
    agent = make_moved_agent()
    batch = make_batch(agent)
    kls = []
    agent.algo.update_algorithm_parameter("tau", 0.0)
    for _ in range(300):
        agent.algo.compute_gradients(batch)
        agent.algo.apply_gradients()
        _, info = agent.algo.compute_gradients(batch)
        kls.append(info[keys.ALGORITHM]["kl_mean"])
    assert math.isfinite(kls[-1])
    assert sum(kls[-50:]) / 50 < 2 * LIMITS["epsilon_mean"]


def test_actions_with_higher_values_become_likelier() -> None:
    rates = {"policy_lr": 1e-2, "critic_lr": 0.0, "multiplier_lr": 0.0, "tau": 0.1}
    agent = make_agent("mpo", **rates, temperature=0.02, multiplier_mean=0.01)
    batch = make_batch(agent)
    values = []
    for _ in range(100):
        assert agent.actor.policy is not None
        action = agent.actor.policy(batch[keys.NEXT_OBS]).mode()
        values.append(agent.actor.critics(batch[keys.NEXT_OBS], action).amin(0).mean().item())
        agent.algo.compute_gradients(batch)
        agent.algo.apply_gradients()
    assert values[-1] > values[0] + 0.01
