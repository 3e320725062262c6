"""Where the fields of a step lie, and which samples cannot be stored at all."""

from typing import Any

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import HERBuffer, NStepReplayBuffer, ReplayBuffer
from recollect.agent.storages.experience.kernels.ring_layout import ID_MASK, R_FIXED, R_FIXED_STACKED
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.schema.planning import plan_schema
from recollect.agent.storages.experience.store.schema.schema import KeyPath, Schema
from recollect.errors import ConfigError, SchemaError
from tests.samples import Sample, make_slice, numbers_of, reward_if_reached, with_goals

Observation = Any


def sample_of(obs: Observation, action: np.ndarray | None = None, **extras: np.ndarray) -> Sample:
    """One step of one env with the observation `obs`."""
    return {
        keys.OBS: obs,
        keys.ACTION: np.zeros((1, 6), np.float32) if action is None else action,
        keys.REWARD: np.zeros((1, 1), np.float32),
        keys.NEXT_OBS: obs,
        keys.NEXT_DONE: np.zeros((1, 1), np.float32),
    } | extras


def plan(sample: Sample, *, recurrent: bool = False, frame_stack: Any = None) -> Schema:
    return plan_schema(sample, num_lead=1, recurrent=recurrent, frame_stack=frame_stack)


def offsets_of(schema: Schema) -> dict[KeyPath, int]:
    return {place.leaf.path: place.row_offset for place in (*schema.carried, *schema.steps)}


def test_a_step_of_17_and_6_floats_takes_104_bytes() -> None:
    schema = plan(sample_of(np.zeros((1, 17), np.float32)))
    # 8 fixed, then reward 4, action 24, observation 68; the next observation is the next row's.
    assert offsets_of(schema) == {(keys.REWARD,): 8, (keys.ACTION,): 12, (keys.OBS,): 36}
    assert (schema.row_bytes, schema.tail_bytes, schema.block_bytes) == (104, 72, [])
    assert LaneRing.estimate_bytes(schema, 2, 10) == 2 * 11 * 104


def test_flags_take_no_room_of_their_own() -> None:
    flags = {key: np.zeros((1, 1), np.float64) for key in (keys.DONE, keys.NEXT_TERMINATED, keys.CUT)}
    schema = plan(sample_of(np.zeros((1, 17), np.float32)) | flags)
    assert schema.row_bytes == 104
    assert schema.flags == {
        keys.DONE: np.float64,
        keys.NEXT_DONE: np.float32,
        keys.NEXT_TERMINATED: np.float64,
    }


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_fields_are_aligned_to_their_dtype(dtype: str) -> None:
    obs = {"odd": np.zeros((1, 3), np.uint8), "wide": np.zeros((1, 2), dtype)}
    schema = plan(sample_of(obs, np.zeros((1, 1), np.uint8)))
    offsets = offsets_of(schema)
    assert offsets[(keys.OBS, "wide")] % np.dtype(dtype).itemsize == 0
    assert schema.row_bytes % 8 == 0
    places = sorted((place.row_offset, place.leaf.num_bytes) for place in (*schema.carried, *schema.steps))
    ends = [R_FIXED, *(offset + num_bytes for offset, num_bytes in places)]
    assert all(offset >= end for end, (offset, _) in zip(ends[:-1], places, strict=True))
    assert ends[-1] <= schema.row_bytes


def test_large_fields_have_blocks_of_their_own() -> None:
    obs = {
        "image": np.zeros((1, 3, 32, 32), np.uint8),
        "small": np.zeros((1, 1024), np.uint8),
        "vector": np.zeros((1, 257), np.float32),
    }
    schema = plan(sample_of(obs))
    offsets = offsets_of(schema)
    assert offsets[(keys.OBS, "image")] == offsets[(keys.OBS, "vector")] == -1
    assert offsets[(keys.OBS, "small")] >= R_FIXED
    assert schema.block_bytes == [3 * 32 * 32, 257 * 4]
    assert schema.slot_bytes == schema.row_bytes + 3 * 32 * 32 + 257 * 4
    # An episode's end keeps the whole observation.
    assert schema.tail_bytes >= 3 * 32 * 32 + 1024 + 257 * 4


def test_stacks_keep_one_frame_a_step() -> None:
    schema = plan(sample_of(np.zeros((1, 4, 84, 84), np.uint8), np.zeros((1, 1), np.int32)), frame_stack=4)
    (place,) = schema.carried
    assert (place.depth, place.slot_bytes, schema.block_bytes) == (4, 7056, [7056])
    assert schema.row_bytes == 24  # 12 fixed, reward 4, action 4, padded to whole words
    assert offsets_of(schema)[(keys.REWARD,)] == R_FIXED_STACKED
    assert schema.whole_bytes == 4 * 7056
    assert schema.depth == 4


def test_the_axis_of_the_frames_may_be_any() -> None:
    obs = {"pixels": {"left": np.zeros((1, 5, 7, 6), np.uint8)}, "speed": np.zeros((1, 2), np.float32)}
    schema = plan(sample_of(obs), frame_stack={"pixels/left": (3, -1)})
    frames, speed = schema.carried
    assert frames.leaf.path == (keys.OBS, "pixels", "left")
    assert (frames.depth, frames.axis, frames.stacked_shape) == (3, 2, (6, 5, 7))
    assert speed.depth == 1


@pytest.mark.parametrize("frame_stack", [(4, -1), (4, 2), [4, -1]])
def test_frames_of_a_plain_observation_may_lie_along_any_axis(frame_stack: Any) -> None:
    memory = NStepReplayBuffer.standalone(8, n_step=2, frame_stack=frame_stack, seed=1)
    frames = np.random.default_rng(1).integers(0, 256, (13, 2, 3), np.uint8)
    stacks = np.stack([frames[first : first + 4].transpose(1, 2, 0) for first in range(10)])[:, None]
    for step in range(9):
        memory.add(stacks[step], stacks[step, :, 0], [float(step)], stacks[step + 1], [False], [False])
    assert memory.num_cuts == 0
    assert memory.data[keys.OBS].shape[2:] == (1, 2, 3)
    batch = memory.sample(50)
    starts = row_numbers(batch)
    assert np.array_equal(batch[keys.OBS], stacks[starts, 0])
    assert np.array_equal(batch[keys.NEXT_OBS], stacks[starts + batch[keys.N_STEP][:, 0].numpy(), 0])


def row_numbers(batch: Sample) -> np.ndarray:
    """Numbers of the steps that a batch's rows start at."""
    return np.asarray(batch[keys.IDXS] & ID_MASK)


def test_hidden_states_are_carried_unless_the_actor_is_recurrent() -> None:
    state = np.zeros((1, 5), np.float32)
    sample = sample_of(np.zeros((1, 2), np.float32)) | {
        keys.RHS: state,
        keys.NEXT_RHS: state,
        keys.DONE: np.zeros((1, 1), np.float32),
    }
    plain, recurrent = plan(sample), plan(sample, recurrent=True)
    assert [place.leaf.path for place in plain.carried] == [(keys.OBS,), (keys.RHS,)]
    assert [place.leaf.path for place in recurrent.carried] == [(keys.OBS,)]
    assert [leaf.path for leaf in recurrent.hidden] == [(keys.RHS,)]
    assert recurrent.row_bytes < plain.row_bytes


def test_nested_observations_come_back_nested() -> None:
    steps = make_slice(6, truncated=[3])
    memory = ReplayBuffer.standalone(10, seed=1)
    nested = {
        key: {"camera": {"left": steps[key], "right": steps[key].astype(np.float64) * 2}, "scalar": steps[key][..., 0]}
        for key in (keys.OBS, keys.NEXT_OBS)
    }
    memory.insert_data_slice(steps | nested)
    batch = memory.sample(40)
    numbers = numbers_of(batch)
    assert torch.equal(batch[keys.OBS]["camera"]["left"][:, 0], numbers.float())
    assert torch.equal(batch[keys.OBS]["camera"]["right"][:, 0], 2 * numbers.double())
    assert torch.equal(batch[keys.OBS]["scalar"], numbers.float())
    after = torch.where(numbers == 3, 3.5, numbers + 1.0)
    assert torch.equal(batch[keys.NEXT_OBS]["scalar"], after)
    assert memory.data[keys.OBS]["camera"]["right"].dtype == torch.float64


REFUSED: dict[str, tuple[Sample, str]] = {
    "text": ({keys.ACTION: np.array([["left"]])}, "dtype <U4"),
    "objects": ({keys.ACTION: np.array([[None]])}, "dtype object"),
    "complex": ({keys.ACTION: np.zeros((1, 1), np.complex64)}, "dtype complex64"),
    "bfloat16": ({keys.ACTION: torch.zeros(1, 1, dtype=torch.bfloat16)}, "bfloat16"),
    "list": ({keys.ACTION: [[1.0]]}, "must be a numpy array or a torch tensor, got list"),
    "no env axis": ({keys.ACTION: np.float32(1.0) * np.ones(())}, r"lacks the axis of envs.*obs\[None\]"),
    "empty dict": ({keys.OBS: {}, keys.NEXT_OBS: {}}, "empty dict"),
    "keys that are numbers": (
        {key: {0: np.zeros((1, 3), np.float32)} for key in (keys.OBS, keys.NEXT_OBS)},
        "keys must be strings",
    ),
    "integer reward": ({keys.REWARD: np.zeros((1, 1), np.int64)}, "float32 or float64"),
    "half reward": ({keys.REWARD: np.zeros((1, 1), np.float16)}, "float32 or float64"),
    "flat reward": ({keys.REWARD: np.zeros(1, np.float32)}, "num_envs, 1"),
    "wide reward": ({keys.REWARD: np.zeros((1, 2), np.float32)}, "num_envs, 1"),
    "flat done": ({keys.NEXT_DONE: np.zeros(1, np.float32)}, "num_envs, 1"),
    "half done": (
        {keys.NEXT_DONE: np.zeros((1, 1), np.float16)},
        "expected float32, float64, bool, uint8, int8, int32 or int64",
    ),
    "other next shape": ({keys.NEXT_OBS: np.zeros((1, 4), np.float32)}, "must have the keys, shapes and dtypes"),
    "other next dtype": ({keys.NEXT_OBS: np.zeros((1, 3), np.float64)}, "must have the keys, shapes and dtypes"),
    "other next keys": ({keys.NEXT_OBS: {"a": np.zeros((1, 3), np.float32)}}, "must have the keys"),
    "next state alone": ({keys.NEXT_RHS: np.zeros((1, 1), np.float32)}, f"lacks {keys.RHS}"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_first_sample_that_cannot_be_stored_is_refused_and_leaves_the_store_empty(name: str) -> None:
    changes, message = REFUSED[name]
    memory = ReplayBuffer.standalone(10, seed=1)
    with pytest.raises(SchemaError, match=message):
        memory.insert_transition(sample_of(np.zeros((1, 3), np.float32)) | changes)
    assert len(memory) == 0
    memory.insert_data_slice(make_slice(3))
    assert len(memory) == 3


@pytest.mark.parametrize("key", [keys.OBS, keys.ACTION, keys.REWARD, keys.NEXT_OBS, keys.NEXT_DONE])
def test_required_keys_are_named_when_missing(key: str) -> None:
    sample = sample_of(np.zeros((1, 3), np.float32))
    del sample[key]
    with pytest.raises(SchemaError, match=key):
        ReplayBuffer.standalone(10).insert_transition(sample)


@pytest.mark.parametrize(
    ("obs", "frame_stack", "message"),
    [
        (np.zeros((1, 6, 2), np.uint8), 4, "do not divide"),
        (np.zeros((1, 4), np.uint8), {"pixels": 4}, "pixels"),
        ({"a": np.zeros((1, 4), np.uint8), "b": np.zeros((1, 4), np.uint8)}, 4, "give {key: depth}"),
        ({"a": np.zeros((1, 4), np.uint8)}, {"a": (4, 1)}, "along axis 1"),
        ({"a": np.zeros((1,), np.uint8)}, {"a": 2}, "do not divide"),
    ],
)
def test_stacks_that_do_not_suit_the_observation_are_refused(obs: Observation, frame_stack: Any, message: str) -> None:
    memory = ReplayBuffer.standalone(10, frame_stack=frame_stack)
    with pytest.raises(ConfigError, match=message):
        memory.insert_transition(sample_of(obs))
    assert len(memory) == 0


def test_a_column_that_is_derived_has_no_view() -> None:
    memory = HERBuffer.standalone(10, compute_reward=reward_if_reached)
    memory.insert_data_slice(with_goals(make_slice(4)))
    assert memory.data.keys() == {
        keys.OBS,
        keys.ACTION,
        keys.REWARD,
        keys.NEXT_DONE,
        keys.NEXT_TERMINATED,
    }
    assert memory.data[keys.OBS]["observation"].shape == (1, 11, 2)
    assert torch.equal(memory.data[keys.REWARD][0, :4, 0], torch.arange(4.0))
