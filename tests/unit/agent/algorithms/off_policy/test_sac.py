"""Both forms of soft actor-critic."""

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from recollect import OffPolicyActor, keys
from recollect.agent.algorithms.off_policy.sac import SAC
from tests.unit.agent.algorithms.off_policy.agents import make_agent, make_batch

each_form = pytest.mark.parametrize("name", ["sac", "sac-discrete"])


@each_form
def test_the_temperature_learns_towards_the_target_entropy(name: str) -> None:
    for target_entropy, rises in ((50.0, True), (-50.0, False)):
        agent = make_agent(name, temperature=0.3, target_entropy=target_entropy)
        assert agent.algo.temperature.item() == pytest.approx(0.3)
        agent.algo.compute_gradients(make_batch(agent))
        agent.algo.apply_gradients()
        assert (agent.algo.temperature.item() > 0.3) is rises


@each_form
def test_a_temperature_that_does_not_learn_stays(name: str) -> None:
    agent = make_agent(name, temperature=0.3, learn_temperature=False)
    for seed in range(3):
        gradients, info = agent.algo.compute_gradients(make_batch(agent, seed=seed))
        agent.algo.apply_gradients()
    assert gradients[-1] is None
    assert "loss_temperature" not in info[keys.ALGORITHM]
    assert agent.algo.temperature.item() == pytest.approx(0.3)


@pytest.mark.parametrize("learns", [False, True])
@each_form
def test_a_temperature_that_is_changed_takes_effect(name: str, learns: bool) -> None:
    agent = make_agent(name, temperature=0.3, learn_temperature=learns)
    agent.algo.update_algorithm_parameter("temperature", 0.01)
    _, info = agent.algo.compute_gradients(make_batch(agent))
    assert info[keys.ALGORITHM]["temperature"] == pytest.approx(0.01)
    agent.algo.update_algorithm_parameter("gamma", 0.5)
    assert agent.algo.temperature.item() == pytest.approx(0.01)


def test_target_entropies_fit_the_actions() -> None:
    assert make_agent("sac").algo.target_entropy == -2.0
    assert make_agent("sac", target_entropy=-0.5).algo.target_entropy == -0.5
    assert make_agent("sac-discrete").algo.target_entropy == pytest.approx(0.5 * math.log(3))
    assert make_agent("sac-discrete", entropy_share=0.9).algo.target_entropy == pytest.approx(0.9 * math.log(3))


def test_the_temperature_is_part_of_the_state() -> None:
    agent, other = make_agent("sac", temperature=0.3), make_agent("sac")
    other.algo.load_state(agent.algo.state())
    assert other.algo.temperature.item() == pytest.approx(0.3)


def test_noise_is_an_option() -> None:
    agents = {noise: make_agent("sac", noise=noise, noise_std=0.5) for noise in ("none", "ou")}
    actions = {}
    for noise, agent in agents.items():
        obs, rhs, done = agent.actor.actor_initial_states(torch.zeros(20, 3))
        actions[noise] = agent.algo.acting_step(obs, rhs, done)[0]
        assert (actions[noise].abs() <= 1).all()
    assert not torch.equal(actions["none"], actions["ou"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("noise", ["none", "gaussian"])
@pytest.mark.parametrize("network", [{}, {"feature_sizes": (4,)}, {"layer_norm": True}, {"memory": "gru"}])
def test_actions_on_arrays_are_those_on_tensors(
    dtype: type, deterministic: bool, noise: str, network: dict[str, object]
) -> None:
    obs = np.random.default_rng(0).standard_normal((20, 3)).astype(dtype)

    def acted(seen: object) -> list[Tensor]:
        agent = make_agent("sac", noise=noise, actor_options=network)
        rhs, done = agent.actor.actor_initial_states(obs)[1:]
        steps = [agent.algo.acting_step(seen, rhs, done, deterministic) for _ in range(3)]
        assert agent.algo.num_acted == (0 if deterministic else 3 * len(obs))
        return [tensor for action, clipped, *_ in steps for tensor in (action, clipped)]

    assert all(map(torch.equal, acted(obs), acted(torch.from_numpy(obs))))


class Stubborn(SAC):
    """Always does the same."""

    def _act(
        self, features: Tensor, done: Tensor, deterministic: bool, mask: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return torch.full((len(features), 1), 0.5), {}


def test_a_policy_of_ones_own_acts_on_arrays_too() -> None:
    factory = Stubborn.create_factory()
    space, actions = gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Box(-1.0, 1.0, (1,))
    actor = OffPolicyActor.create_factory(space, actions, factory, seed=1)("cpu")
    algo = factory("cpu", actor, None)  # type: ignore[arg-type]
    action, *_ = algo.acting_step(np.zeros((4, 3), np.float32), torch.zeros(4, 1), torch.ones(4, 1))
    assert action.tolist() == [[0.5]] * 4
