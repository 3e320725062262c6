"""Known faults of earlier systems: multi-step returns."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import EREBuffer, NStepReplayBuffer, PERBuffer
from tests.samples import make_slice, row_of

GAMMA = 0.5


def nstep_memory(n_step: int, size: int = 50) -> NStepReplayBuffer:
    return NStepReplayBuffer.standalone(size, gamma=GAMMA, seed=1, n_step=n_step)


def test_a_window_does_not_bootstrap_from_the_next_episode() -> None:
    """A known fault of earlier systems: windows ran over an episode's end into the one after it."""
    memory = nstep_memory(3)
    memory.insert_data_slice(make_slice(20, terminated=[9]))
    batch = memory.sample(400)
    row = row_of(batch, 8)
    assert batch[keys.N_STEP][row] == 2
    assert batch[keys.REWARD][row] == 8 + GAMMA * 9
    assert batch[keys.DISCOUNT][row] == 0
    assert batch[keys.NEXT_OBS][row, 0] == 9.5


def test_truncation_is_not_termination() -> None:
    """A known fault of earlier systems: a time limit counted as the end of the world."""
    memory = nstep_memory(3)
    memory.insert_data_slice(make_slice(20, truncated=[9]))
    batch = memory.sample(400)
    row = row_of(batch, 8)
    assert batch[keys.N_STEP][row] == 2
    assert batch[keys.DISCOUNT][row] == GAMMA**2
    assert batch[keys.NEXT_OBS][row, 0] == 9.5
    assert (batch[keys.NEXT_DONE][row], batch[keys.NEXT_TERMINATED][row]) == (1, 0)


@pytest.mark.parametrize("buffer", [NStepReplayBuffer, PERBuffer, EREBuffer])
@pytest.mark.parametrize("is_recurrent", [False, True])
def test_building_a_buffer_leaves_the_algorithm_as_it_was(buffer: type[NStepReplayBuffer], is_recurrent: bool) -> None:
    """A known fault of earlier systems: the constructor changed the algorithm's `update_every`."""
    algorithm = SimpleNamespace(gamma=0.9, update_every=20)
    actor = SimpleNamespace(is_recurrent=is_recurrent, sequence_overlap=4)
    buffer(100, "cpu", actor, algorithm, SimpleNamespace(num_envs=2), n_step=3)
    assert vars(algorithm) == {"gamma": 0.9, "update_every": 20}
    assert vars(actor) == {"is_recurrent": is_recurrent, "sequence_overlap": 4}


def test_inserts_continue_when_n_step_changes() -> None:
    """A known fault of earlier systems: after a change of `n_step` nothing was inserted any more."""
    memory = nstep_memory(2)
    memory.insert_data_slice(make_slice(10))
    memory.update_storage_parameter("n_step", 4)
    memory.insert_data_slice(make_slice(10, first=10))
    batch = memory.sample(400)
    assert len(memory) == 20
    assert set(batch[keys.IDXS].tolist()) == set(range(20))
    for number in (3, 8, 12):
        assert batch[keys.N_STEP][row_of(batch, number)] == 4
        assert batch[keys.NEXT_OBS][row_of(batch, number), 0] == number + 4


def test_a_store_can_be_enlarged() -> None:
    """A known fault of earlier systems: a larger `max_size` raised."""
    memory = nstep_memory(1, size=8)
    memory.insert_data_slice(make_slice(11))
    memory.update_storage_parameter("max_size", 12)
    assert (len(memory), memory.max_size) == (8, 12)
    memory.insert_data_slice(make_slice(6, first=11))
    stored = memory.get_all_buffer_data()
    assert torch.equal(stored[keys.ACTION].ravel(), torch.arange(5.0, 17.0))
    assert np.array_equal(np.unique(memory.sample(400)[keys.IDXS]), np.arange(5, 17))
