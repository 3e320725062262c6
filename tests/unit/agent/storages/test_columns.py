"""Columns as a whole: writing one ahead of the cursor, views in place, formulas of priorities."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from recollect import NStepReplayBuffer, PERBuffer, ReplayBuffer, keys
from recollect.errors import SchemaError
from tests.samples import make_slice, numbers_of


def _filled(num_steps: int, size: int = 6) -> PERBuffer:
    memory = PERBuffer.standalone(size=size, num_envs=2, alpha=1.0, seed=0)
    memory.insert_data_slice(make_slice(num_steps, num_envs=2))
    return memory


def test_a_column_written_ahead_does_not_move_the_cursor() -> None:
    memory = _filled(3)
    before = memory.get_all_buffer_data()
    values = np.full((2, 2, 1), 7.0, np.float32)
    assert memory.insert_single_tensor_slice(memory.data, keys.ACTION, values) == 2
    assert (memory.size, memory.step, len(memory)) == (3, 3, 6)
    after = memory.get_all_buffer_data()
    assert all(torch.equal(before[key], after[key]) for key in before)
    # Slots 3 and 4 of both lanes are the steps to come.
    assert memory.data[keys.ACTION][:, 3:5].eq(7.0).all()


def test_steps_whose_slots_are_written_ahead_are_no_longer_handed_out() -> None:
    memory = _filled(6)
    # Seven slots a lane: one is free, the second one to write holds step 0.
    memory.insert_single_tensor_slice(memory.data, keys.ACTION, np.zeros((2, 2, 1), np.float32))
    assert memory.size == 5
    assert memory.get_all_buffer_data()[keys.ACTION][:, 0, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert set((memory.sample(500)[keys.IDXS] & 0xFF).tolist()) == {1, 2, 3, 4, 5}


def test_another_observation_written_ahead_leaves_the_newest_steps_next_one_alone() -> None:
    memory = _filled(3)
    memory.insert_single_tensor_slice(memory.data, keys.OBS, np.full((1, 2, 2), 9.0, np.float32))
    assert memory.get_all_buffer_data()[keys.NEXT_OBS][-1].tolist() == [[3.0, 0.0], [3.0, 1.0]]


def test_the_step_to_come_is_counted_from_a_reset_on_and_along_the_capacity() -> None:
    memory = _filled(0, size=4)
    assert memory.step == 0
    for number in range(1, 11):
        memory.insert_data_slice(make_slice(1, num_envs=2, first=number))
        assert (memory.size, memory.step) == (min(number, 4), number % 4)
    for _ in range(2):
        memory.reset()
        assert (memory.size, memory.step) == (0, 0)
    memory.insert_data_slice(make_slice(3, num_envs=2, first=11))
    assert (memory.size, memory.step) == (3, 3)
    memory.update_storage_parameter("max_size", 7)
    memory.insert_data_slice(make_slice(3, num_envs=2, first=14))
    assert (memory.size, memory.step) == (6, 6)


@pytest.mark.parametrize("num_ahead", range(7))
@pytest.mark.parametrize(("num_steps", "oldest"), [(4, 0), (20, 14)])
def test_frames_written_ahead_do_not_reach_into_stored_stacks(num_steps: int, oldest: int, num_ahead: int) -> None:
    depth, size = 3, 6
    memory = ReplayBuffer.standalone(size=size, frame_stack=depth, seed=0)
    steps = make_slice(num_steps)
    frames = np.maximum(np.arange(1 - depth, num_steps + 1), 0).astype(np.float32)
    stacks = np.lib.stride_tricks.sliding_window_view(frames, depth)[:, None]  # [time + 1, 1, depth]
    memory.insert_data_slice(steps | {keys.OBS: stacks[:-1].copy(), keys.NEXT_OBS: stacks[1:].copy()})
    memory.insert_single_tensor_slice(memory.data, keys.OBS, np.full((num_ahead, 1, depth), 777.0, np.float32))
    batch = memory.sample(200)
    numbers = batch[keys.REWARD].ravel().long()
    assert torch.equal(batch[keys.OBS], torch.from_numpy(stacks.copy())[numbers, 0])
    assert torch.equal(batch[keys.NEXT_OBS], torch.from_numpy(stacks.copy())[numbers + 1, 0])
    # Nine slots: what overwrites step `s` takes those that stack its frame, `s + 1` and `s + 2`, as well.
    overwritten = num_steps + num_ahead - (size + depth)
    first = oldest if overwritten <= max(0, oldest - depth + 1) else overwritten + depth - 1
    assert sorted(set(numbers.tolist())) == list(range(first, num_steps))


@pytest.mark.parametrize("key", [keys.NEXT_OBS, keys.DISCOUNT, "Nothing"])
def test_a_column_that_is_not_stored_cannot_be_written(key: str) -> None:
    memory = _filled(3)
    with pytest.raises(SchemaError, match="stored"):
        memory.insert_single_tensor_slice(memory.data, key, np.zeros((1, 2, 2), np.float32))


def test_values_of_another_shape_or_dtype_cannot_be_written() -> None:
    memory = _filled(3)
    for values in (np.zeros((1, 2, 3), np.float32), np.zeros((1, 2, 1))):
        with pytest.raises(SchemaError, match="expected"):
            memory.insert_single_tensor_slice(memory.data, keys.ACTION, values)
    with pytest.raises(SchemaError, match="Action has 7 steps, more than the 6 of the storage"):
        memory.insert_single_tensor_slice(memory.data, keys.ACTION, np.zeros((7, 2, 1), np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rewards_that_are_not_finite_cannot_be_written(value: float) -> None:
    memory = _filled(3)
    before = {key: view.clone() for key, view in memory.data.items()}
    with pytest.raises(SchemaError, match="rewards must be finite"):
        memory.insert_single_tensor_slice(memory.data, keys.REWARD, np.full((1, 2, 1), value, np.float32))
    assert all(torch.equal(view, before[key]) for key, view in memory.data.items())


def test_steps_that_were_sent_before_are_dropped_and_counted() -> None:
    memory = ReplayBuffer.standalone(20)
    memory.insert_data_slice(make_slice(5), source="a", first_step=0)
    memory.insert_data_slice(make_slice(5, first=3), source="a", first_step=3)
    memory.insert_data_slice(make_slice(5), source="a", first_step=0)
    assert (len(memory), memory.num_repeated) == (8, 2 + 5)
    memory.release_source("a")
    memory.insert_data_slice(make_slice(5), source="a", first_step=0)
    assert (len(memory), memory.num_repeated) == (13, 7)


def test_data_are_views_of_what_is_stored() -> None:
    memory = _filled(3)
    assert memory.data[keys.REWARD][1, :3, 0].tolist() == [0.0, 1.0, 2.0]
    assert keys.NEXT_OBS not in memory.data
    memory.data[keys.REWARD][0, 1] = 5.0
    assert memory.get_all_buffer_data()[keys.REWARD][1, 0, 0] == 5.0


def test_priority_is_the_error_and_epsilon_to_the_power_of_alpha() -> None:
    memory = PERBuffer.standalone(size=4, alpha=0.5, epsilon=1.0)
    assert memory.get_priority(8.0) == 3.0
    assert memory.get_priority(torch.tensor([3.0, 0.0])).tolist() == [2.0, 1.0]


@pytest.mark.parametrize(("eta", "expected"), [(0.9, [3.8, 0.9]), (0.25, [2.5, 0.25]), (0.0, [2.0, 0.0])])
@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_a_sequences_priority_mixes_the_largest_and_the_mean_error(
    kind: Any, eta: float, expected: list[float]
) -> None:
    memory = PERBuffer.standalone(size=4)
    errors = kind([[4.0, 1.0, 1.0], [1.0, 0.0, -1.0]])  # [num_seq, time]
    assert memory.get_sequence_priority(errors, eta).tolist() == pytest.approx(expected)
    assert memory.get_sequence_priority(errors[..., None], eta).shape == (2, 1)


def test_gamma_is_changed_by_its_owner() -> None:
    told: list[tuple[str, float]] = []
    algorithm = SimpleNamespace(gamma=0.9, update_algorithm_parameter=lambda *change: told.append(change))
    memory = ReplayBuffer(4, "cpu", None, algorithm, SimpleNamespace(num_envs=1))
    memory.update_storage_parameter("gamma", 0.5)
    assert told == [("gamma", 0.5)]
    assert algorithm.gamma == 0.9


def test_a_window_may_be_longer_than_any_number_of_steps() -> None:
    memory = NStepReplayBuffer.standalone(6, gamma=1.0, seed=1)
    memory.insert_data_slice(make_slice(4))
    memory.update_storage_parameter("n_step", 10**30)
    batch = memory.sample(30)
    assert torch.equal(batch[keys.N_STEP][:, 0], 4 - numbers_of(batch))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool])
def test_rewards_of_ones_own_loop_are_stored_as_float32_whatever_they_come_as(dtype: torch.dtype) -> None:
    memory = ReplayBuffer.standalone(4)
    obs = np.zeros((1, 2), np.float32)
    memory.add(obs, obs, torch.ones(1, dtype=dtype), obs, torch.zeros(1, dtype=dtype), torch.zeros(1, dtype=dtype))
    reward = memory.sample(1)[keys.REWARD]
    assert (reward.dtype, reward.item()) == (torch.float32, 1.0)
