"""What Rainbow, DroQ, RLPD and the delayed policies are made of."""

import itertools

import pytest
import torch

from recollect import keys
from recollect.errors import ConfigError
from tests.unit.agent.algorithms.off_policy.agents import make_agent, make_batch


def test_rainbow_is_dueling_and_noisy_and_explores_by_noise_alone() -> None:
    agent = make_agent("rainbow", initial_epsilon=0.0, noisy_std=0.5)
    names = [type(part).__name__ for part in agent.actor.critics.modules()]
    assert names[0] == "DuelingCritics"
    assert "NoisyLinear" in names
    obs, rhs, done = agent.actor.actor_initial_states(torch.randn(50, 3, generator=torch.Generator().manual_seed(0)))
    assert agent.algo.epsilon == 0.0
    actions = [agent.algo.acting_step(obs, rhs, done)[0] for _ in range(10)]
    assert any(not torch.equal(actions[0], action) for action in actions)


def test_rainbows_target_has_noise_of_its_own_and_every_batch_has_another() -> None:
    agent = make_agent("rainbow", noisy_std=0.5)
    obs = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    generator, drawn = torch.Generator().manual_seed(1), []
    for _ in range(2):
        with agent.actor.learning(generator):
            online, target = agent.actor.critics, agent.actor.target_critics
            # The values that are trained and those that choose the action of a target share their noise.
            assert torch.equal(online(obs), online(obs))
            drawn += [online(obs), target(obs)]
    assert all(not torch.allclose(*pair) for pair in itertools.combinations(drawn, 2))
    torch.testing.assert_close(agent.actor.critics(obs), agent.actor.target_critics(obs))


def test_droq_has_norms_and_dropout_in_critics_and_their_targets_alone() -> None:
    agent = make_agent("droq", dropout=0.5)
    for network, share in ((agent.actor.critics, 1), (agent.actor.target_critics, 1), (agent.actor.policy, 0)):
        names = [type(part).__name__ for part in network.modules()]
        assert names.count("Dropout") == names.count("EnsembleNorm") == share
    features, action = torch.ones(4, 3), torch.ones(4, 2)
    with agent.actor.learning(torch.Generator().manual_seed(1)):
        first, second = (agent.actor.target_critics(features, action) for _ in range(2))
    assert not torch.equal(first, second)


def test_rlpd_has_norms_in_critics_and_their_targets_alone() -> None:
    agent = make_agent("rlpd")
    for network, num_norms in ((agent.actor.critics, 1), (agent.actor.target_critics, 1), (agent.actor.policy, 0)):
        names = [type(part).__name__ for part in network.modules()]
        assert (names.count("EnsembleNorm"), names.count("Dropout")) == (num_norms, 0)


@pytest.mark.parametrize("name", ["sac", "crossq", "redq"])
def test_policy_and_temperature_are_trained_once_in_so_many_updates(name: str) -> None:
    agent = make_agent(name, policy_delay=3)
    trained = []
    for seed in range(6):
        _, info = agent.algo.compute_gradients(make_batch(agent, seed=seed))
        trained.append({"loss_pi", "loss_temperature"} <= info[keys.ALGORITHM].keys())
        assert (agent.algo.multipliers["log_temperature"].grad is not None) is trained[-1]
        agent.algo.apply_gradients()
    assert trained == [False, False, True] * 2


@pytest.mark.parametrize(
    ("name", "options", "hint"),
    [
        ("tqc", {"num_dropped": 25}, "num_dropped"),
        ("tqc", {"num_target_critics": 1}, "all critics together"),
        ("tqc", {"num_quantiles": 1}, "num_quantiles"),
        ("sac", {"num_target_critics": 3}, "at most num_critics"),
        ("c51", {"lowest_return": 10.0}, "below highest_return"),
        ("rainbow", {"num_atoms": 1}, "num_atoms"),
    ],
)
def test_options_that_cannot_work_are_refused(name: str, options: dict[str, float], hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        make_agent(name, **options)
