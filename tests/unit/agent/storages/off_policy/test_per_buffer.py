"""Priorities: the error of new data, weights, and what is said to those who expect some where there are none."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recollect import PERBuffer, ReplayBuffer, keys, load_storage, save_storage
from recollect.agent.storages import EREBuffer, HERBuffer
from recollect.agent.storages.snapshots import StorageJournal
from recollect.errors import RecollectWarning, SchemaError
from tests.samples import make_slice, numbers_of, one_step, with_done

LARGEST = 7.0


def make_memory(size: int = 100, **options: Any) -> PERBuffer:
    return PERBuffer.standalone(size, **{"seed": 1, "alpha": 1.0, **options})


def learn(memory: PERBuffer, errors: list[float]) -> None:
    """Give the oldest steps, or sequences, these errors."""
    stride = memory.store.starts.stride
    memory.update_priorities({keys.IDXS: np.arange(len(errors)) * stride}, errors)


def add(memory: PERBuffer, first: int, num_steps: int) -> None:
    memory.insert_data_slice(with_done(make_slice(num_steps, first=first)))


def test_new_data_have_the_largest_error_seen_so_far_and_1_before_one_is_known() -> None:
    memory = make_memory()
    add(memory, 0, 2)
    assert memory.tree.total == 2.0
    learn(memory, [LARGEST, 0.5])
    learn(memory, [0.25, 0.25])
    add(memory, 2, 1)
    assert memory.tree.total == 0.5 + LARGEST


def test_errors_of_0_alone_say_nothing_of_new_data() -> None:
    memory = make_memory()
    add(memory, 0, 2)
    learn(memory, [0.0, 0.0])
    add(memory, 2, 1)
    assert memory.tree.total == 1.0


def test_another_default_error_is_used_as_it_is_given_and_can_change() -> None:
    memory = make_memory(default_error=3.0)
    add(memory, 0, 1)
    learn(memory, [LARGEST])
    add(memory, 1, 1)
    assert memory.tree.total == LARGEST + 3.0
    memory.update_storage_parameter("default_error", 1_000_000)
    add(memory, 2, 1)
    memory.update_storage_parameter("default_error", 5.0)
    add(memory, 3, 1)
    assert memory.tree.total == LARGEST + 3.0 + LARGEST + 5.0


def test_errors_of_steps_that_are_gone_do_not_count() -> None:
    memory = make_memory(2)
    add(memory, 0, 4)
    learn(memory, [LARGEST, LARGEST, 0.5, 0.5])
    add(memory, 4, 2)
    assert memory.tree.total == 1.0


@pytest.mark.parametrize(
    ("name", "value", "total"), [("alpha", 2.0, LARGEST**2), ("epsilon", 1.0, LARGEST + 1.0), ("max_size", 50, LARGEST)]
)
def test_the_largest_error_is_that_of_all_times(name: str, value: float, total: float) -> None:
    memory = make_memory()
    add(memory, 0, 3)
    learn(memory, [LARGEST] * 3)
    memory.update_storage_parameter(name, value)
    memory.reset()
    add(memory, 3, 1)
    assert memory.tree.total == pytest.approx(total)


@pytest.mark.parametrize("form", ["snapshot", "journal"])
def test_a_resumed_storage_knows_the_largest_error(form: str, tmp_path: Path) -> None:
    memory, other = make_memory(), make_memory()
    add(memory, 0, 2)
    learn(memory, [LARGEST, 0.5])
    learn(memory, [0.25, 0.25])
    if form == "snapshot":
        save_storage(memory, tmp_path)
        load_storage(other, tmp_path)
    else:
        StorageJournal(tmp_path).note(memory, {})
        StorageJournal(tmp_path).load(other)
    add(other, 2, 1)
    assert other.tree.total == 0.5 + LARGEST


def test_sequences_are_new_data_when_they_are_complete() -> None:
    memory = make_memory(sequence_length=2)
    add(memory, 0, 3)
    learn(memory, [LARGEST])
    add(memory, 3, 1)
    assert memory.tree.total == 2 * LARGEST


@pytest.mark.parametrize("cls", [PERBuffer, EREBuffer])
@pytest.mark.parametrize("beta", [0.4, 1.0])
def test_weights_do_not_vanish_because_errors_are_far_apart(cls: type[PERBuffer], beta: float) -> None:
    memory = cls.standalone(1000, seed=1, alpha=1.0, beta=beta)
    add(memory, 0, 1000)
    # One step is all but learned, and the others have errors of two sizes.
    learn(memory, [1e-12, *[1.0, 4.0] * 499, 1.0])
    for _ in range(5):
        batch = memory.sample(64)
        errors = torch.where(numbers_of(batch) % 2 == 1, 1.0, 4.0)
        weights = batch[keys.PER_WEIGHTS][:, 0]
        assert weights.max() == 1.0
        torch.testing.assert_close(weights, errors**-beta)


def test_goals_are_prioritised_alike() -> None:
    buffers = [cls.config_class.recommended({"alpha": 0.6}, 1) for cls in (PERBuffer, EREBuffer, HERBuffer)]
    shared = [{name: each[name] for name in ("beta", "epsilon")} for each in buffers]
    assert shared == [{"beta": 0.4, "epsilon": 0.01}] * 3


@pytest.mark.parametrize(("cls", "options"), [(ReplayBuffer, {}), (PERBuffer, {}), (PERBuffer, {"alpha": 0})])
def test_priorities_given_to_a_uniform_buffer_are_warned_of_once(cls: type[Any], options: Any) -> None:
    memory = cls.standalone(10, seed=1, **options)
    memory.insert_data_slice(make_slice(4))
    batch = memory.sample(2)
    with pytest.warns(RecollectWarning, match="draws uniformly.*alpha=0.6"):
        memory.update_priorities(batch, np.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memory.update_priorities(batch, np.ones(2))


@pytest.mark.parametrize("cls", [ReplayBuffer, PERBuffer])
def test_ids_in_place_of_a_batch_are_refused_with_what_to_give(cls: type[Any]) -> None:
    memory = cls.standalone(10, seed=1)
    memory.insert_data_slice(make_slice(4))
    with pytest.raises(SchemaError, match="got Tensor; give the batch, not its idxs"):
        memory.update_priorities(memory.sample(2)[keys.IDXS], np.ones(2))


def test_a_batch_larger_than_the_storage_is_warned_of_once() -> None:
    memory = ReplayBuffer.standalone(3, num_envs=2, seed=1)
    memory.insert_data_slice(make_slice(3, num_envs=2))
    memory.sample(6)
    with pytest.warns(
        RecollectWarning, match="a batch of 7 steps is larger than the storage, which holds 6.*larger size"
    ):
        memory.sample(7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memory.sample(7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("key", [keys.OBS, keys.NEXT_OBS])
@pytest.mark.parametrize("is_slice", [False, True])
def test_an_observation_that_is_nan_is_refused_with_its_place(key: str, dtype: type[Any], is_slice: bool) -> None:
    memory = ReplayBuffer.standalone(10, num_envs=3, seed=1)
    steps = make_slice(4, num_envs=3)
    steps = steps | {name: steps[name].astype(dtype) for name in (keys.OBS, keys.NEXT_OBS)}
    memory.insert_data_slice(steps)
    steps[key][2, 1, 0] = np.nan
    steps[key][3, 0, 0] = np.inf  # which may be an observation
    insert, sample, step = memory.insert_data_slice, steps, 2
    if not is_slice:
        insert, sample, step = memory.insert_transition, one_step(steps, 2), 0
    with pytest.raises(SchemaError, match=f"^{key} of env 1 is NaN at step {step} of"):
        insert(sample)
    assert len(memory) == 12


def test_an_observation_of_another_shape_is_refused_with_both() -> None:
    memory = ReplayBuffer.standalone(10)
    memory.insert_data_slice(make_slice(2))
    steps = make_slice(1)
    steps[keys.OBS] = np.zeros((1, 1, 3), np.float32)
    with pytest.raises(SchemaError, match=r"Observation: expected shape \(1, 1, 2\).*got \(1, 1, 3\)"):
        memory.insert_data_slice(steps)
