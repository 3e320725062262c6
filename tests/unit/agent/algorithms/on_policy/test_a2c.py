"""A2C: its loss from the definition, and the weights of steps of an older policy."""

from typing import Any

import pytest
import torch
from gymnasium.spaces import Discrete

from recollect import keys
from recollect.agent.algorithms.on_policy.a2c import A2C
from recollect.agent.algorithms.on_policy.surrogate import weighted_policy_gain
from tests.unit.agent.algorithms.on_policy.agents import Agent, batches_of, collect, make_agent, written_out

RATES: dict[str, Any] = {"entropy_weight": 0.1, "value_weight": 0.7, "max_grad_norm": None, "lr": 1e-2}
BODIES: dict[str, dict[str, Any]] = {
    "layers": {"feature_sizes": (5,)},
    "memory": {"memory": "gru", "overlap": 2, "store_options": {"sequence_length": 5}},
}


def make_a2c(**options: Any) -> Agent:
    return make_agent(Discrete(3), algorithm=A2C, **{**RATES, **options})


def test_gain_by_hand() -> None:
    log_prob = torch.tensor([[-1.0], [-1.0], [-2.0]], requires_grad=True)
    acted = torch.tensor([[-1.0], [-2.0], [-1.0]])
    gain = weighted_policy_gain(log_prob, acted, torch.tensor([[2.0], [3.0], [-4.0]]))
    # Weights are 1, min(1, e) and 1 / e.
    torch.testing.assert_close(gain, torch.tensor([[-2.0], [-3.0], [8.0 / 2.7182818]]))
    gain.sum().backward()
    torch.testing.assert_close(log_prob.grad, torch.tensor([[2.0], [3.0], [-4.0 / 2.7182818]]))


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("storage", ["gae", "vtrace"])
def test_losses_and_gradients_are_those_of_the_definition(storage: str, body: str, normalise: bool) -> None:
    agent = make_a2c(storage=storage, normalise_advantages=normalise, **BODIES[body])
    collect(agent)
    batch = next(batches_of(agent))
    # As if an older policy had acted, whose actions were more and less likely.
    batch[keys.LOG_PROB] = batch[keys.LOG_PROB] + torch.linspace(-0.5, 0.5, batch[keys.LOG_PROB].numel()).view_as(
        batch[keys.LOG_PROB]
    )
    features, rows = written_out(agent, batch)
    policy = torch.distributions.Categorical(logits=agent.actor.policy(features).logits)
    log_prob = policy.log_prob(rows[keys.ACTION][:, 0])
    advantage = rows[keys.ADVANTAGE][:, 0]
    if normalise:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    weight = (log_prob.detach() - rows[keys.LOG_PROB][:, 0]).exp().clip(max=1.0)
    assert 0 < (weight < 1.0).sum() < len(weight)
    loss_pi = -(weight * log_prob * advantage).mean()
    loss_v = ((agent.actor.critics(features) - rows[keys.RETURN]) ** 2).mean()
    loss = loss_pi + 0.7 * loss_v - 0.1 * policy.entropy().mean()
    wanted = torch.autograd.grad(loss, list(agent.actor.parameters()))
    _, info = agent.algo.compute_gradients(batch)
    torch.testing.assert_close([weight.grad for weight in agent.actor.parameters()], [*wanted], rtol=1e-4, atol=1e-5)
    assert info[keys.ALGORITHM]["loss_pi"] == pytest.approx(loss_pi.item(), rel=1e-4, abs=1e-6)
    assert info[keys.ALGORITHM]["loss_v"] == pytest.approx(loss_v.item(), rel=1e-4)


def test_one_update_follows_a_stage_of_five_steps() -> None:
    algo = make_agent(Discrete(3), algorithm=A2C, update_every=A2C.config_class().update_every).algo
    assert (algo.update_every, algo.num_mini_batch, algo.num_epochs, algo.mini_batch_size) == (5, 1, 1, 15)
    assert algo.config.optimiser == "rmsprop"


@pytest.mark.parametrize(("options", "epsilon"), [({}, 1e-5), ({"optimiser_kwargs": {"eps": 1e-3}}, 1e-3)])
def test_rmsprop_divides_by_what_the_paper_says(options: dict[str, Any], epsilon: float) -> None:
    """A first step is `lr * g / (sqrt(0.01 g²) + epsilon)`."""
    agent = make_a2c(**options)
    parameter = agent.algo.optimiser.parameters[0]
    before = parameter.detach().clone()
    agent.algo.optimiser.zero_grad()
    parameter.grad = torch.full_like(parameter, 1e-4)
    agent.algo.apply_gradients()
    step = RATES["lr"] * 1e-4 / (0.1 * 1e-4 + epsilon)
    torch.testing.assert_close(before - parameter, torch.full_like(parameter, step), rtol=1e-3, atol=1e-7)
