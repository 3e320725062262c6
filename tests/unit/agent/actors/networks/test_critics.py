from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.critics import build_critics
from recollect.agent.actors.plan import ActorPlan
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
