import pytest
import torch
from torch import Tensor

from recollect import keys
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
