"""What callers hand in: any kind of array with the right shape and dtype is copied, anything else refused."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import ReplayBuffer
from recollect.errors import SchemaError
from tests.samples import Sample, make_slice, one_step

NUM_ENVS = 3
NUM_STEPS = 6
SHAPE = (2, 4, 5)
BIG_SHAPE = (2, 64, 65)  # not copied through the staging buffer


def image_steps(shape: tuple[int, ...]) -> Sample:
    """Steps whose observations are float32 images that differ in every number."""
    steps = make_slice(NUM_STEPS, num_envs=NUM_ENVS)
    size = (NUM_STEPS + 1, NUM_ENVS, *shape)
    images = np.arange(np.prod(size), dtype=np.float32).reshape(size)
    return steps | {keys.OBS: images[:-1], keys.NEXT_OBS: images[1:]}


def over_all(convert: Callable[[np.ndarray], Any], sample: Sample) -> Sample:
    return {key: convert(np.array(value)) for key, value in sample.items()}


def every_other(values: np.ndarray) -> np.ndarray:
    return np.repeat(values, 2, axis=0)[::2]


def other_order(values: np.ndarray) -> np.ndarray:
    return np.asfortranarray(values)


def negative_strides(values: np.ndarray) -> np.ndarray:
    return values[::-1].copy()[::-1]


def read_only(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


def subclass(values: np.ndarray) -> np.ndarray:
    return values.view(np.ma.MaskedArray)


def strided_tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.repeat(values[..., None], 2, axis=-1))[..., 0]


def transposed_tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values.swapaxes(0, -1))).transpose(0, -1)


def channels_last(values: np.ndarray) -> torch.Tensor:
    tensor = torch.from_numpy(values)
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


def with_gradient(values: np.ndarray) -> torch.Tensor:
    tensor = torch.from_numpy(values)
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


def expanded(values: np.ndarray) -> torch.Tensor:
    tensor = torch.from_numpy(values)
    same = bool((tensor == tensor[:1]).all())
    return tensor[:1].expand(tensor.shape) if same else tensor


def parameter(values: np.ndarray) -> torch.Tensor:
    return torch.nn.Parameter(torch.from_numpy(values), requires_grad=False)


def big_endian(values: np.ndarray) -> np.ndarray:
    return values.astype(values.dtype.newbyteorder(">"))


KINDS = {
    function.__name__: function
    for function in (
        np.array,
        every_other,
        other_order,
        negative_strides,
        read_only,
        subclass,
        torch.from_numpy,
        strided_tensor,
        transposed_tensor,
        channels_last,
        with_gradient,
        expanded,
        parameter,
    )
}


def assert_stored(memory: ReplayBuffer, steps: Sample) -> None:
    stored = memory.get_all_buffer_data()
    for key, values in steps.items():
        assert np.array_equal(stored[key], values), key
        assert stored[key].numpy().dtype == np.asarray(values).dtype


@pytest.mark.parametrize("shape", [SHAPE, BIG_SHAPE], ids=["small", "big"])
@pytest.mark.parametrize("in_slices", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_array_is_copied_as_it_is(kind: str, in_slices: bool, shape: tuple[int, ...]) -> None:
    steps = image_steps(shape)
    memory = ReplayBuffer.standalone(10, num_envs=NUM_ENVS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if in_slices:
            memory.insert_data_slice(over_all(KINDS[kind], steps))
        else:
            for position in range(NUM_STEPS):
                memory.insert_transition(over_all(KINDS[kind], one_step(steps, position)))
    assert memory.num_cuts == 0
    assert_stored(memory, steps)


@pytest.mark.parametrize("shape", [SHAPE, BIG_SHAPE], ids=["small", "big"])
def test_kinds_may_change_from_step_to_step(shape: tuple[int, ...]) -> None:
    steps = image_steps(shape)
    memory = ReplayBuffer.standalone(10, num_envs=NUM_ENVS)
    for position, kind in zip(range(NUM_STEPS), KINDS.values(), strict=False):
        memory.insert_transition(over_all(kind, one_step(steps, position)))
    assert_stored(memory, steps)


@pytest.mark.parametrize("shape", [SHAPE, BIG_SHAPE], ids=["small", "big"])
@pytest.mark.parametrize("in_slices", [False, True])
def test_byte_order_does_not_depend_on_the_way_in(in_slices: bool, shape: tuple[int, ...]) -> None:
    steps = image_steps(shape)
    memory = ReplayBuffer.standalone(10, num_envs=NUM_ENVS)
    if in_slices:
        memory.insert_data_slice(over_all(big_endian, steps))
    else:
        for position in range(NUM_STEPS):
            memory.insert_transition(over_all(big_endian, one_step(steps, position)))
    assert_stored(memory, steps)


def test_memory_mapped_arrays_are_taken(tmp_path: Path) -> None:
    steps = image_steps(SHAPE)
    np.save(tmp_path / "obs.npy", steps[keys.OBS])
    np.save(tmp_path / "next.npy", steps[keys.NEXT_OBS])
    mapped = {
        keys.OBS: np.load(tmp_path / "obs.npy", mmap_mode="r"),
        keys.NEXT_OBS: np.load(tmp_path / "next.npy", mmap_mode="r"),
    }
    memory = ReplayBuffer.standalone(10, num_envs=NUM_ENVS)
    memory.insert_data_slice(steps | mapped)
    assert_stored(memory, steps)


@pytest.mark.parametrize("convert", [np.array, torch.from_numpy])
@pytest.mark.parametrize("shape", [SHAPE, BIG_SHAPE], ids=["small", "big"])
def test_the_caller_may_reuse_its_arrays_at_once(convert: Callable[[np.ndarray], Any], shape: tuple[int, ...]) -> None:
    steps = image_steps(shape)
    memory = ReplayBuffer.standalone(10, num_envs=NUM_ENVS)
    for position in range(NUM_STEPS):
        sample = over_all(convert, one_step(steps, position))
        memory.insert_transition(sample)
        for value in sample.values():
            value[...] = -1
    assert_stored(memory, steps)


@pytest.mark.parametrize("convert", [np.array, torch.from_numpy])
@pytest.mark.parametrize("key", [keys.OBS, keys.ACTION, keys.REWARD, keys.NEXT_DONE])
@pytest.mark.parametrize("in_slices", [False, True])
def test_another_float_width_than_the_first_is_refused(
    convert: Callable[[np.ndarray], Any], key: str, in_slices: bool
) -> None:
    steps = image_steps(SHAPE)
    memory = ReplayBuffer.standalone(10, num_envs=NUM_ENVS)
    memory.insert_transition(one_step(steps, 0))
    wide = steps | {key: steps[key].astype(np.float64)}
    insert = memory.insert_data_slice if in_slices else memory.insert_transition
    data = over_all(convert, wide if in_slices else one_step(wide, 1))
    with pytest.raises(SchemaError, match=f"{key}: expected shape .* and dtype float32, got .*float64"):
        insert(data)
    assert len(memory) == NUM_ENVS


@pytest.mark.parametrize("convert", [np.array, torch.from_numpy])
@pytest.mark.parametrize("cut", [np.s_[:2], np.s_[:, :1], np.s_[..., None], np.s_[0]], ids=str)
def test_another_shape_than_the_first_is_refused(convert: Callable[[np.ndarray], Any], cut: Any) -> None:
    steps = image_steps(SHAPE)
    memory = ReplayBuffer.standalone(10, num_envs=NUM_ENVS)
    memory.insert_transition(one_step(steps, 0))
    sample = one_step(steps, 1)
    with pytest.raises(SchemaError, match=f"{keys.OBS}: expected shape"):
        memory.insert_transition(over_all(convert, sample | {keys.OBS: sample[keys.OBS][cut]}))
    assert len(memory) == NUM_ENVS


def test_a_broadcast_is_no_substitute_for_the_env_axis() -> None:
    memory = ReplayBuffer.standalone(10, num_envs=NUM_ENVS)
    with pytest.raises(SchemaError):
        memory.insert_transition(one_step(make_slice(1, num_envs=1), 0))
    assert len(memory) == 0


def test_slices_of_unequal_length_are_refused() -> None:
    memory = ReplayBuffer.standalone(10, num_envs=NUM_ENVS)
    steps = make_slice(4, num_envs=NUM_ENVS)
    with pytest.raises(SchemaError, match=keys.ACTION):
        memory.insert_data_slice(steps | {keys.ACTION: steps[keys.ACTION][:3]})
    assert len(memory) == 0


def test_an_empty_slice_changes_nothing() -> None:
    memory = ReplayBuffer.standalone(10, num_envs=NUM_ENVS)
    memory.insert_data_slice(make_slice(4, num_envs=NUM_ENVS))
    memory.insert_data_slice(make_slice(0, num_envs=NUM_ENVS))
    assert_stored(memory, make_slice(4, num_envs=NUM_ENVS))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64", "float32", "float64"])
def test_flags_may_have_any_of_the_usual_dtypes(dtype: str) -> None:
    steps = make_slice(NUM_STEPS, num_envs=NUM_ENVS, terminated={1: [2]}, truncated={0: [4]})
    flags = {key: steps[key].astype(dtype) for key in (keys.NEXT_DONE, keys.NEXT_TERMINATED)}
    memory = ReplayBuffer.standalone(10, num_envs=NUM_ENVS)
    memory.insert_data_slice(steps | flags)
    assert_stored(memory, steps | flags)


def test_add_takes_lists_for_numbers_and_arrays_with_or_without_a_last_axis() -> None:
    memory = ReplayBuffer.standalone(10, num_envs=2)
    obs = np.zeros((2, 3), np.float32)
    memory.add(obs, np.zeros(2, np.int64), [1.0, 2.0], obs + 1, [False, True], [False, False])
    memory.add(
        torch.from_numpy(obs + 1),
        torch.zeros(2, dtype=torch.int64),
        torch.tensor([[3.0], [4.0]]),
        torch.from_numpy(obs + 2),
        torch.tensor([[False], [False]]),
        np.array([True, False]),
    )
    stored = memory.get_all_buffer_data()
    assert stored[keys.REWARD][..., 0].tolist() == [[1, 2], [3, 4]]
    assert stored[keys.NEXT_DONE][..., 0].tolist() == [[0, 1], [1, 0]]
    assert stored[keys.NEXT_TERMINATED][..., 0].tolist() == [[0, 1], [0, 0]]
    assert stored[keys.DONE][..., 0].tolist() == [[1, 1], [0, 1]]
