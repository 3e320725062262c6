"""Sequences for recurrent actors: which ones there are and what is in them, worked by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import NStepReplayBuffer, PERBuffer, ReplayBuffer
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.errors import ConfigError, RecollectWarning, SchemaError, StorageError
from tests.samples import Sample, lanes_of, make_slice, numbers_of, one_step, with_done

GAMMA = 0.5


def with_states(steps: Sample, *, nested: bool = False) -> Sample:
    """Add hidden states: before step `t` of env `e` it is `[t, e]`."""
    states, following = steps[keys.OBS].copy(), steps[keys.OBS] + np.array([1, 0], np.float32)
    if nested:
        return steps | {
            keys.RHS: {"h": states, "c": {"deep": -states}},
            keys.NEXT_RHS: {"h": following, "c": {"deep": -following}},
        }
    return steps | {keys.RHS: states, keys.NEXT_RHS: following}


def recurrent_slice(num_steps: int, *, first: int = 0, num_envs: int = 1, **ends: Any) -> Sample:
    return with_states(with_done(make_slice(num_steps, first=first, num_envs=num_envs, **ends)))


def make_memory(size: int, length: int, overlap: int = 0, *, num_envs: int = 1, n_step: int = 1) -> NStepReplayBuffer:
    return NStepReplayBuffer.standalone(
        size,
        num_envs=num_envs,
        gamma=GAMMA,
        seed=1,
        n_step=n_step,
        sequence_length=length,
        sequence_overlap=overlap,
    )


def starts_of(memory: ReplayBuffer, lane: int = 0) -> set[int]:
    """Numbers of the steps that sequences of a lane start at."""
    batch = memory.sample(2000)
    return set(numbers_of(batch)[lanes_of(batch) == lane].tolist())


def numbers_in(batch: Sample) -> dict[int, list[float]]:
    """Numbers of the steps in each sequence of a batch, by that of its start."""
    rows = batch[keys.OBS][..., 0].tolist()
    return dict(zip(numbers_of(batch).tolist(), rows, strict=True))


@pytest.mark.parametrize(
    ("size", "length", "overlap", "num_steps", "expected"),
    [
        (20, 4, 0, 11, {0, 4}),  # the one from 8 on lacks a step
        (20, 4, 0, 12, {0, 4, 8}),
        (20, 4, 1, 11, {0, 3, 6}),
        (20, 4, 3, 7, {0, 1, 2, 3}),
        (20, 1, 0, 3, {0, 1, 2}),
        (10, 4, 1, 14, {6, 9}),  # 4 to 13 are stored; 12 is too new
        (10, 10, 0, 19, set()),  # 9 to 18: one step short of 10 to 19
        (10, 10, 0, 20, {10}),
        (10, 10, 9, 15, {5}),
    ],
)
def test_sequences_lie_on_a_grid(size: int, length: int, overlap: int, num_steps: int, expected: set[int]) -> None:
    memory = make_memory(size, length, overlap)
    for first in range(num_steps):
        memory.insert_data_slice(recurrent_slice(1, first=first))
    if expected:
        assert starts_of(memory) == expected
    else:
        with pytest.raises(StorageError, match=f"no sequence of {length} steps"):
            memory.sample(40)


def test_a_batch_holds_sequences_of_length_and_n_more_steps() -> None:
    memory = make_memory(20, 4, 1, n_step=2)
    memory.insert_data_slice(recurrent_slice(11))
    batch = memory.sample(23)
    num_sequences = 5
    assert batch[keys.OBS].shape == (num_sequences, 6, 2)
    assert batch[keys.REWARD].shape == batch[keys.DISCOUNT].shape == (num_sequences, 6, 1)
    assert batch[keys.MASK].dtype == torch.float32
    assert batch[keys.MASK].shape == (num_sequences, 6, 1)
    assert batch[keys.MASK][2].ravel().tolist() == [0, 1, 1, 1, 0, 0]
    assert batch[keys.IDXS].shape == (num_sequences,)
    assert batch[keys.RHS].shape == (num_sequences, 2)
    assert keys.NEXT_RHS not in batch
    assert memory.sample(3)[keys.OBS].shape == (1, 6, 2)


def test_positions_beyond_the_newest_step_repeat_it() -> None:
    memory = make_memory(20, 4, 1, n_step=2)
    memory.insert_data_slice(recurrent_slice(11))
    assert numbers_in(memory.sample(400)) == {
        0: [0, 1, 2, 3, 4, 5],
        3: [3, 4, 5, 6, 7, 8],
        6: [6, 7, 8, 9, 10, 10],
    }


def test_each_position_has_its_own_window_and_sequences_run_over_ends() -> None:
    memory = make_memory(20, 4, n_step=2)
    memory.insert_data_slice(recurrent_slice(10, terminated=[1], truncated=[5]))
    batch = memory.sample(400)
    first = numbers_of(batch).tolist().index(0)
    assert batch[keys.N_STEP][first].ravel().tolist() == [2, 1, 2, 2, 2, 1]
    assert batch[keys.REWARD][first].ravel().tolist() == [0.5, 1.0, 3.5, 5.0, 6.5, 5.0]
    assert batch[keys.DISCOUNT][first].ravel().tolist() == [0, 0, 0.25, 0.25, 0.25, 0.5]
    assert batch[keys.NEXT_OBS][first, :, 0].tolist() == [1.5, 1.5, 4.0, 5.0, 5.5, 5.5]
    assert batch[keys.DONE][first].ravel().tolist() == [1, 0, 1, 0, 0, 0]


@pytest.mark.parametrize("in_slices", [False, True])
def test_hidden_states_are_those_of_the_starts(in_slices: bool) -> None:
    memory = make_memory(12, 4, 2, num_envs=2)
    steps = recurrent_slice(31, num_envs=2)
    if in_slices:
        memory.insert_data_slice(steps)
    else:
        for position in range(31):
            memory.insert_transition(one_step(steps, position))
    batch = memory.sample(400)
    assert set(numbers_of(batch).tolist()) == {20, 22, 24, 26}
    assert torch.equal(batch[keys.RHS][:, 0], numbers_of(batch).float())
    assert torch.equal(batch[keys.RHS][:, 1], lanes_of(batch).float())


@pytest.mark.parametrize(("size", "length", "overlap"), [(11, 4, 1), (12, 4, 0), (10, 4, 3)])
@pytest.mark.parametrize("num_steps", [5, 30])
def test_a_copy_has_the_same_steps_and_sequences_after_any_wrap(
    size: int, length: int, overlap: int, num_steps: int
) -> None:
    memory, copy = (make_memory(size, length, overlap, num_envs=2) for _ in range(2))
    memory.insert_data_slice(recurrent_slice(num_steps, num_envs=2))
    copy.insert_data_slice(memory.get_all_buffer_data())
    assert len(copy) == len(memory) == 2 * min(size, num_steps)
    for more in range(3):
        one, other = (each.sample(2000) for each in (memory, copy))
        for lane in range(2):
            assert numbers_and_states(one, lane) == numbers_and_states(other, lane)
        for each in (memory, copy):
            each.insert_data_slice(recurrent_slice(1, first=num_steps + more, num_envs=2))


def numbers_and_states(batch: Sample, lane: int) -> set[tuple[float, ...]]:
    """Numbers of the steps in each sequence of a lane, and its hidden state."""
    rows = torch.cat([batch[keys.OBS][..., 0], batch[keys.RHS]], dim=1)
    return {tuple(row) for row in rows[lanes_of(batch) == lane].tolist()}


def test_context_is_not_handed_out_again() -> None:
    memory, copy = (make_memory(12, 4, 2, num_envs=2) for _ in range(2))
    memory.insert_data_slice(recurrent_slice(9, num_envs=2))
    memory.reset()
    assert memory.get_all_buffer_data()[keys.REWARD].shape == (0, 2, 1)
    copy.insert_data_slice(memory.get_all_buffer_data())
    assert len(copy) == len(memory) == 0
    memory.insert_data_slice(recurrent_slice(5, first=9, num_envs=2))
    stored = memory.get_all_buffer_data()
    assert stored[keys.REWARD][:, 1, 0].tolist() == [9, 10, 11, 12, 13]
    assert memory.get_data_slice(0, 1)[keys.REWARD][:, 1, 0].tolist() == [9]
    # Sequences start at 7, which is context, and at 9, 11, 13.
    assert stored[keys.START][:, 0, 0].tolist() == [True, False, True, False, True]
    copy.insert_data_slice(stored)
    assert len(copy) == len(memory) == 10
    assert starts_of(memory) == {7, 9}
    assert numbers_and_states(copy.sample(400), 0) == {(9, 10, 11, 12, 13, 9, 0)}


def test_a_copy_starts_where_states_are_known_also_if_they_come_later() -> None:
    memory, copy = (make_memory(20, 5, 1) for _ in range(2))
    memory.insert_data_slice(recurrent_slice(10))
    memory.reset()
    # Sequences start at 9, which is context, 13, 17 and 21: of the first steps to be copied, none does.
    for begin, end in ((10, 12), (12, 19), (19, 24)):
        memory.insert_data_slice(recurrent_slice(end - begin, first=begin))
        copy.insert_data_slice(memory.get_data_slice(begin - 10, end - 10))
    assert numbers_and_states(copy.sample(400), 0) == {(13, 14, 15, 16, 17, 18, 13, 0), (17, 18, 19, 20, 21, 22, 17, 0)}


def test_a_copy_that_starts_at_states_that_are_not_known_is_warned_of() -> None:
    memory, copy = (make_memory(20, 5, 1) for _ in range(2))
    copy.insert_data_slice(recurrent_slice(6))
    memory.insert_data_slice(recurrent_slice(10))
    stored = memory.get_all_buffer_data()
    # It starts at 8 and 12, the third and seventh of the steps copied; states are known of the first and fifth.
    message = "2 sequences of this storage start at steps whose hidden states are not known"
    with pytest.warns(RecollectWarning, match=message):
        copy.insert_data_slice(stored)
    third = {key: values[2] for key, values in stored.items()}
    copy = make_memory(20, 5, 1)
    copy.insert_data_slice(recurrent_slice(4))
    with pytest.warns(RecollectWarning, match="1 sequences of"):
        copy.insert_transition(third)


def test_hidden_states_may_be_nested() -> None:
    memory = make_memory(20, 4, 1)
    memory.insert_data_slice(with_states(with_done(make_slice(11)), nested=True))
    batch = memory.sample(400)
    starts = numbers_of(batch).float()
    assert torch.equal(batch[keys.RHS]["h"][:, 0], starts)
    assert torch.equal(batch[keys.RHS]["c"]["deep"][:, 0], -starts)


def test_hidden_states_are_kept_only_where_sequences_start() -> None:
    memory = make_memory(1000, 20, 10)
    memory.insert_data_slice(recurrent_slice(1000))
    num_states = (1000 // 10 + 3) + (10 + 1)  # where sequences start, and those of the last steps for a reset
    assert 0 < memory.store.starts.num_bytes <= num_states * 2 * 4
    assert memory.num_bytes == memory.store.ring.num_bytes_used + memory.store.starts.num_bytes


@pytest.mark.parametrize("overlap", [0, 1, 3])
def test_a_reset_keeps_the_overlap_as_context_of_the_next_sequence(overlap: int) -> None:
    memory = make_memory(20, 4, overlap)
    memory.insert_data_slice(recurrent_slice(14))
    memory.reset()
    assert len(memory) == 0
    with pytest.raises(StorageError):
        memory.sample(4)
    memory.insert_data_slice(recurrent_slice(4 - overlap, first=14))
    assert len(memory) == 4 - overlap
    batch = memory.sample(40)
    start = 14 - overlap
    assert set(numbers_of(batch).tolist()) == {start}
    assert batch[keys.OBS][0, :4, 0].tolist() == [start, start + 1, start + 2, start + 3]
    assert batch[keys.RHS][0, 0] == start
    assert batch[keys.MASK][0].ravel().tolist() == [0] * overlap + [1] * (4 - overlap) + [0]


def test_the_grid_continues_from_a_reset() -> None:
    memory = make_memory(20, 4, 1)
    memory.insert_data_slice(recurrent_slice(14))
    memory.reset()
    memory.insert_data_slice(recurrent_slice(9, first=14))
    # Context is step 13; sequences every three steps from there.
    assert starts_of(memory) == {13, 16, 19}


def test_a_reset_soon_after_another_keeps_what_there_is() -> None:
    memory = make_memory(20, 4, 3)
    memory.insert_data_slice(recurrent_slice(2))
    memory.reset()
    memory.insert_data_slice(recurrent_slice(1, first=2))
    memory.reset()
    memory.insert_data_slice(recurrent_slice(1, first=3))
    batch = memory.sample(4)
    assert numbers_in(batch)[0][:4] == [0, 1, 2, 3]
    assert batch[keys.RHS][0, 0] == 0


@pytest.mark.parametrize("new_size", [6, 9, 30])
def test_resizing_keeps_grid_and_states(new_size: int) -> None:
    memory = make_memory(12, 4, 2, num_envs=2)
    memory.insert_data_slice(recurrent_slice(31, num_envs=2))
    memory.update_storage_parameter("max_size", new_size)
    expected = {start for start in (20, 22, 24, 26) if start >= 31 - new_size}
    batch = memory.sample(400)
    assert set(numbers_of(batch).tolist()) == expected
    assert torch.equal(batch[keys.RHS][:, 0], numbers_of(batch).float())
    memory.insert_data_slice(recurrent_slice(3, first=31, num_envs=2))
    batch = memory.sample(400)
    assert {28, 30} <= set(numbers_of(batch).tolist())
    assert torch.equal(batch[keys.RHS][:, 0], numbers_of(batch).float())


def test_length_and_overlap_come_from_algorithm_and_actor() -> None:
    actor = SimpleNamespace(is_recurrent=True, sequence_overlap=2)
    algorithm = SimpleNamespace(gamma=GAMMA, update_every=5)
    memory = ReplayBuffer(20, "cpu", actor, algorithm, SimpleNamespace(num_envs=1), seed=1)
    memory.insert_data_slice(recurrent_slice(11))
    batch = memory.sample(500)
    assert set(numbers_of(batch).tolist()) == {0, 3, 6}
    assert batch[keys.MASK].shape[1] == 6


def test_a_recurrent_store_needs_done() -> None:
    memory = make_memory(20, 4)
    with pytest.raises(SchemaError, match=keys.DONE):
        memory.insert_data_slice(make_slice(5))


@pytest.mark.parametrize(("length", "overlap"), [(0, 0), (4, 4), (4, 5), (4, -1), (21, 0)])
def test_sequences_that_cannot_be_are_refused(length: int, overlap: int) -> None:
    with pytest.raises(ConfigError):
        make_memory(20, length, overlap)


def test_a_store_is_not_divided_below_the_length_of_a_sequence() -> None:
    memory = make_memory(7, 4)
    memory.insert_data_slice(recurrent_slice(7), source="first")
    with pytest.raises(ConfigError, match="fewer than a sequence"):
        memory.insert_data_slice(recurrent_slice(7), source="second")
    with pytest.raises(ConfigError, match="fewer than a sequence"):
        memory.update_storage_parameter("max_size", 3)
    assert starts_of(memory) == {0}


def test_the_only_sequence_may_be_overwritten_before_the_next_is_complete() -> None:
    memory = make_memory(5, 4)
    memory.insert_data_slice(recurrent_slice(4))
    assert starts_of(memory) == {0}
    memory.insert_data_slice(recurrent_slice(2, first=4))
    with pytest.raises(StorageError):
        memory.sample(4)
    memory.insert_data_slice(recurrent_slice(2, first=6))
    assert starts_of(memory) == {4}


def test_errors_of_positions_are_mixed_into_one() -> None:
    memory = PERBuffer.standalone(20, seed=1, alpha=1.0, default_error=1.0, sequence_length=3)
    memory.insert_data_slice(with_done(make_slice(6)))
    errors = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 6.0]])
    assert memory.get_sequence_priority(errors) == pytest.approx([0.9 * 3 + 0.1 * 2, 0.9 * 6 + 0.1 * 2])
    assert memory.get_sequence_priority(torch.from_numpy(errors), eta=0.5) == pytest.approx([2.5, 4.0])
    for given in (errors, errors[..., None], torch.from_numpy(errors)):
        memory.update_priorities({keys.IDXS: torch.tensor([0, 3])}, given)
        assert memory.tree.total == pytest.approx(2.9 + 5.6)
        memory.update_priorities({keys.IDXS: torch.tensor([0, 3])}, np.array([[4.0], [5.0]]))
        assert memory.tree.total == 9


def test_a_forged_table_with_more_context_than_steps_is_refused() -> None:
    memory = make_memory(20, 4)
    memory.insert_data_slice(recurrent_slice(10))
    access = memory.store.access
    forged = access.starts.state(access.ring)
    forged["table"][layout.A_CONTEXT] = 11
    with pytest.raises(StorageError, match="more context than there are steps"):
        access.starts.load_state(access.ring, [forged])
