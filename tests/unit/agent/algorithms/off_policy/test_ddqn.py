from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from recollect import keys
from recollect.agent.actors import OffPolicyActor
from recollect.agent.algorithms.off_policy.ddqn import DDQN
from tests.unit.agent.algorithms.off_policy.agents import Agent, make_agent, make_batch


def make_linear_agent(**options: object) -> Agent:
    """An agent whose action values are the observation, and those of its target network ten times its reverse."""
    agent = make_agent("ddqn", actor_options={"hidden_sizes": ()}, max_grad_norm=None, **options)
    set_values(agent.actor.critics, torch.eye(3))
    set_values(agent.actor.target_critics, 10.0 * torch.eye(3).flip(0))
    return agent


def set_values(critics: object, matrix: Tensor) -> None:
    critics.load_state_dict({"weights.0": matrix[None], "biases.0": torch.zeros(1, 1, 3)})  # type: ignore[attr-defined]


def make_row() -> dict[str, Tensor]:
    """Values are 0.1, 0.2, 0.3; next ones 0, 1, 3, and 30, 10, 0 by the target network."""
    return {
        keys.OBS: torch.tensor([[0.1, 0.2, 0.3]]),
        keys.NEXT_OBS: torch.tensor([[0.0, 1.0, 3.0]]),
        keys.ACTION: torch.tensor([[1]]),
        keys.REWARD: torch.tensor([[0.5]]),
        keys.DISCOUNT: torch.tensor([[0.9]]),
    }


def test_targets_are_double() -> None:
    agent, row = make_linear_agent(), make_row()
    row[keys.NEXT_OBS] = torch.tensor([[4.0, 5.0, 3.0]])
    # The online network prefers action 1 of 4, 5, 3; the target network gives it 50 of 30, 50, 40.
    _, info = agent.algo.compute_gradients(row)
    assert info[keys.ALGORITHM][keys.ERRORS].item() == pytest.approx(0.5 + 0.9 * 50 - 0.2)


def test_targets_take_the_value_of_the_other_network_and_not_its_best() -> None:
    agent = make_linear_agent()
    # The online network prefers action 2, to which the target network gives 0.
    _, info = agent.algo.compute_gradients(make_row())
    assert info[keys.ALGORITHM][keys.ERRORS].item() == pytest.approx(0.3)
    assert info[keys.ALGORITHM]["loss_q"] == pytest.approx(0.5 * 0.3**2)
    assert info[keys.ALGORITHM]["q"] == pytest.approx(0.2)


def test_only_the_value_of_the_action_that_was_taken_learns() -> None:
    agent = make_linear_agent()
    gradients, _ = agent.algo.compute_gradients(make_row())
    weight, bias = gradients[0].view(1, 4, 3).split([3, 1], 1)
    torch.testing.assert_close(bias[0, 0], torch.tensor([0.0, -0.3, 0.0]))
    torch.testing.assert_close(weight[0, :, 1], -0.3 * torch.tensor([0.1, 0.2, 0.3]))
    assert not weight[0, :, [0, 2]].any()


def test_errors_beyond_delta_count_linearly() -> None:
    agent = make_linear_agent(huber_delta=0.1)
    gradients, _ = agent.algo.compute_gradients(make_row())
    assert gradients[0].view(4, 3)[3, 1].item() == pytest.approx(-0.1)


def test_random_actions_become_fewer() -> None:
    agent = make_agent("ddqn", initial_epsilon=0.8, final_epsilon=0.2, epsilon_steps=1000)
    assert agent.algo.epsilon == 0.8
    obs, rhs, done = agent.actor.actor_initial_states(torch.zeros(250, 3))
    shares = []
    for _ in range(6):
        shares.append(agent.algo.epsilon)
        agent.algo.acting_step(obs, rhs, done)
    assert shares == pytest.approx([0.8, 0.65, 0.5, 0.35, 0.2, 0.2])


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_share_of_actions_that_are_not_the_best(epsilon: float) -> None:
    agent = make_linear_agent(initial_epsilon=epsilon, final_epsilon=epsilon)
    obs, rhs, done = agent.actor.actor_initial_states(torch.tensor([0.0, 1.0, 0.0]).repeat(30_000, 1))
    action, clipped, _, other = agent.algo.acting_step(obs, rhs, done)
    counts = torch.bincount(action[:, 0], minlength=3) / 30_000
    expected = [epsilon / 3, 1 - 2 * epsilon / 3, epsilon / 3]
    assert counts.tolist() == pytest.approx(expected, abs=0.02)
    assert torch.equal(action, clipped)
    assert other == {}


def test_envs_do_not_all_take_the_same_action() -> None:
    agent = make_agent("ddqn", initial_epsilon=0.0, final_epsilon=0.0)
    obs, rhs, done = agent.actor.actor_initial_states(
        10 * torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    )
    action, *_ = agent.algo.acting_step(obs, rhs, done)
    values = agent.actor.critics(obs)[0]
    assert torch.equal(action[:, 0], values.argmax(-1))
    assert len(action.unique()) > 1


def acted(agent: Agent, obs: Any, deterministic: bool) -> tuple[list[Any], int, list[int]]:
    """What some steps do: actions and what environments get, how many steps that is, and where chance stands."""
    agent.actor.generator.manual_seed(7)
    rhs, done = torch.zeros(len(obs), 1), torch.ones(len(obs), 1)
    steps = [agent.algo.acting_step(obs, rhs, done, deterministic) for _ in range(5)]
    chosen = [(action.tolist(), clipped.tolist(), other) for action, clipped, _, other in steps]
    return chosen, agent.algo.num_acted, agent.actor.generator.get_state().tolist()


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("network", [{}, {"hidden_sizes": ()}, {"dueling": True}, {"normalise_observations": True}])
def test_arrays_are_acted_on_as_tensors_are(network: dict[str, Any], epsilon: float, deterministic: bool) -> None:
    options = {"initial_epsilon": epsilon, "final_epsilon": epsilon, "actor_options": network}
    obs = np.random.default_rng(0).standard_normal((20, 3), np.float32)
    expected = acted(make_agent("ddqn", **options), torch.from_numpy(obs), deterministic)
    assert acted(make_agent("ddqn", **options), obs, deterministic) == expected
    for other in (np.asfortranarray(obs), frozen(obs)):
        assert acted(make_agent("ddqn", **options), other, deterministic) == expected


def frozen(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def test_actions_of_environments_begin_where_their_space_does() -> None:
    factory = DDQN.create_factory(initial_epsilon=0.0, final_epsilon=0.0)
    space = gym.spaces.Discrete(3, start=5)
    actor = OffPolicyActor.create_factory(gym.spaces.Box(-1.0, 1.0, (3,)), space, factory, seed=1)("cpu")
    algo = factory("cpu", actor, None)  # type: ignore[arg-type]
    obs = np.random.default_rng(0).standard_normal((9, 3), np.float32)
    action, clipped, _, _ = algo.acting_step(obs, torch.zeros(9, 1), torch.ones(9, 1))
    assert torch.equal(clipped, action + 5)


class Contrary(DDQN):
    """Takes what is worst."""

    def _mean(self, atoms: Tensor) -> Tensor:
        return -atoms


class Stubborn(DDQN):
    """Always does the same."""

    def _act(
        self, features: Tensor, done: Tensor, deterministic: bool, mask: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return torch.full((len(features), 1), 2), {}


@pytest.mark.parametrize("kind", [Contrary, Stubborn])
def test_algorithms_that_act_otherwise_do_so_on_arrays_too(kind: type[DDQN]) -> None:
    factory = kind.create_factory(initial_epsilon=0.0, final_epsilon=0.0)
    space, actions = gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Discrete(3)
    actor = OffPolicyActor.create_factory(space, actions, factory, seed=1)("cpu")
    algo = factory("cpu", actor, None)  # type: ignore[arg-type]
    obs = np.random.default_rng(0).standard_normal((50, 3), np.float32)
    rhs, done = torch.zeros(50, 1), torch.ones(50, 1)
    expected = algo.acting_step(torch.from_numpy(obs), rhs, done)[0]
    assert torch.equal(algo.acting_step(obs, rhs, done)[0], expected)


def test_dueling_networks_learn() -> None:
    agent = make_agent("ddqn", actor_options={"dueling": True})
    before = [weight.clone() for weight in agent.actor.critics.parameters()]
    agent.algo.compute_gradients(make_batch(agent))
    agent.algo.apply_gradients()
    assert all((weight != old).any() for weight, old in zip(agent.actor.critics.parameters(), before, strict=True))


def test_it_has_no_policy() -> None:
    agent = make_agent("ddqn")
    assert isinstance(agent.algo, DDQN)
    assert agent.actor.policy is None
