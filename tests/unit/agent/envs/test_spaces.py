import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from recollect.agent.envs.spaces import ActionFormat
from recollect.errors import SchemaError


@pytest.mark.parametrize(
    ("space", "given", "shape", "dtype"),
    [
        (Discrete(3), torch.zeros(2, 1, dtype=torch.int64), (2,), "int64"),
        (Discrete(3), np.zeros(2, np.int32), (2,), "int64"),
        (MultiDiscrete([3, 2]), torch.zeros(2, 2, dtype=torch.int64), (2, 2), "int64"),
        (MultiBinary(3), torch.zeros(2, 3, dtype=torch.int64), (2, 3), "int8"),
        (MultiBinary([2, 2]), torch.zeros(2, 4, dtype=torch.int64), (2, 2, 2), "int8"),
        (Box(-1, 1, (2, 3)), torch.zeros(2, 6, requires_grad=True), (2, 2, 3), "float32"),
        (Box(-1, 1, (), np.float64), torch.zeros(2, 1), (2,), "float64"),
    ],
)
def test_actions_get_the_form_of_their_space(space: object, given: object, shape: tuple[int, ...], dtype: str) -> None:
    actions = ActionFormat(space, 2)(given)  # type: ignore[arg-type]
    assert (actions.shape, str(actions.dtype)) == (shape, dtype)
    assert actions[0] in space  # type: ignore[operator]


def test_actions_of_another_shape_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"must fit the shape \(2, 3\), got \(2, 4\)"):
        ActionFormat(Box(-1, 1, (3,)), 2)(torch.zeros(2, 4))


def test_whole_numbers_are_rounded_and_stay_within_their_bounds() -> None:
    small, large = Box(-2, 3, (6,), np.int32), Box(-(2**31), 2**31 - 1, (2,), np.int32)
    given = torch.tensor([[-2.4, -1.7, -0.4, 0.6, 1.2, 2.9]])
    assert ActionFormat(small, 1)(given).tolist() == [[-2, -2, 0, 1, 1, 3]]
    assert ActionFormat(large, 1)(torch.tensor([[-(2.0**31), 2.0**31]])).tolist() == [[-(2**31), 2**31 - 1]]


def test_bounds_that_float32_rounds_are_kept() -> None:
    space = Box(np.array([-1.1, 0.1]), np.array([-0.1, 0.3]), dtype=np.float64)
    for bound in (space.low, space.high):
        assert ActionFormat(space, 1)(torch.from_numpy(bound).float()[None])[0] in space
