"""Known faults of earlier systems: what is stored, and what comes out again."""

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import PERBuffer, ReplayBuffer
from tests.samples import make_slice, numbers_of


def test_dtypes_are_kept() -> None:
    """A known fault of earlier systems: everything became float32."""
    steps = make_slice(6, terminated=[3])
    pixels = {key: (steps[key] * 2).astype(np.uint8) for key in (keys.OBS, keys.NEXT_OBS)}
    others = {
        keys.ACTION: steps[keys.ACTION].astype(np.int64),
        keys.REWARD: steps[keys.REWARD].astype(np.float64) + 1e-12,
        keys.NEXT_DONE: steps[keys.NEXT_DONE].astype(np.bool_),
    }
    memory = ReplayBuffer.standalone(10, seed=1)
    memory.insert_data_slice(steps | pixels | others)
    expected = {
        keys.OBS: torch.uint8,
        keys.NEXT_OBS: torch.uint8,
        keys.ACTION: torch.int64,
        keys.REWARD: torch.float64,
        keys.NEXT_DONE: torch.bool,
        keys.NEXT_TERMINATED: torch.float32,
    }
    for data in (memory.sample(32), memory.get_all_buffer_data()):
        assert {key: data[key].dtype for key in expected} == expected
    batch = memory.sample(32)
    assert torch.equal(batch[keys.REWARD].ravel(), numbers_of(batch).double() + 1e-12)


@pytest.mark.parametrize("source", ["worker-3", 7])
def test_a_fresh_store_takes_its_first_slice_from_a_remote_worker(source: str | int) -> None:
    """A known fault of earlier systems: a learner's store was not ready for a worker's first slice."""
    memory = PERBuffer.standalone(20, num_envs=2, seed=1, alpha=0.5)
    memory.insert_data_slice(make_slice(5, num_envs=2), source=source, first_step=0)
    assert len(memory) == 10
    assert set(numbers_of(memory.sample(200)).tolist()) == set(range(5))


@pytest.mark.parametrize("in_slices", [False, True])
def test_all_data_are_read_back_after_the_ring_has_wrapped(in_slices: bool) -> None:
    """A known fault of earlier systems: after a wrap, part of the data was left out."""
    memory = ReplayBuffer.standalone(10, num_envs=2)
    for first in range(0, 18, 3 if in_slices else 1):
        memory.insert_data_slice(make_slice(3 if in_slices else 1, num_envs=2, first=first, truncated=[11]))
    stored = memory.get_all_buffer_data()
    expected = make_slice(10, num_envs=2, first=8, truncated=[11])
    assert stored.keys() == expected.keys()
    for key, values in expected.items():
        assert np.array_equal(stored[key], values), key


def test_epochs_multiply_the_batches() -> None:
    """A known fault of earlier systems: `num_epochs` was ignored."""
    memory = ReplayBuffer.standalone(10, seed=1)
    memory.insert_data_slice(make_slice(6))
    assert len(list(memory.generate_batches(2, 4, num_epochs=3))) == 6


def test_intrinsic_rewards_and_action_probabilities_are_stored() -> None:
    """A known fault of earlier systems: both were accepted and lost."""
    steps = make_slice(6)
    numbers = steps[keys.ACTION]
    memory = PERBuffer.standalone(10, gamma=0.5, seed=1, n_step=2)
    memory.insert_data_slice(
        steps | {keys.IREWARD: 100 * numbers, keys.ACTION_PROBS: np.concatenate([numbers, -numbers], axis=-1)}
    )
    batch = memory.sample(64)
    drawn = numbers_of(batch)[:, None].float()
    following = torch.where(drawn < 5, drawn + 1, 0)
    assert torch.equal(batch[keys.IREWARD], 100 * (drawn + 0.5 * following))
    assert torch.equal(batch[keys.ACTION_PROBS], torch.cat([drawn, -drawn], dim=1))
