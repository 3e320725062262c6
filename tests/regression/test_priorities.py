"""Known faults of earlier systems: prioritised replay and emphasis on recent experience."""

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import EREBuffer, PERBuffer
from recollect.agent.storages.experience.kernels.ring_layout import ID_SHIFT
from tests.samples import make_slice, numbers_of, row_of, with_done


def set_errors(memory: PERBuffer, ids: list[int], errors: list[float]) -> None:
    memory.update_priorities({keys.IDXS: torch.tensor(ids)}, torch.tensor(errors))


def test_new_data_do_not_inherit_the_priority_of_what_they_overwrite() -> None:
    """A known fault of earlier systems: a slot kept the priority of its former step."""
    memory = PERBuffer.standalone(4, seed=1, alpha=1.0, default_error=2.0)
    memory.insert_data_slice(make_slice(4))
    set_errors(memory, [0, 1, 2, 3], [100.0] * 4)
    memory.insert_data_slice(make_slice(1, first=4))
    assert memory.tree.total == 302
    batch = memory.sample(1000)
    assert batch[keys.PER_WEIGHTS][row_of(batch, 4)] == 1
    assert batch[keys.PER_WEIGHTS][row_of(batch, 1)] == pytest.approx(0.02)


def test_the_default_error_goes_through_alpha() -> None:
    """A known fault of earlier systems: new steps had the raw default error as their priority."""
    memory = PERBuffer.standalone(8, alpha=0.5, epsilon=1.0, default_error=8.0)
    memory.insert_data_slice(make_slice(5))
    assert memory.tree.total == pytest.approx(5 * 3, rel=1e-14)
    set_errors(memory, [2], [8.0])
    assert memory.tree.total == pytest.approx(5 * 3, rel=1e-14)


def test_priorities_of_sequences_are_kept_for_every_env() -> None:
    """A known fault of earlier systems: with more than one env, sequences' priorities went into a copy."""
    memory = PERBuffer.standalone(12, num_envs=3, seed=1, alpha=1.0, sequence_length=4, default_error=1.0)
    memory.insert_data_slice(with_done(make_slice(12, num_envs=3)))
    ids = [lane << ID_SHIFT | start for lane in range(3) for start in (0, 4, 8)]
    errors = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    set_errors(memory, ids, errors)
    assert memory.tree.total == sum(errors)
    batch = memory.sample(4 * 300)
    weights = dict(zip(batch[keys.IDXS].tolist(), batch[keys.PER_WEIGHTS].ravel().tolist(), strict=True))
    assert weights == {key: pytest.approx(1 / error) for key, error in zip(ids, errors, strict=True)}


@pytest.mark.parametrize("recent", [False, True])
def test_the_cost_of_a_prioritised_batch_grows_as_the_logarithm_of_the_store(recent: bool) -> None:
    """A known fault of earlier systems: every batch walked over all priorities."""
    visited = {}
    for num_steps in (1_000, 1_000_000):
        memory = EREBuffer.standalone(num_steps, seed=1, alpha=0.6, eta=0.999 if recent else 1.0, cmin=100)
        for first in range(0, num_steps, 100_000):
            memory.insert_data_slice(make_slice(min(num_steps, 100_000), first=first))
        before = memory.tree.nodes_visited
        memory.sample(256)
        visited[num_steps] = (memory.tree.nodes_visited - before) / 256
    # Eight children to a node. The whole store is covered by a level of no more nodes than rows, a window by a few
    # dozen nodes; both are read once for the whole batch. Below, each row walks down one node a level.
    num_levels_below = {1_000: 1, 1_000_000: 4}
    for num_steps, num_levels in num_levels_below.items():
        assert num_levels < visited[num_steps] <= num_levels + (2 if recent else 1)


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_recent_data_are_the_newest_not_those_at_the_end_of_the_array(alpha: float) -> None:
    """A known fault of earlier systems: after a wrap the array's end counted as the newest data."""
    memory = EREBuffer.standalone(100, seed=1, alpha=alpha, eta=0.9, cmin=10)
    memory.insert_data_slice(make_slice(130))
    *_, last = memory.generate_batches(2, 300)
    assert set(last[keys.CK].ravel().tolist()) == {10}
    assert np.array_equal(np.unique(numbers_of(last)), np.arange(120, 130))
