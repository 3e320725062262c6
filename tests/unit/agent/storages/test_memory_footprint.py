"""How many bytes a transition takes, counted in the arrays of full stores."""

from typing import Any

import numpy as np
import pytest

from recollect import keys
from recollect.agent.storages import PERBuffer, ReplayBuffer
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.kernels.ring_layout import H_TAIL_TOP, H_WHOLE_TOP

EPISODE = 100


def ring_bytes(memory: ReplayBuffer) -> int:
    """Bytes of rows and blocks with all their spare slots, side-table records, and lists of free ones."""
    ring = memory.store.ring
    num_slots = ring.num_lanes * ring.num_slots
    tails, wholes = int(ring.header[H_TAIL_TOP]), int(ring.header[H_WHOLE_TOP])
    side_tables = tails * ring.schema.tail_bytes + wholes * ring.schema.whole_bytes
    free_lists = 4 * (tails + wholes)
    return num_slots * ring.schema.slot_bytes + side_tables + free_lists


def control_slice(num_steps: int) -> dict[str, Any]:
    """Steps with observations float32[17] and actions float32[6], in episodes of 100."""
    rng = np.random.default_rng(1)
    observations = rng.standard_normal((num_steps + 1, 1, 17)).astype(np.float32)
    ended = ((np.arange(num_steps) + 1) % EPISODE == 0).astype(np.float32)[:, None, None]
    return {
        keys.OBS: observations[:-1],
        keys.NEXT_OBS: observations[1:],
        keys.ACTION: rng.standard_normal((num_steps, 1, 6)).astype(np.float32),
        keys.REWARD: rng.standard_normal((num_steps, 1, 1)).astype(np.float32),
        keys.NEXT_DONE: ended,
        keys.NEXT_TERMINATED: ended,
    }


def frame_episode(rng: np.random.Generator) -> dict[str, Any]:
    """An episode of 84x84 frames, four to an observation, the first one repeated at the start."""
    frames = rng.integers(0, 256, (EPISODE + 1, 84, 84), np.uint8)
    padded = np.concatenate([frames[:1]] * 3 + [frames])
    stacks = np.stack([padded[back : back + EPISODE + 1] for back in range(4)], axis=1)[:, None]
    ended = (np.arange(EPISODE) == EPISODE - 1).astype(np.float32)[:, None, None]
    return {
        keys.OBS: stacks[:-1],
        keys.NEXT_OBS: stacks[1:],
        keys.ACTION: np.zeros((EPISODE, 1, 1), np.int64),
        keys.REWARD: np.zeros((EPISODE, 1, 1), np.float32),
        keys.NEXT_DONE: ended,
    }


def test_a_million_transitions_of_17_and_6_floats() -> None:
    num_steps, piece = 1_000_000, 100_000
    memory = PERBuffer.standalone(num_steps, seed=1, alpha=0.6)
    steps = control_slice(piece)
    for _ in range(num_steps // piece + 1):
        memory.insert_data_slice(steps)
    assert len(memory) == num_steps
    plain, prioritised = ring_bytes(memory), ring_bytes(memory) + memory.tree.num_bytes
    assert 104 * num_steps < plain <= 110 * num_steps
    assert plain + 12 * num_steps < prioritised <= 135 * num_steps
    assert memory.num_bytes == pytest.approx(prioritised, rel=0.01)


@pytest.mark.parametrize("num_steps", [2_000, 5_000])
def test_stacked_frames(num_steps: int) -> None:
    memory = ReplayBuffer.standalone(num_steps, seed=1, frame_stack=4)
    rng = np.random.default_rng(1)
    for _ in range(num_steps // EPISODE + 3):
        episode = frame_episode(rng)
        memory.insert_data_slice(episode)
    assert len(memory) == num_steps
    assert 84 * 84 * num_steps < ring_bytes(memory) <= 7_200 * num_steps
    assert memory.store.ring.header[layout.H_WHOLE_TOP] == 0
    # Saving memory must not cost a bit: the newest episode comes back as it was.
    stored = memory.get_data_slice(num_steps - EPISODE, num_steps)
    assert np.array_equal(stored[keys.OBS], episode[keys.OBS])
    assert np.array_equal(stored[keys.NEXT_OBS], episode[keys.NEXT_OBS])


def test_side_tables_do_not_grow_while_the_ring_goes_round() -> None:
    memory = ReplayBuffer.standalone(5_000, seed=1)
    steps = control_slice(1_000)
    for _ in range(7):
        memory.insert_data_slice(steps)
    before = ring_bytes(memory)
    for _ in range(30):
        memory.insert_data_slice(steps)
    assert ring_bytes(memory) == before
    assert int(memory.store.ring.header[H_TAIL_TOP]) <= 5_000 // EPISODE + 2


def test_without_priorities_there_is_no_tree() -> None:
    memory = PERBuffer.standalone(10_000)
    memory.insert_data_slice(control_slice(10_000))
    assert len(memory.tree.priorities) == 0
    assert memory.tree.num_bytes < memory.tree.errors.nbytes + 100
