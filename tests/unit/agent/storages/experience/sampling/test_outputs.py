"""Batches belong to whoever holds them: memory is used again only when nothing refers to it any more."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.multiprocessing.reductions import reduce_tensor

from recollect import keys
from recollect.agent.storages import HERBuffer, NStepReplayBuffer, ReplayBuffer
from tests.samples import ALIGNMENT, make_slice, reward_if_reached, with_goals

BATCH = 512
WIDTH = 64  # 512 rows of 64 floats are 128 kB, which come from the pool
NUM_STEPS = 200

Holder = Callable[[torch.Tensor], tuple[Any, Callable[[Any], torch.Tensor]]]


def wide_slice() -> dict[str, Any]:
    steps = make_slice(NUM_STEPS, terminated=range(9, NUM_STEPS, 10))
    return steps | {key: np.repeat(steps[key], WIDTH // 2, axis=-1) for key in (keys.OBS, keys.NEXT_OBS)}


@pytest.fixture
def memory() -> NStepReplayBuffer:
    made = NStepReplayBuffer.standalone(NUM_STEPS, seed=1, n_step=2)
    made.insert_data_slice(wide_slice())
    return made


def product_graph(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A graph that has saved `tensor` for its backward pass, and the leaf whose gradient shows it."""
    leaf = torch.ones(tensor.shape, requires_grad=True)
    return (leaf * tensor).sum(), leaf


def gradient(graph: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    product, leaf = graph
    product.backward(retain_graph=True)
    return leaf.grad


HOLDERS: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[Any], torch.Tensor]]] = {
    "tensor": (lambda tensor: tensor, lambda held: held),
    "view": (lambda tensor: tensor.view(-1), lambda held: held),
    "slice": (lambda tensor: tensor[3:5, ::2], lambda held: held),
    "transposed": (lambda tensor: tensor.T, lambda held: held),
    "detached": (lambda tensor: tensor.detach(), lambda held: held),
    "split": (lambda tensor: tensor.split(100), lambda held: torch.cat(held)),
    "autograd graph": (product_graph, gradient),
    "numpy view": (lambda tensor: tensor.numpy(), torch.from_numpy),
    "numpy slice": (lambda tensor: tensor.numpy()[7:9, :3], torch.from_numpy),
    "memoryview": (
        lambda tensor: memoryview(tensor.numpy()),
        lambda held: torch.from_numpy(np.asarray(held)),
    ),
    "storage": (
        lambda tensor: tensor.untyped_storage(),
        lambda held: torch.tensor([], dtype=torch.float32).set_(held),
    ),
    "dlpack": (lambda tensor: np.from_dlpack(tensor), torch.from_numpy),
}


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_batches_are_aligned_as_products_want_it(batch_size: int, memory: NStepReplayBuffer) -> None:
    held = [memory.sample(batch_size) for _ in range(20)]
    assert all(batch[key].data_ptr() % ALIGNMENT == 0 for batch in held for key in (keys.OBS, keys.ACTION, keys.REWARD))


@pytest.mark.slow
@pytest.mark.parametrize("key", [keys.OBS, keys.NEXT_OBS])
@pytest.mark.parametrize("holder", HOLDERS)
def test_later_batches_leave_alone_what_is_still_held(holder: str, key: str, memory: NStepReplayBuffer) -> None:
    hold, read = HOLDERS[holder]
    memory.sample(BATCH)
    held = hold(memory.sample(BATCH)[key])
    expected = read(held).clone()
    gc.collect()
    for _ in range(20):
        memory.sample(BATCH)
    if isinstance(held, tuple) and holder == "autograd graph":
        held[1].grad = None
    assert torch.equal(read(held), expected)


def test_every_batch_of_a_long_list_keeps_its_rows(memory: NStepReplayBuffer) -> None:
    batches = list(memory.generate_batches(30, BATCH))
    for batch in batches:
        assert torch.equal(batch[keys.OBS][:, 0], batch[keys.IDXS].float())
        assert torch.equal(batch[keys.ACTION][:, 0], batch[keys.IDXS].float())
    addresses = {batch[key].data_ptr() for batch in batches for key in (keys.OBS, keys.NEXT_OBS)}
    assert len(addresses) == 60


def test_frames_and_goals_are_left_alone_too() -> None:
    steps = make_slice(60)
    frames = steps[keys.OBS].astype(np.uint8)[:, :, :1, None] * np.ones((1, 1, 1, 40, 40), np.uint8)[0]
    stacks = {keys.OBS: np.repeat(frames, 4, axis=2), keys.NEXT_OBS: np.repeat(frames + 1, 4, axis=2)}
    stacked = ReplayBuffer.standalone(60, seed=1, frame_stack=4)
    stacked.insert_data_slice(steps | stacks | {keys.NEXT_DONE: np.ones_like(steps[keys.NEXT_DONE])})
    goals = HERBuffer.standalone(60, seed=1, n_step=3, compute_reward=reward_if_reached)
    goals.insert_data_slice(with_goals(wide_slice()))
    for memory in (stacked, goals):
        held = memory.sample(300)
        copies = {id(tensor): tensor.clone() for tensor in leaves(held)}
        for _ in range(20):
            memory.sample(300)
        assert all(torch.equal(tensor, copies[id(tensor)]) for tensor in leaves(held))


def leaves(batch: dict[str, Any]) -> list[torch.Tensor]:
    """All tensors of a batch."""
    return [tensor for value in batch.values() for tensor in (leaves(value) if isinstance(value, dict) else [value])]


def test_memory_is_used_again_when_nothing_refers_to_it() -> None:
    memory = ReplayBuffer.standalone(10, seed=1)
    steps = make_slice(10)
    memory.insert_data_slice(steps | {key: np.repeat(steps[key], 5000, axis=-1) for key in (keys.OBS, keys.NEXT_OBS)})
    # Batches of 64 rows of 40 kB, twice.
    addresses = {memory.sample(64)[keys.OBS].data_ptr() for _ in range(3)}
    tracemalloc.start()
    try:
        addresses |= {memory.sample(64)[keys.OBS].data_ptr() for _ in range(10)}
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(addresses) <= 2
    assert peak < 500_000


def exchange_data(tensor: torch.Tensor) -> None:
    tensor.data = torch.full((3,), -5.0)


EXCHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "share_memory_": lambda tensor: tensor.share_memory_(),
    "data": exchange_data,
    "set_": lambda tensor: tensor.set_(torch.zeros(3)),
    "swap_tensors": lambda tensor: torch.utils.swap_tensors(tensor, torch.zeros(2, 2)),
    "resize_": lambda tensor: tensor.resize_(4),
    "squeeze_": lambda tensor: tensor.squeeze_(1),
    "transpose_": lambda tensor: tensor.t_(),
    "unsqueeze_": lambda tensor: tensor.unsqueeze_(0),
    "requires_grad_": lambda tensor: tensor.requires_grad_(),
    "half_filled": lambda tensor: tensor[::2].fill_(-5),
}


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_tensor_whose_memory_or_shape_was_exchanged_does_no_harm_later(exchange: str) -> None:
    memory = ReplayBuffer.standalone(NUM_STEPS, seed=1)
    memory.insert_data_slice(make_slice(NUM_STEPS))
    for _ in range(6):
        EXCHANGES[exchange](memory.sample(64)[keys.REWARD])
    bystanders = [torch.full((64, 1), -5.0) for _ in range(50)]
    for _ in range(20):
        batch = memory.sample(64)
        assert batch[keys.REWARD].shape == (64, 1)
        assert not batch[keys.REWARD].requires_grad
        assert torch.equal(batch[keys.REWARD].ravel(), batch[keys.IDXS].float())
    assert all((tensor == -5).all() for tensor in bystanders)


def test_a_batch_sent_to_another_process_is_not_overwritten() -> None:
    memory = ReplayBuffer.standalone(NUM_STEPS, seed=1)
    memory.insert_data_slice(make_slice(NUM_STEPS))
    # What a queue of torch.multiprocessing does to a tensor, and how the other side sees it.
    batch = memory.sample(64)
    rebuild, arguments = reduce_tensor(batch[keys.REWARD])
    received = rebuild(*arguments)
    expected = received.clone()
    del batch, arguments
    for _ in range(20):
        memory.sample(64)
    assert torch.equal(received, expected)


def test_small_tensors_that_are_held_are_left_alone_too(memory: NStepReplayBuffer) -> None:
    held = memory.sample(8)
    copies = {key: tensor.clone() for key, tensor in held.items()}
    for _ in range(20):
        memory.sample(8)
    assert all(torch.equal(held[key], copies[key]) for key in copies)


def test_a_loop_that_drops_its_batches_uses_few_arrays(memory: NStepReplayBuffer) -> None:
    addresses = {memory.sample(BATCH)[keys.OBS].data_ptr() for _ in range(50)}
    assert len(addresses) <= 2


def test_writing_into_a_batch_does_not_reach_the_store(memory: NStepReplayBuffer) -> None:
    before = memory.get_all_buffer_data()
    batch = memory.sample(BATCH)
    for tensor in leaves(batch):
        tensor.zero_()
    after = memory.get_all_buffer_data()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert before[keys.OBS].any()
