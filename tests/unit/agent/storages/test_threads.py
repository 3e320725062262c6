"""One writer and several readers at once: every row is consistent, and nothing depends on threads."""

import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import EREBuffer, HERBuffer, NStepReplayBuffer, PERBuffer, ReplayBuffer
from tests.samples import Sample, lanes_of, make_slice, numbers_of, reward_if_reached, with_done, with_goals
from tests.waiting import PATIENCE_S

NUM_ENVS = 2
PIECE = 5
DURATION_S = 0.7
MIN_ROUNDS = 5
# Every seventh step ends its episode, so that windows and tails are met all the time.
EPISODE = 7

VARIANTS: dict[str, tuple[type[ReplayBuffer], dict[str, Any]]] = {
    "replay": (ReplayBuffer, {}),
    "nstep": (NStepReplayBuffer, {"n_step": 3}),
    "per": (PERBuffer, {"n_step": 3, "alpha": 0.6, "epsilon": 0.01, "default_error": 1.0}),
    "ere": (EREBuffer, {"n_step": 3, "alpha": 0.6, "epsilon": 0.01, "eta": 0.99, "cmin": 10}),
    "her": (
        HERBuffer,
        {"n_step": 3, "alpha": 0.6, "epsilon": 0.01, "share": 0.5, "compute_reward": reward_if_reached},
    ),
    "sequences": (PERBuffer, {"n_step": 2, "alpha": 0.6, "epsilon": 0.01, "sequence_length": 6, "sequence_overlap": 2}),
    "frames": (NStepReplayBuffer, {"n_step": 2, "frame_stack": 3}),
}


def make_memory(variant: str) -> ReplayBuffer:
    buffer, options = VARIANTS[variant]
    return buffer.standalone(60, num_envs=NUM_ENVS, gamma=0.5, seed=1, **options)


def make_piece(variant: str, first: int) -> Sample:
    """Steps `first` on; the observation of step `t` in env `e` begins with `[t, e]`."""
    ends = [number for number in range(first, first + PIECE) if number % EPISODE == EPISODE - 1]
    steps = make_slice(PIECE, num_envs=NUM_ENVS, first=first, truncated=ends)
    if variant == "her":
        return with_goals(steps)
    if variant == "sequences":
        return with_done(steps)
    if variant == "frames":
        return steps | {keys.OBS: stacked(steps[keys.OBS]), keys.NEXT_OBS: stacked(steps[keys.NEXT_OBS])}
    return steps


def stacked(values: np.ndarray) -> np.ndarray:
    """Stacks of three frames `[t, e]`, the last one of this step and the others of those before it."""
    begin = np.floor(values[..., 0]) // EPISODE * EPISODE
    frames = [values.copy() for _ in range(3)]
    for frame, back in zip(frames, (2, 1), strict=False):
        frame[..., 0] = np.maximum(np.ceil(values[..., 0]) - back, begin)
    return np.stack(frames, axis=2)


def current(value: Any) -> torch.Tensor:
    """The part `[t, e]` of observations of any variant."""
    if isinstance(value, dict):
        return value["observation"]
    return value


def assert_consistent(variant: str, batch: Sample) -> None:
    """Check every row against the number of its step."""
    numbers, lanes = numbers_of(batch).double(), lanes_of(batch).double()
    obs, after = current(batch[keys.OBS]).double(), current(batch[keys.NEXT_OBS]).double()
    if variant == "frames":
        obs, after = obs[:, -1], after[:, -1]
    if variant == "sequences":
        numbers = batch[keys.ACTION][..., 0].double()
        assert torch.equal(numbers[:, 0], numbers_of(batch).double())
        assert ((numbers[:, 1:] - numbers[:, :-1] == 1) | (numbers[:, 1:] == numbers[:, -1:])).all()
        lanes = lanes[:, None].expand(numbers.shape)
    assert torch.equal(obs[..., 0], numbers)
    assert torch.equal(obs[..., 1], lanes)
    assert torch.equal(after[..., 1], lanes)
    assert torch.equal(batch[keys.ACTION][..., 0].double(), numbers)
    used = batch[keys.N_STEP][..., 0].double()
    last = numbers + used - 1
    ended = last % EPISODE == EPISODE - 1
    assert (numbers // EPISODE == last // EPISODE).all()
    assert torch.equal(after[..., 0], torch.where(ended, last + 0.5, last + 1))
    assert torch.equal(batch[keys.DISCOUNT][..., 0].double(), 0.5**used)
    assert torch.equal(batch[keys.NEXT_DONE][..., 0].double(), ended.double())
    assert_returns(batch, numbers, used)


def assert_returns(batch: Sample, numbers: torch.Tensor, used: torch.Tensor) -> None:
    expected = sum(torch.where(used > i, 0.5**i * (numbers + i), 0.0) for i in range(3))
    is_stored = torch.ones(expected.shape, dtype=torch.bool)
    if isinstance(batch[keys.OBS], dict):
        is_stored = batch[keys.OBS][keys.DESIRED_GOAL][..., 0] == -1
    assert torch.equal(batch[keys.REWARD][..., 0].double()[is_stored], expected[is_stored])


class Workers:
    """Threads that repeat something until told to stop; the first error counts."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.errors: list[BaseException] = []
        self.num_rounds: dict[str, int] = {}

    def run(self, duration_s: float, jobs: dict[str, Callable[[int], None]]) -> None:
        """Run all jobs at the same time for a while, on a busy machine until each has had some rounds."""
        threads = [threading.Thread(target=self._repeat, args=item) for item in jobs.items()]
        for thread in threads:
            thread.start()
        start = time.monotonic()
        while not self.errors and time.monotonic() < start + PATIENCE_S:
            has_rounds = all(self.num_rounds.get(name, 0) >= MIN_ROUNDS for name in jobs)
            if has_rounds and time.monotonic() > start + duration_s:
                break
            time.sleep(0.01)
        self.is_over.set()
        for thread in threads:
            thread.join(timeout=PATIENCE_S)
        assert not any(thread.is_alive() for thread in threads)
        if self.errors:
            raise self.errors[0]

    def _repeat(self, name: str, job: Callable[[int], None]) -> None:
        try:
            for number in count():
                if self.is_over.is_set():
                    return
                job(number)
                self.num_rounds[name] = number + 1
        except BaseException as error:  # noqa: BLE001, handed to the main thread
            self.errors.append(error)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_are_consistent_while_another_thread_writes(variant: str) -> None:
    memory = make_memory(variant)
    for first in range(0, 60, PIECE):
        memory.insert_data_slice(make_piece(variant, first))

    def write(number: int) -> None:
        memory.insert_data_slice(make_piece(variant, 60 + number * PIECE))
        if number % 50 == 49:
            memory.update_storage_parameter("max_size", 40 + number % 60)

    def read(number: int) -> None:
        batches = list(memory.generate_batches(3, 48))
        for batch in batches:
            if keys.PER_WEIGHTS in batch:
                memory.update_priorities(batch, np.full(len(batch[keys.IDXS]), number % 5))
            assert_consistent(variant, batch)

    workers = Workers()
    workers.run(DURATION_S, {"writer": write, "reader": read, "other reader": read})
    assert min(workers.num_rounds[name] for name in ("writer", "reader", "other reader")) >= MIN_ROUNDS
    assert memory.num_cuts == 0


def run_program(variant: str) -> list[Sample]:
    """Insert, draw and update in a fixed order; returns the batches."""
    memory = make_memory(variant)
    batches = []
    for number in range(30):
        memory.insert_data_slice(make_piece(variant, number * PIECE))
        if number >= 2:
            batches += memory.generate_batches(2, 32)
            memory.update_priorities(batches[-1], np.full(len(batches[-1][keys.IDXS]), number % 5))
    return batches


@pytest.mark.parametrize("variant", VARIANTS)
def test_same_seed_and_same_calls_give_the_same_batches_whatever_the_threads(variant: str) -> None:
    num_threads = torch.get_num_threads()
    expected = run_program(variant)
    found: dict[str, list[Sample]] = {}
    try:
        torch.set_num_threads(num_threads + 1)
        threads = [
            threading.Thread(target=lambda name=name: found.update({name: run_program(variant)})) for name in "ab"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        torch.set_num_threads(num_threads)
    assert sorted(found) == ["a", "b"]
    for batches in found.values():
        assert len(batches) == len(expected)
        for batch, other in zip(batches, expected, strict=True):
            assert_same(batch, other)


def assert_same(value: Any, other: Any) -> None:
    if isinstance(value, dict):
        assert value.keys() == other.keys()
        for key in value:
            assert_same(value[key], other[key])
    else:
        assert torch.equal(value, other)


def test_another_seed_gives_other_batches() -> None:
    ids = []
    for seed in (1, 1, 2, None):
        memory = ReplayBuffer.standalone(60, num_envs=NUM_ENVS, seed=seed)
        memory.insert_data_slice(make_piece("replay", 0))
        ids.append(memory.sample(64)[keys.IDXS].tolist())
    assert ids[0] == ids[1]
    assert ids[0] != ids[2]
    assert ids[0] != ids[3]
