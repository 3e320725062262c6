"""`add` stores the same steps, whatever kind of array a training loop hands it."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from recollect import PERBuffer, ReplayBuffer, keys
from recollect.errors import SchemaError

NUM_ENVS, NUM_STEPS = 3, 12
Step = dict[str, np.ndarray]


def make_steps() -> list[Step]:
    """Steps as Gymnasium's vector environments hand them out: rewards float64, flags bool, each `[num_envs]`."""
    rng = np.random.default_rng(3)
    states = rng.standard_normal((2 * NUM_STEPS, NUM_ENVS, 4)).astype(np.float32)
    return [
        {
            "obs": states[2 * t],
            "action": rng.integers(2, size=NUM_ENVS),
            "reward": rng.standard_normal(NUM_ENVS),
            "next_obs": states[2 * t + 1],
            "terminated": rng.random(NUM_ENVS) < 0.3,
            "truncated": rng.random(NUM_ENVS) < 0.3,
        }
        for t in range(NUM_STEPS)
    ]


OUTCOMES = ("reward", "terminated", "truncated")
CONVERTERS: dict[str, Callable[[np.ndarray], Any]] = {
    "as they come": lambda values: values,
    "lists": lambda values: values.tolist(),
    "columns": lambda values: values[:, None],
    "tensors": torch.from_numpy,
    "float32": lambda values: values.astype(np.float32),
    "every other of twice as many": lambda values: np.repeat(values, 2)[::2],
    "other byte order": lambda values: values.astype(values.dtype.newbyteorder()),
}


def stored(steps: list[Step], convert: Callable[[np.ndarray], Any]) -> Any:
    memory = ReplayBuffer.standalone(NUM_STEPS, num_envs=NUM_ENVS)
    for step in steps:
        memory.add(**{name: convert(values) if name in OUTCOMES else values for name, values in step.items()})
    return memory.get_all_buffer_data()


@pytest.mark.parametrize("kind", CONVERTERS)
def test_outcomes_of_any_kind_are_stored_as_float32_columns(kind: str) -> None:
    steps = make_steps()
    data = stored(steps, CONVERTERS[kind])
    ended = np.stack([step["terminated"] | step["truncated"] for step in steps])
    expected = {
        keys.REWARD: np.stack([step["reward"] for step in steps]),
        keys.NEXT_TERMINATED: np.stack([step["terminated"] for step in steps]),
        keys.NEXT_DONE: ended,
        keys.DONE: np.concatenate([np.ones((1, NUM_ENVS)), ended[:-1]]),
    }
    for key, values in expected.items():
        np.testing.assert_array_equal(data[key], values.astype(np.float32)[..., None], key)


@pytest.mark.parametrize("kind", CONVERTERS)
def test_a_reward_beyond_float32_is_refused_without_a_warning_and_leaves_no_trace(kind: str) -> None:
    steps = make_steps()
    memories = [ReplayBuffer.standalone(NUM_STEPS, num_envs=NUM_ENVS) for _ in range(2)]
    with np.errstate(over="ignore"):
        too_large = CONVERTERS[kind](np.full(NUM_ENVS, 1e300))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number, step in enumerate(steps):
            if number == 4:
                bad = {"reward": too_large, "terminated": ~step["terminated"]}
                with pytest.raises(SchemaError, match="reward is NaN or infinite"):
                    memories[0].add(**(step | bad))
            for memory in memories:
                memory.add(**step)
    contents = [memory.get_all_buffer_data() for memory in memories]
    for key, values in contents[1].items():
        np.testing.assert_array_equal(contents[0][key], values, key)


def test_a_single_batch_is_the_first_of_many() -> None:
    batches = []
    for _ in range(2):
        memory = PERBuffer.standalone(NUM_STEPS, num_envs=NUM_ENVS, alpha=0.6, seed=1)
        for step in make_steps():
            memory.add(**step)
        batches.append(memory.sample(5) if batches else next(memory.generate_batches(1, 5)))
    for key, values in batches[0].items():
        np.testing.assert_array_equal(batches[1][key], values, key)
