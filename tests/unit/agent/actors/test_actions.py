from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Text
from torch import Generator

from recollect.agent.actors.actions import build_actions
from recollect.errors import ConfigError

BOX = Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))
NUM = 20_000


def test_policy_units_are_stretched_to_the_space() -> None:
    actions = build_actions(BOX, rescale=True)
    policy = torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [0.5, -0.5]])
    expected = torch.tensor([[-2.0, 0.0], [0.0, 5.0], [2.0, 10.0], [1.0, 2.5]])
    torch.testing.assert_close(actions.to_env(policy), expected)


@pytest.mark.parametrize("rescale", [True, False])
def test_no_action_leaves_the_space(rescale: bool) -> None:
    far = build_actions(BOX, rescale=rescale).to_env(torch.tensor([[-100.0, -100.0], [100.0, 100.0]]))
    assert far.tolist() == [[-2.0, 0.0], [2.0, 10.0]]


def test_without_stretching_units_are_the_environments() -> None:
    inside = torch.tensor([[-1.5, 7.0]])
    assert torch.equal(build_actions(BOX, rescale=False).to_env(inside), inside)


@pytest.mark.parametrize("rescale", [True, False])
def test_random_actions_fill_the_space(rescale: bool) -> None:
    actions = build_actions(BOX, rescale=rescale)
    drawn = actions.draw(NUM, Generator().manual_seed(0))
    in_env = actions.to_env(drawn)
    np.testing.assert_allclose(in_env.mean(0), [0.0, 5.0], atol=0.3)
    np.testing.assert_allclose(in_env.min(0).values, [-2.0, 0.0], atol=0.05)
    np.testing.assert_allclose(in_env.max(0).values, [2.0, 10.0], atol=0.05)
    assert drawn.abs().max() <= (1.0 if rescale else 10.0)


def test_random_actions_of_an_endless_space_are_normal() -> None:
    space = Box(np.array([-np.inf, 0.0], np.float32), np.array([np.inf, np.inf], np.float32))
    drawn = build_actions(space, rescale=False).draw(NUM, Generator().manual_seed(0))
    assert drawn[:, 0].std().item() == pytest.approx(1.0, abs=0.05)
    assert drawn[:, 1].min() == 0


@pytest.mark.parametrize("bound", [np.inf, np.finfo(np.float32).max])
def test_stretching_needs_bounds(bound: float) -> None:
    with pytest.raises(ConfigError, match=r"finite bounds.*TransformAction"):
        build_actions(Box(-bound, bound, (1,)), rescale=True)


def test_random_actions_within_bounds_without_a_width_are_normal() -> None:
    space = Box(np.finfo(np.float32).min, np.finfo(np.float32).max, (2,))
    drawn = build_actions(space, rescale=False).draw(NUM, Generator().manual_seed(0))
    assert drawn.std().item() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("rescale", [True, False])
def test_an_action_with_only_one_value_has_it(rescale: bool) -> None:
    actions = build_actions(Box(np.float32([-1, 3]), np.float32([1, 3])), rescale=rescale)
    drawn = actions.draw(NUM, Generator().manual_seed(0))
    assert drawn.isfinite().all()
    in_env = actions.to_env(drawn)
    assert (in_env[:, 1] == 3).all()
    assert in_env[:, 0].std().item() == pytest.approx(3**-0.5, abs=0.05)


@pytest.mark.parametrize(
    ("space", "low", "high"),
    [
        (Discrete(3), [0], [2]),
        (Discrete(3, start=5), [5], [7]),
        (MultiDiscrete([2, 4]), [0, 0], [1, 3]),
        (MultiDiscrete([[2, 4]], start=[[1, -1]]), [1, -1], [2, 2]),
        (MultiBinary(2), [0, 0], [1, 1]),
    ],
)
def test_random_choices_are_all_of_the_space(space: Any, low: list[int], high: list[int]) -> None:
    actions = build_actions(space, rescale=True)
    drawn = actions.draw(NUM, Generator().manual_seed(0))
    assert drawn.dtype == torch.int64
    assert drawn.min(0).values.tolist() == [0] * len(low)
    in_env = actions.to_env(drawn)
    assert (in_env.min(0).values.tolist(), in_env.max(0).values.tolist()) == (low, high)


def test_draws_come_from_the_given_generator() -> None:
    for space in (BOX, Discrete(100), MultiBinary(50)):
        actions = build_actions(space, rescale=True)
        first, second = (actions.draw(4, Generator().manual_seed(3)) for _ in range(2))
        assert torch.equal(first, second)


def test_an_unknown_space_is_refused() -> None:
    with pytest.raises(ConfigError, match="action space Text"):
        build_actions(Text(5), rescale=True)
