"""Slices give back exactly what was recorded, and have every observation once."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect import keys
from recollect.errors import SchemaError, StorageError
from recollect.scheme.collection.collectors.codec import count_bytes, pack, unpack
from recollect.scheme.collection.collectors.slices import Slice, SliceRecorder, expand

Sample = dict[str, Any]


def observations(rng: np.random.Generator, num_envs: int, *, is_nested: bool) -> Any:
    """Observations with NaN among them, which equal themselves in their bits alone."""
    image = rng.integers(0, 255, (num_envs, 2, 2)).astype(np.uint8)
    vector = rng.choice(np.array([0.0, -0.0, np.nan, 1.5], np.float32), (num_envs, 3))
    return {"image": image, "inner": {"vector": vector}} if is_nested else vector


def changed(obs: Any, envs: np.ndarray, rng: np.random.Generator) -> Any:
    """The observations, but other ones for some envs."""
    if isinstance(obs, dict):
        return {key: changed(inner, envs, rng) for key, inner in obs.items()}
    other = obs.copy()
    other[envs] = rng.integers(0, 255, other[envs].shape).astype(obs.dtype)
    return other


def make_stream(seed: int, num_steps: int, num_envs: int, *, is_nested: bool, is_recurrent: bool) -> list[Sample]:
    """Random steps: ends, breaks without an end, rows that are no steps, copies of arrays that are the same."""
    rng = np.random.default_rng(seed)
    samples, obs = [], observations(rng, num_envs, is_nested=is_nested)
    for _ in range(num_steps):
        led_to = observations(rng, num_envs, is_nested=is_nested)
        ended = rng.random((num_envs, 1)) < 0.2
        sample = {
            keys.OBS: obs,
            keys.ACTION: torch.from_numpy(rng.normal(size=(num_envs, 2)).astype(np.float32)),
            keys.REWARD: rng.normal(size=(num_envs, 1)).astype(np.float32),
            keys.NEXT_OBS: led_to,
            keys.NEXT_DONE: ended,
        }
        if is_recurrent:
            sample[keys.RHS] = torch.from_numpy(rng.normal(size=(num_envs, 4)).astype(np.float32))
        if rng.random() < 0.2:
            sample[keys.SKIP] = rng.random((num_envs, 1)) < 0.5
            sample[keys.CUT] = rng.random((num_envs, 1)) < 0.5
        samples.append(sample)
        breaks = ended[:, 0] | (rng.random(num_envs) < 0.1)
        obs = changed(led_to, breaks, rng) if breaks.any() or rng.random() < 0.3 else led_to
    return samples


def stacked(samples: list[Sample]) -> Sample:
    """The plain form `[time, num_envs, ...]`, by stacking what each step had."""
    found: Sample = {}
    seldom = {key for sample in samples for key in sample if key in (keys.SKIP, keys.CUT)}
    for key in {*samples[0], *seldom}:
        missing = np.zeros((*samples[0][keys.REWARD].shape,), np.bool_)
        found[key] = _stack([sample.get(key, missing) for sample in samples])
    return found


def _stack(values: list[Any]) -> Any:
    if isinstance(values[0], dict):
        return {key: _stack([value[key] for value in values]) for key in values[0]}
    return np.stack([np.asarray(value) for value in values])


def assert_same_bits(left: Any, right: Any) -> None:
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same_bits(left[key], right[key])
    else:
        assert left.shape == right.shape
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()


def record(samples: list[Sample], capacity: int | None = None) -> dict[str, np.ndarray]:
    recorder = SliceRecorder(capacity or len(samples))
    for sample in samples:
        recorder.insert_transition(sample)
    assert len(recorder) == len(samples)
    return recorder.take()


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_steps=st.integers(1, 12),
    spare=st.integers(0, 3),
    num_envs=st.integers(1, 3),
    is_nested=st.booleans(),
    is_recurrent=st.booleans(),
)
def test_what_was_recorded_comes_back_bit_by_bit(
    seed: int, num_steps: int, spare: int, num_envs: int, is_nested: bool, is_recurrent: bool
) -> None:
    samples = make_stream(seed, num_steps, num_envs, is_nested=is_nested, is_recurrent=is_recurrent)
    arrays = record(samples, num_steps + spare)
    assert_same_bits(expand(arrays), stacked(samples))
    assert_same_bits(expand(unpack(pack(arrays))), stacked(samples))


def test_observations_are_there_once() -> None:
    obs = [np.full((2, 100), step, np.float32) for step in range(11)]
    rewards = np.zeros((2, 1), np.float32)
    arrays = record([{keys.OBS: obs[t], keys.NEXT_OBS: obs[t + 1], keys.REWARD: rewards} for t in range(10)])
    assert arrays.keys() == {keys.OBS, keys.REWARD}
    assert arrays[keys.OBS].shape == (11, 2, 100)


def test_only_the_envs_that_break_have_tails() -> None:
    first, second = np.zeros((3, 2), np.float32), np.ones((3, 2), np.float32)
    other = second.copy()
    other[1] = 7
    rewards = np.zeros((3, 1), np.float32)
    arrays = record(
        [
            {keys.OBS: first, keys.NEXT_OBS: second, keys.REWARD: rewards},
            {keys.OBS: other, keys.NEXT_OBS: first, keys.REWARD: rewards},
        ]
    )
    assert (arrays["tail_steps"].tolist(), arrays["tail_envs"].tolist()) == ([0], [1])
    assert arrays[f"tails/{keys.OBS}"].tolist() == [[1, 1]]


def test_steps_of_a_slice_have_the_same_entries() -> None:
    samples = make_stream(1, 2, 1, is_nested=False, is_recurrent=False)
    recorder = SliceRecorder(2)
    recorder.insert_transition(samples[0])
    with pytest.raises(SchemaError, match="same entries"):
        recorder.insert_transition(samples[1] | {keys.VALUE: samples[1][keys.REWARD]})


def test_a_full_recorder_takes_no_more() -> None:
    recorder = SliceRecorder(1)
    samples = make_stream(1, 2, 1, is_nested=False, is_recurrent=False)
    recorder.insert_transition(samples[0])
    with pytest.raises(StorageError, match="full"):
        recorder.insert_transition(samples[1])


def test_compressed_arrays_are_smaller_and_can_be_used_where_they_lie() -> None:
    arrays = {"a": np.zeros(1001, np.uint8), "b": np.arange(5.0), "c": np.empty((0, 3), np.float32)}
    packed = pack(arrays)
    assert packed.frame.nbytes < 100 < count_bytes(arrays)
    assert packed.elapsed_s > 0
    found = unpack(packed)
    assert all(array.flags.aligned and array.tobytes() == arrays[name].tobytes() for name, array in found.items())


def test_a_slice_tells_its_size_compressed_or_not() -> None:
    samples = make_stream(1, 5, 2, is_nested=False, is_recurrent=False)
    arrays = record(samples, 8)
    plain = Slice((0, 0), 0, 0, 1, arrays)
    packed = Slice((0, 0), 0, 0, 1, {}, {}, pack(arrays))
    assert plain.num_steps == packed.num_steps == packed.unpacked().num_steps == 5
    assert plain.num_bytes == count_bytes(arrays)
    assert packed.num_bytes == packed.packed.frame.nbytes  # type: ignore[union-attr]
    assert plain.unpacked() is plain
