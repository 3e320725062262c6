"""Batches of stacks that do not fit into the caches are copied another way, and are the same."""

from typing import Any

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import NStepReplayBuffer

DEPTH, NUM_STEPS = 4, 120
# Steps after which an episode ends.
ENDS = np.isin(np.arange(NUM_STEPS), [17, 18, 60, 101])


def stacks(frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stacks before and after each step, as an environment gives them: the first frame of an episode is repeated."""
    before, after = [], []
    stack = np.repeat(frames[:1], DEPTH, axis=0)
    for step, ended in enumerate(ENDS):
        before.append(stack)
        stack = np.concatenate([stack[1:], frames[2 * step + 1][None]])
        after.append(stack)
        if ended:
            stack = np.repeat(frames[2 * step + 2][None], DEPTH, axis=0)
    return np.stack(before)[:, None], np.stack(after)[:, None]


def make_steps(shape: tuple[int, int]) -> dict[str, Any]:
    frames = np.random.default_rng(0).integers(0, 256, (2 * NUM_STEPS + 1, *shape), np.uint8)
    before, after = stacks(frames)
    flags = ENDS.astype(np.float32)[:, None, None]
    return {
        keys.OBS: before,
        keys.NEXT_OBS: after,
        keys.ACTION: np.zeros((NUM_STEPS, 1, 1), np.float32),
        keys.REWARD: np.zeros((NUM_STEPS, 1, 1), np.float32),
        keys.NEXT_DONE: flags,
        keys.NEXT_TERMINATED: flags,
    }


# Rows whose bytes are multiples of 16 and others, which begin at any address.
@pytest.mark.parametrize("shape", [(84, 84), (83, 85)])
@pytest.mark.parametrize("n_step", [1, 3])
def test_large_batches_are_the_same_as_small_ones(shape: tuple[int, int], n_step: int) -> None:
    steps = make_steps(shape)
    memory = NStepReplayBuffer.standalone(NUM_STEPS, n_step=n_step, seed=1, frame_stack=DEPTH)
    memory.insert_data_slice(steps)
    batch = memory.sample(300)
    assert batch[keys.OBS].nbytes > 2 * (1 << 22)
    first = batch[keys.IDXS].numpy()
    last = first + batch[keys.N_STEP].numpy().ravel() - 1
    assert torch.equal(batch[keys.OBS], torch.from_numpy(steps[keys.OBS][first, 0]))
    assert torch.equal(batch[keys.NEXT_OBS], torch.from_numpy(steps[keys.NEXT_OBS][last, 0]))
