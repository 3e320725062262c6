import pytest
import torch
from torch import Tensor

from recollect.errors import ConfigError
from tests.unit.agent.algorithms.off_policy.agents import make_agent


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
