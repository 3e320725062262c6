from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import Tensor, nn

from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.critics import build_critics
from recollect.agent.actors.plan import ActorPlan
from recollect.agent.algorithms.off_policy.offline.iql import IQLConfig
from recollect.errors import ConfigError

FEATURES, ROWS = 3, 5
BOX = Box(-1, 1, (2,))
Q_VALUES = ActorPlan(None, "q_values", num_critics=2)
Q_ACTION = ActorPlan("deterministic", "q_action", num_critics=3)
VALUE = ActorPlan("gaussian", "value")


def _critics(plan: ActorPlan, space: Any, **options: Any) -> Any:
    return build_critics(plan, FEATURES, space, ActorConfig(**({"hidden_sizes": (8, 6)} | options)))


def test_shapes_of_values() -> None:
    features = torch.randn(ROWS, FEATURES)
    assert _critics(Q_VALUES, Discrete(4))(features).shape == (2, ROWS, 4)
    assert _critics(Q_ACTION, BOX)(features, torch.randn(ROWS, 2)).shape == (3, ROWS, 1)
    assert _critics(VALUE, BOX)(features).shape == (ROWS, 1)


def test_values_of_actions_depend_on_features_and_action() -> None:
    critics = _critics(Q_ACTION, BOX)
    features = torch.randn(ROWS, FEATURES, requires_grad=True)
    action = torch.randn(ROWS, 2, requires_grad=True)
    critics(features, action).sum().backward()
    assert features.grad is not None
    assert action.grad is not None
    assert features.grad.abs().sum() > 0
    assert action.grad.abs().sum() > 0


@pytest.mark.parametrize("hidden_sizes", [(), (8,), (8, 6), (8, 6, 4)])
def test_dueling_values_average_to_the_states_value(hidden_sizes: tuple[int, ...]) -> None:
    critics = _critics(Q_VALUES, Discrete(4), dueling=True, hidden_sizes=hidden_sizes)
    features = torch.randn(ROWS, FEATURES)
    hidden = features if critics.trunk is None else critics.trunk(features)
    values = critics(features)
    assert values.shape == (2, ROWS, 4)
    torch.testing.assert_close(values.mean(-1, keepdim=True), critics.value(hidden))
    advantage = critics.advantage(hidden)
    torch.testing.assert_close(values.diff(dim=-1), advantage.diff(dim=-1))


def test_value_and_advantages_split_at_the_last_hidden_layer() -> None:
    critics = _critics(Q_VALUES, Discrete(4), dueling=True, hidden_sizes=(8, 6))
    shapes = [[tuple(weight.shape[1:]) for weight in part.weights] for part in (critics.trunk, critics.value)]
    assert shapes == [[(3, 8)], [(8, 6), (6, 1)]]


def test_values_of_all_actions_need_a_finite_space() -> None:
    with pytest.raises(ConfigError, match="needs Discrete actions"):
        _critics(Q_VALUES, MultiDiscrete([2, 2]))


def test_dueling_needs_values_of_all_actions() -> None:
    with pytest.raises(ConfigError, match="dueling"):
        _critics(VALUE, BOX, dueling=True)


class Own(nn.Linear):
    """A critic head of a user, whose width is not asked for."""

    def __init__(self, num_features: int, space: Any, config: ActorConfig) -> None:
        super().__init__(num_features, 4)


class OwnOfActions(nn.Module):
    def __init__(self, num_features: int, space: Any, config: ActorConfig) -> None:
        super().__init__()
        self.layer = nn.Linear(num_features + 2, 1)

    def forward(self, features: Tensor, action: Tensor) -> Tensor:
        return self.layer(torch.cat([features, action], -1))  # type: ignore[no-any-return]


class OwnAtoms(Own):
    def forward(self, features: Tensor) -> Tensor:
        return super().forward(features).unsqueeze(-1).expand(-1, -1, 3)


def test_heads_of_ones_own_give_what_is_asked_for() -> None:
    features, action = torch.randn(ROWS, FEATURES), torch.randn(ROWS, 2)
    assert _critics(Q_VALUES, Discrete(4), critic_head=Own)(features).shape == (2, ROWS, 4)
    assert _critics(Q_ACTION, BOX, critic_head=OwnOfActions)(features, action).shape == (3, ROWS, 1)
    atoms = ActorPlan(None, "q_values", num_atoms=3)
    assert _critics(atoms, Discrete(4), critic_head=OwnAtoms)(features).shape == (1, ROWS, 4, 3)


@pytest.mark.parametrize(
    ("plan", "space", "head", "message"),
    [
        (Q_VALUES, Discrete(3), Own, r"give every action's value: expected \(2, 3\) of two rows, got \(2, 4\)"),
        (ActorPlan(None, "q_values", num_atoms=51), Discrete(4), Own, r"in 51 atoms: expected \(2, 4, 51\) of two"),
        (VALUE, BOX, Own, r"take features and give the state's value: expected \(2, 1\)"),
        (Q_ACTION, BOX, Own, "take features and action and give the given action's value: .*takes 2 positional"),
        (ActorPlan("gaussian", "q_action", num_atoms=5), BOX, OwnOfActions, r"in 5 atoms: expected \(2, 5\)"),
    ],
)
def test_heads_of_ones_own_that_give_something_else_are_refused(
    plan: ActorPlan, space: Any, head: type[nn.Module], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        _critics(plan, space, critic_head=head)


def test_iql_has_the_critics_of_ones_own_beside_its_value() -> None:
    critics = _critics(IQLConfig().plan(BOX), BOX, critic_head=OwnOfActions)
    assert isinstance(critics.critics.critics[0], OwnOfActions)
    features = torch.randn(ROWS, FEATURES)
    assert critics(features, torch.randn(ROWS, 2)).shape == (2, ROWS, 1)
    assert critics.state_value(features).shape == (ROWS, 1)
