"""Batches reach a device as they were drawn, however late their copies arrive.

Nothing here is run on an accelerator: stand-ins take the place of streams and of the device's memory.
"""

import ctypes
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from recollect import PERBuffer, ReplayBuffer, keys
from recollect.agent.storages.experience.sampling import staging
from recollect.agent.storages.experience.sampling.tensor_pool import host_tensor

NUM_BATCHES = 9


class LateStream:
    """Copies only when it is told to, as a busy device would; its tensors stand for those of a device.

    Like a device, it knows addresses: that what is there stays there is for others to see to.
    """

    def __init__(self) -> None:
        self.num_made = 0
        self.num_bytes = 0
        self.dtypes: set[torch.dtype] = set()
        self._waiting: list[tuple[SimpleNamespace, list[int], list[torch.Tensor]]] = []

    def make_tensor(self, shape: tuple[int, ...], dtype: np.dtype) -> torch.Tensor:
        self.num_made += 1
        return host_tensor(shape, dtype)

    def copy(self, tensors: Iterable[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor], Any]:
        sources = list(tensors)
        copies = [torch.zeros_like(source) for source in sources]
        state = SimpleNamespace(has_arrived=False)
        self._waiting.append((state, [source.data_ptr() for source in sources], copies))
        self.num_bytes += sum(source.nbytes for source in sources)
        self.dtypes |= {source.dtype for source in sources}
        return sources, copies, SimpleNamespace(query=lambda: state.has_arrived)

    def arrive(self) -> None:
        """Let all copies arrive that are under way."""
        for state, addresses, copies in self._waiting:
            state.has_arrived = True
            for address, target in zip(addresses, copies, strict=True):
                ctypes.memmove(target.data_ptr(), address, target.nbytes)
        self._waiting.clear()


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> LateStream:
    """The side stream of every device but the CPU."""
    late = LateStream()
    monkeypatch.setattr(staging, "side_stream_of", lambda device: None if device.type == "cpu" else late)
    return late


def fill(memory: Any, shape: tuple[int, ...] = (4,), dtype: Any = np.float32) -> Any:
    rng = np.random.default_rng(3)
    states = rng.integers(0, 200, (41, 1, *shape)).astype(dtype)
    for t in range(40):
        ended = np.array([t % 7 == 6])
        memory.add(states[t], rng.integers(2, size=1), rng.random(1), states[t + 1], ended, ~ended & False)
    return memory


def batches_of(memory: Any) -> Iterator[Any]:
    return (memory.sample(8) for _ in range(NUM_BATCHES))


@pytest.mark.parametrize("options", [{}, {"n_step": 3, "alpha": 0.6}, {"sequence_length": 4}])
def test_batches_that_arrive_late_are_those_of_the_cpu(stream: LateStream, options: dict[str, Any]) -> None:
    here, there = (fill(PERBuffer.standalone(60, seed=1, device=name, **options)) for name in ("cpu", "meta"))
    sent = list(batches_of(there))
    stream.arrive()
    for expected, batch in zip(batches_of(here), sent, strict=True):
        assert batch.keys() == expected.keys()
        for key, values in expected.items():
            np.testing.assert_array_equal(batch[key], values, key)


def test_pinned_tensors_are_used_again_once_their_copies_have_arrived(stream: LateStream) -> None:
    memory = fill(ReplayBuffer.standalone(60, seed=1, device="meta"))
    for _ in range(2):
        memory.sample(8)
        stream.arrive()
    num_made = stream.num_made
    for _ in range(NUM_BATCHES):
        memory.sample(8)
        stream.arrive()
    assert stream.num_made == num_made > 0


def test_bytes_stay_bytes_and_frames_that_stacks_share_travel_once(stream: LateStream) -> None:
    frames = np.random.default_rng(1).integers(0, 256, (30, 8, 8)).astype(np.uint8)
    memory = ReplayBuffer.standalone(60, seed=1, device="meta", frame_stack=4)
    twin = ReplayBuffer.standalone(60, seed=1, frame_stack=4)
    no = np.zeros(1, np.bool_)
    for t in range(3, 29):
        obs, following = frames[None, t - 3 : t + 1], frames[None, t - 2 : t + 2]
        for each in (memory, twin):
            each.add(obs, np.zeros(1, np.int64), np.ones(1), following, no, no)
    batch, expected = memory.sample(16), twin.sample(16)
    stream.arrive()
    for key in (keys.OBS, keys.NEXT_OBS):
        np.testing.assert_array_equal(batch[key], expected[key], key)
    assert torch.uint8 in stream.dtypes
    others = sum(values.nbytes for key, values in batch.items() if key not in (keys.OBS, keys.NEXT_OBS, keys.IDXS))
    assert stream.num_bytes - others == 16 * 5 * 8 * 8


def test_priorities_are_answered_without_asking_the_device_for_ids(stream: LateStream) -> None:
    here, there = (fill(PERBuffer.standalone(60, seed=1, alpha=1.0, device=name)) for name in ("cpu", "meta"))
    for memory in (here, there):
        batch = memory.sample(8)
        assert batch[keys.IDXS].device.type == "cpu"
        memory.update_priorities(batch, torch.arange(8.0))
    stream.arrive()
    np.testing.assert_array_equal(here.tree.errors, there.tree.errors)


def test_a_device_without_streams_gets_plain_copies() -> None:
    batch = fill(PERBuffer.standalone(60, alpha=0.6, device="meta")).sample(8)
    assert {key for key, values in batch.items() if values.device.type == "cpu"} == {keys.IDXS}


class FakeTensor:
    """Notes what is done to it."""

    def __init__(self, log: list[str], name: str, *, is_pinned: bool) -> None:
        self._log, self._name, self._is_pinned = log, name, is_pinned

    def is_pinned(self) -> bool:
        return self._is_pinned

    def pin_memory(self) -> "FakeTensor":
        self._log.append(f"pin {self._name}")
        return FakeTensor(self._log, self._name, is_pinned=True)

    def to(self, device: torch.device, *, non_blocking: bool) -> "FakeTensor":
        assert self._is_pinned
        assert non_blocking
        self._log.append(f"copy {self._name}")
        return FakeTensor(self._log, f"{self._name} on {device}", is_pinned=False)

    def record_stream(self, stream: "FakeStream") -> None:
        self._log.append(f"{stream.name} uses {self._name}")


class FakeStream:
    """Notes what it is asked for; it cannot be waited for by the processor."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def __enter__(self) -> None:
        self.log.append(f"enter {self.name}")

    def __exit__(self, *error: object) -> None:
        self.log.append(f"leave {self.name}")

    def record_event(self) -> str:
        self.log.append(f"event on {self.name}")
        return "arrival"

    def wait_event(self, event: str) -> None:
        self.log.append(f"{self.name} waits for {event}")


def test_the_computing_stream_waits_on_the_device_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(torch, "Stream", lambda device: FakeStream(log, "side"))
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda device: FakeStream(log, "computing"))
    side = staging.side_stream_of(torch.device("cuda", 1))
    assert side is not None
    tensors: Any = [FakeTensor(log, "a", is_pinned=True), FakeTensor(log, "b", is_pinned=False)]
    sources, copies, arrival = side.copy(tensors)
    assert (len(sources), len(copies), arrival) == (2, 2, "arrival")
    assert sources[0] is tensors[0]
    assert log == [
        "pin b",
        "enter side",
        "copy a",
        "copy b",
        "leave side",
        "event on side",
        "computing waits for arrival",
        "computing uses a on cuda:1",
        "computing uses b on cuda:1",
    ]


def test_the_cpu_and_devices_without_pinned_memory_have_no_side_stream() -> None:
    assert [staging.side_stream_of(torch.device(name)) for name in ("cpu", "mps", "meta")] == [None, None, None]
