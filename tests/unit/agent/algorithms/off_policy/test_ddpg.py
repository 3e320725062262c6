from typing import Any

import pytest
import torch
from torch import Tensor

from recollect import keys
from recollect.errors import ConfigError
from tests.unit.agent.algorithms.off_policy.agents import Agent, make_agent, make_batch


def expected_target(agent: Agent, batch: dict[str, Any]) -> Tensor:
    actor = agent.actor
    assert actor.target_policy is not None
    assert actor.target_critics is not None
    action = actor.target_policy(batch[keys.NEXT_OBS]).mode()
    return batch[keys.REWARD] + batch[keys.DISCOUNT] * actor.target_critics(batch[keys.NEXT_OBS], action)[0]


def move_targets(agent: Agent) -> None:
    with torch.no_grad():
        for name, weight in agent.actor.named_parameters():
            if name.startswith("target"):
                weight.mul_(1.5)


def test_losses_written_out() -> None:
    agent = make_agent("ddpg")
    move_targets(agent)
    actor, batch = agent.actor, make_batch(agent)
    assert actor.policy is not None
    gradients, info = agent.algo.compute_gradients(batch)
    values = actor.critics(batch[keys.OBS], batch[keys.ACTION])[0]
    target = expected_target(agent, batch).detach()
    loss_q = 0.5 * (target - values).square().mean()
    loss_pi = -actor.critics(batch[keys.OBS], actor.policy(batch[keys.OBS]).mode())[0].mean()
    critic = torch.autograd.grad(loss_q, actor.critic_parameters())
    policy = torch.autograd.grad(loss_pi, actor.policy_parameters())
    torch.testing.assert_close(tuple(gradients), (*critic, *policy))
    assert info[keys.ALGORITHM]["loss_q"] == pytest.approx(loss_q.item())
    assert info[keys.ALGORITHM]["loss_pi"] == pytest.approx(loss_pi.item())
    torch.testing.assert_close(info[keys.ALGORITHM][keys.ERRORS], (target - values).abs().detach())


@pytest.mark.parametrize(("noise", "std"), [("gaussian", 0.1), ("gaussian", 0.3), ("ou", 0.2)])
def test_noise_has_its_deviation(noise: str, std: float) -> None:
    agent = make_agent("ddpg", noise=noise, noise_std=std)
    obs, rhs, done = agent.actor.actor_initial_states(torch.zeros(3000, 3))
    action, *_ = agent.algo.acting_step(obs, rhs, done)
    mode, *_ = agent.algo.acting_step(obs, rhs, done, deterministic=True)
    assert (action - mode).std().item() == pytest.approx(std, rel=0.1)
    assert (action.abs() <= 1).all()


def test_drifting_noise_stays_until_an_episode_begins() -> None:
    agent = make_agent("ddpg", noise="ou", noise_std=0.2)
    obs, rhs, done = agent.actor.actor_initial_states(torch.zeros(500, 3))
    mode, *_ = agent.algo.acting_step(obs, rhs, done, deterministic=True)

    def act(begins: float) -> Tensor:
        return (agent.algo.acting_step(obs, rhs, torch.full((500, 1), begins))[0] - mode).flatten()

    first, second, third = act(1.0), act(0.0), act(1.0)
    assert torch.corrcoef(torch.stack([first, second]))[0, 1] > 0.4
    assert torch.corrcoef(torch.stack([second, third]))[0, 1].abs() < 0.2


def test_noise_can_be_changed_and_switched_off() -> None:
    agent = make_agent("ddpg")
    obs, rhs, done = agent.actor.actor_initial_states(torch.zeros(1000, 3))
    mode, *_ = agent.algo.acting_step(obs, rhs, done, deterministic=True)
    agent.algo.update_algorithm_parameter("noise_std", 0.02)
    assert (agent.algo.acting_step(obs, rhs, done)[0] - mode).std().item() == pytest.approx(0.02, rel=0.1)
    for silence in ("none", None):
        agent.algo.update_algorithm_parameter("noise", silence)
        assert torch.equal(agent.algo.acting_step(obs, rhs, done)[0], mode)


def test_unknown_noise_is_refused() -> None:
    with pytest.raises(ConfigError, match="noise must be one of 'none', 'gaussian', 'ou', got 'pink'"):
        make_agent("ddpg", noise="pink")
