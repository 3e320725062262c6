from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from recollect.agent.envs.vectors.stacking import stacking_of

FLOATS = Box(-1.0, 1.0, (3,), np.float32)
PIXELS = Box(0, 255, (2, 2), np.uint8)


@pytest.mark.parametrize(
    ("space", "rows"),
    [
        (FLOATS, [np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)]),
        (FLOATS, [np.array([0.1, 0.2, 0.3]), [1, 2, 3]]),
        (FLOATS, [np.array([1, 2, 3], np.float32), np.array([0.1, 0.2, 0.3])]),
        (Discrete(5), [3, np.int64(4)]),
        (Dict({"pixels": PIXELS, "bits": MultiBinary(2)}), [{"pixels": np.eye(2, dtype=np.uint8), "bits": [0, 1]}] * 2),
    ],
    ids=["floats", "doubles", "mixed", "numbers", "parts"],
)
def test_rows_are_put_together_as_gymnasium_does(space: gym.Space[Any], rows: list[Any]) -> None:
    expected = gym.vector.utils.concatenate(space, rows, gym.vector.utils.create_empty_array(space, len(rows)))
    found = stacking_of(space)(rows)
    pairs = [(found[name], expected[name]) for name in found] if isinstance(found, dict) else [(found, expected)]
    for values, others in pairs:
        assert values.dtype == others.dtype
        assert (values == others).all()


def test_rows_are_copied() -> None:
    row = np.zeros(3, np.float32)
    stacked = stacking_of(FLOATS)([row])
    row[:] = 1
    assert not stacked.any()


@pytest.mark.parametrize("row", [np.zeros(1, np.float32), np.zeros((3, 1), np.float32), np.float32(0)])
def test_rows_of_another_shape_are_refused(row: Any) -> None:
    with pytest.raises(ValueError, match=r"shape|dimensionality"):
        stacking_of(FLOATS)([row])


def test_fractions_are_not_cut_off() -> None:
    with pytest.raises(TypeError, match="Cannot cast"):
        stacking_of(PIXELS)([np.full((2, 2), 0.5)])
