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


WAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "as they come": lambda values: values,
    "tensors": torch.from_numpy,
    "other memory": lambda values: np.repeat(values, 2, -1)[..., ::2],
}


@pytest.mark.parametrize("ways", [["as they come"], ["tensors"], list(WAYS), list(reversed(WAYS))])
@pytest.mark.parametrize("size", [NUM_STEPS, 5])
def test_observations_and_actions_of_any_kind_are_stored(ways: list[str], size: int) -> None:
    memory = ReplayBuffer.standalone(size, num_envs=NUM_ENVS)
    steps = make_steps()
    for number, step in enumerate(steps):
        convert = WAYS[ways[number % len(ways)]]
        memory.add(**{name: values if name in OUTCOMES else convert(values) for name, values in step.items()})
    data = memory.get_all_buffer_data()
    for key, name in ((keys.OBS, "obs"), (keys.ACTION, "action"), (keys.NEXT_OBS, "next_obs")):
        np.testing.assert_array_equal(data[key], np.stack([step[name] for step in steps[-size:]]))
    ended = np.stack([step["terminated"] | step["truncated"] for step in steps])
    done = np.concatenate([np.ones((1, NUM_ENVS), bool), ended[:-1]])
    np.testing.assert_array_equal(data[keys.DONE][..., 0], done[-size:])


def test_a_step_of_another_form_is_refused_after_plain_ones() -> None:
    memory, steps = ReplayBuffer.standalone(NUM_STEPS, num_envs=NUM_ENVS), make_steps()
    for step in steps[:3]:
        memory.add(**step)
    with pytest.raises(SchemaError, match="Action: expected shape"):
        memory.add(**{**steps[3], "action": steps[3]["action"][:2]})
    with pytest.raises(SchemaError, match="Action: expected shape"):
        memory.add(**{**steps[3], "action": steps[3]["action"].astype(np.int32)})
    with pytest.raises(SchemaError, match="Observation: expected shape"):
        memory.add(**{**steps[3], "obs": steps[3]["obs"].astype(np.float64)})
    broken = steps[3]["next_obs"].copy()
    broken[1, 2] = np.nan
    with pytest.raises(SchemaError, match="NextObservation of env 1 is NaN"):
        memory.add(**{**steps[3], "next_obs": broken})
    assert memory.size == 3
    memory.add(**steps[3])
    np.testing.assert_array_equal(memory.get_all_buffer_data()[keys.OBS][3], steps[3]["obs"])


def test_adding_goes_on_where_the_storage_was_divided_again_or_its_source_left() -> None:
    memory, steps = ReplayBuffer.standalone(NUM_STEPS, num_envs=NUM_ENVS), make_steps()
    for number, step in enumerate(steps):
        if number == 3:
            memory.update_storage_parameter("max_size", 2 * NUM_STEPS)
        if number == 6:
            memory.release_source(0)
        memory.add(**step)
    np.testing.assert_array_equal(
        memory.get_all_buffer_data()[keys.OBS][-6:, 0], [step["obs"][0] for step in steps[6:]]
    )


class Noted(ReplayBuffer):
    """A storage of the user's own, which looks at every step."""

    def insert_transition(self, sample: Any) -> None:
        self.num_noted = getattr(self, "num_noted", 0) + 1
        super().insert_transition(sample)


def test_a_storage_that_inserts_in_its_own_way_does_so_for_every_step() -> None:
    memory = Noted.standalone(NUM_STEPS, num_envs=NUM_ENVS)
    for step in make_steps():
        memory.add(**step)
    assert memory.num_noted == NUM_STEPS


def test_steps_with_more_keys_are_not_taken_for_plain_ones() -> None:
    memory, step = ReplayBuffer.standalone(NUM_STEPS, num_envs=NUM_ENVS), make_steps()[0]
    flags = np.zeros((NUM_ENVS, 1), np.float32)
    sample = {keys.OBS: step["obs"], keys.ACTION: step["action"], keys.REWARD: flags, keys.NEXT_OBS: step["next_obs"]}
    memory.insert_transition(
        sample | {keys.DONE: flags, keys.NEXT_DONE: flags, keys.NEXT_TERMINATED: flags, keys.ACTION_PROBS: flags}
    )
    with pytest.raises(SchemaError, match="lacks"):
        memory.add(**step)
