"""PQN: Q(lambda) targets from the definition, its loss, and what it tells of its exploration."""

import math
from typing import Any

import pytest
import torch
from gymnasium.spaces import Discrete

from recollect import keys
from recollect.agent.algorithms.losses.targets import epsilon_greedy_log_prob
from recollect.agent.algorithms.on_policy.pqn import PQN
from tests.unit.agent.algorithms.on_policy.agents import (
    FLAT,
    NUM_ENVS,
    Agent,
    batches_of,
    collect,
    draw_observations,
    make_agent,
    written_out,
)

BODIES: dict[str, dict[str, Any]] = {
    "layers": {"feature_sizes": (5,)},
    "memory": {"memory": "gru", "overlap": 2, "store_options": {"sequence_length": 5}},
}


def make_pqn(**options: Any) -> Agent:
    return make_agent(Discrete(3), algorithm=PQN, **{"max_grad_norm": None, "num_mini_batch": 1, **options})


def test_targets_are_q_lambda_returns_of_the_best_actions() -> None:
    gamma, trace = 0.9, 0.6
    agent = make_pqn(gamma=gamma, store_options={"gae_lambda": trace})
    samples = collect(agent)
    batch = next(batches_of(agent, shuffle=False))
    found = (batch[keys.VALUE] + batch[keys.ADVANTAGE]).view(NUM_ENVS, len(samples))
    for env in range(NUM_ENVS):
        target, is_cut = 0.0, True
        for step in reversed(range(len(samples))):
            sample = samples[step]
            ended, terminated = bool(sample[keys.NEXT_DONE][env]), bool(sample[keys.NEXT_TERMINATED][env])
            next_obs = torch.as_tensor(sample[keys.NEXT_OBS][env : env + 1])
            best = agent.actor.critics(agent.actor.body(next_obs, torch.zeros(1, 1), torch.zeros(1, 1))[0]).max().item()
            # After an end or the last step there is nothing to mix the best value with.
            after = best if ended or is_cut else trace * target + (1 - trace) * best
            target = float(sample[keys.REWARD][env, 0]) + (0.0 if terminated else gamma * after)
            is_cut = False
            assert found[env, step].item() == pytest.approx(target, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("storage", ["gae", "vtrace"])
def test_losses_and_gradients_are_those_of_the_definition(storage: str, body: str) -> None:
    agent = make_pqn(storage=storage, **BODIES[body])
    collect(agent)
    batch = next(batches_of(agent))
    features, rows = written_out(agent, batch)
    q_t = agent.actor.critics(features)[0].gather(1, rows[keys.ACTION])
    loss = ((q_t - (rows[keys.VALUE] + rows[keys.ADVANTAGE])) ** 2).mean() / 2
    wanted = torch.autograd.grad(loss, list(agent.actor.parameters()))
    _, info = agent.algo.compute_gradients(batch)
    torch.testing.assert_close([weight.grad for weight in agent.actor.parameters()], [*wanted], rtol=1e-4, atol=1e-5)
    assert info[keys.ALGORITHM]["loss_q"] == pytest.approx(loss.item(), rel=1e-4)


def test_log_probabilities_by_hand() -> None:
    q_t = torch.tensor([[1.0, 3.0, 2.0, 9.0]]).expand(3, -1)
    mask = torch.tensor([[True, True, True, False]]).expand(3, -1)
    action, greedy = torch.tensor([[1], [2], [1]]), torch.tensor([[1], [1], [1]])
    found = epsilon_greedy_log_prob(q_t, action, greedy, 0.3, mask).exp()
    torch.testing.assert_close(found, torch.tensor([[0.8], [0.1], [0.8]]))
    found = epsilon_greedy_log_prob(q_t, action, greedy, 0.4).exp()
    torch.testing.assert_close(found, torch.tensor([[0.7], [0.1], [0.7]]))
    assert math.isfinite(epsilon_greedy_log_prob(q_t, action, greedy, 0.0)[1].item())


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_acting_tells_the_best_value_and_how_likely_the_action_was(epsilon: float) -> None:
    agent = make_pqn(initial_epsilon=epsilon, final_epsilon=epsilon)
    obs, rhs, done = agent.actor.actor_initial_states(draw_observations(FLAT, 1)[0])
    for _ in range(20):
        action, _, _, other = agent.algo.acting_step(obs, rhs, done)
        q_t = agent.actor.critics(agent.actor.encode(agent.actor.to_tensors(obs), rhs, done)[0])[0]
        torch.testing.assert_close(other[keys.VALUE], q_t.max(-1, keepdim=True).values)
        chance = epsilon / 3 + (1 - epsilon) * (action == q_t.argmax(-1, keepdim=True)).float()
        torch.testing.assert_close(other[keys.LOG_PROB].exp(), chance)
    batch = {keys.OBS: agent.actor.to_tensors(obs), keys.ACTION: action}
    values, log_prob = agent.algo.evaluate_actions(batch)
    torch.testing.assert_close(values, other[keys.VALUE])
    torch.testing.assert_close(log_prob, other[keys.LOG_PROB])


def test_networks_have_layer_norms_and_no_targets() -> None:
    agent = make_pqn()
    assert agent.actor.plan.critic_layers.layer_norm
    assert agent.actor.target_critics is None
