import math

import pytest
import torch
from torch.distributions import Independent, Normal, kl_divergence
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


def test_losses_written_out() -> None:
    agent = make_moved_agent()
    actor, batch = agent.actor, make_batch(agent)
    assert actor.policy is not None
    assert actor.target_policy is not None
    assert actor.target_critics is not None
    agent.algo.generator.manual_seed(5)
    gradients, info = agent.algo.compute_gradients(batch)

    old, new = actor.target_policy(batch[keys.NEXT_OBS]), actor.policy(batch[keys.NEXT_OBS])
    noise = torch.empty(7, 6, 2).normal_(generator=torch.Generator().manual_seed(5))
    samples = old.mean + old.std * noise
    each = [actor.target_critics(batch[keys.NEXT_OBS], action.tanh()).min(0).values for action in samples]
    values = torch.stack(each).squeeze(-1)  # [num_samples, rows]
    target = batch[keys.REWARD] + batch[keys.DISCOUNT] * values.mean(0)[:, None]
    errors = target.detach() - actor.critics(batch[keys.OBS], batch[keys.ACTION])
    loss_q = (0.5 * errors.square()).mean(1).sum()

    weights = (values / 0.7).softmax(0)
    with_mean = Independent(Normal(new.mean, old.std), 1)
    with_std = Independent(Normal(old.mean, new.std), 1)
    fit = -(weights * (with_mean.log_prob(samples) + with_std.log_prob(samples))).sum(0).mean()
    first = Independent(Normal(old.mean, old.std), 1)
    kl_mean, kl_std = kl_divergence(first, with_mean).mean(), kl_divergence(first, with_std).mean()
    critic = torch.autograd.grad(loss_q, actor.critic_parameters())
    policy = torch.autograd.grad(fit + 2.0 * kl_mean + 5.0 * kl_std, actor.policy_parameters())
    torch.testing.assert_close(tuple(gradients[:-3]), (*critic, *policy), rtol=1e-4, atol=1e-5)
    assert info[keys.ALGORITHM]["loss_pi"] == pytest.approx(fit.item(), rel=1e-4)

    raw = [agent.algo.multipliers[name].detach().clone().requires_grad_() for name in ("temperature", "mean", "std")]
    temperature, mean, std = (functional.softplus(value) for value in raw)
    dual = temperature * (0.2 + (values / temperature).exp().mean(0).log()).mean()
    bounds = mean * (0.05 - kl_mean.detach()) + std * (0.02 - kl_std.detach())
    expected = torch.autograd.grad(dual + bounds, raw)
    found = dict(zip(agent.algo.multipliers.parameters(), gradients[-3:], strict=True))
    for name, gradient in zip(("temperature", "mean", "std"), expected, strict=True):
        torch.testing.assert_close(found[agent.algo.multipliers[name]], gradient, rtol=1e-4, atol=1e-5)


def test_multipliers_begin_where_they_should() -> None:
    agent = make_agent("mpo", **FIRST)
    found = {name: functional.softplus(value).item() for name, value in agent.algo.multipliers.items()}
    assert found == pytest.approx({"temperature": 0.7, "mean": 2.0, "std": 5.0})


def test_multipliers_begin_anew_where_a_changed_option_says() -> None:
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
