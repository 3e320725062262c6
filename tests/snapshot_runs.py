"""Prioritised buffers of every kind that snapshots and journals are tried on, and what makes two of them alike."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from recollect import keys
from recollect.agent.storages import PERBuffer
from recollect.agent.storages.experience.persistence.snapshot import Snapshot
from tests.reference import Row, flatten, same_bits
from tests.simulated import LAYOUTS, FrameStack, ObservationKind, SourceStream, StreamKind, as_sample, state_numbers

NUM_ENVS = 2
FLAGS = frozenset([keys.DONE, keys.NEXT_TERMINATED, keys.CUT, keys.IREWARD])
STATES = frozenset([*FLAGS, keys.RHS])
STACK = FrameStack(3, 0, "odd", "uint8", (5,), few_values=True)
SEQUENCES = {"sequence_length": 5, "sequence_overlap": 2}

KINDS: dict[str, tuple[StreamKind, dict[str, Any]]] = {
    "vector": (StreamKind(ObservationKind(LAYOUTS["vector"]), FLAGS), {}),
    "nested": (StreamKind(ObservationKind(LAYOUTS["nested"]), FLAGS, flag_dtype="bool"), {}),
    "block": (StreamKind(ObservationKind(LAYOUTS["block"]), FLAGS), {}),
    "frames": (StreamKind(ObservationKind({}, {"": STACK}), FLAGS), {"frame_stack": 3}),
    "sequences": (
        StreamKind(ObservationKind(LAYOUTS["vector"]), STATES, nested_states=True),
        SEQUENCES,
    ),
    "stacked sequences": (
        StreamKind(ObservationKind({}, {"": STACK}), STATES),
        {**SEQUENCES, "frame_stack": 3},
    ),
}


class Run:
    """A prioritised buffer, its streams, and all that was ever inserted, source by source.

    Parameters
    ----------
    kind : str
        Which of `KINDS`.
    size : int
        Size of the buffer.
    seed : int
        Seed of the streams.
    options : dict
        Options beside those of the kind.
    """

    def __init__(self, kind: str, size: int = 24, seed: int = 0, **options: Any) -> None:
        stream, self.options = KINDS[kind]
        self.buffer = self.build(size, **options)
        states = state_numbers()
        sources: list[Hashable] = [0, ("worker", 1)]
        self.streams = {
            source: SourceStream(stream, NUM_ENVS, [seed, index], states) for index, source in enumerate(sources)
        }
        self.inserted: dict[Hashable, list[Row]] = {source: [] for source in sources}

    def build(self, size: int, **options: Any) -> PERBuffer:
        return PERBuffer.standalone(
            size, num_envs=NUM_ENVS, n_step=3, alpha=0.7, gamma=0.9, seed=5, **self.options, **options
        )

    def fill(self, num_steps: int, *others: PERBuffer) -> None:
        """Insert the same steps into the buffer and others, and update some priorities."""
        for source, stream in self.streams.items():
            data = stream.take(num_steps)
            self.inserted[source].append(data)
            for buffer in (self.buffer, *others):
                buffer.insert_data_slice(as_sample(data, "numpy"), source=source)
        for buffer in (self.buffer, *others):
            batch = buffer.sample(20)
            buffer.update_priorities(batch, np.linspace(0, 4, len(batch[keys.IDXS])))

    def newest(self, source: Hashable, num_steps: int) -> Row:
        """The last steps inserted from a source, by plain concatenation."""
        slices = self.inserted[source]
        joined = {path: np.concatenate([part[path] for part in slices]) for path in slices[0]}
        return {path: values[len(values) - num_steps :] for path, values in joined.items()}


def write(buffer: PERBuffer, snapshot: Snapshot) -> None:
    snapshot.write(buffer.store, buffer.state())


def read(buffer: PERBuffer, snapshot: Snapshot) -> PERBuffer:
    buffer.load_state(snapshot.read(buffer.store))
    return buffer


def assert_same(left: Row, right: Row) -> None:
    assert set(left) == set(right)
    for path, values in left.items():
        assert same_bits(values, right[path]), path


def assert_alike(left: PERBuffer, right: PERBuffer) -> None:
    """Same contents, same cursors and counts, same batches."""
    for name in ("size", "step", "num_cuts", "max_size"):
        assert getattr(left, name) == getattr(right, name), name
    assert (len(left), left.store.sources) == (len(right), right.store.sources)
    assert left.store.ring.num_ends == right.store.ring.num_ends
    for source in left.store.sources:
        assert_same(*(flatten(each.get_all_buffer_data(source=source)) for each in (left, right)))
    for _ in range(3):
        batches = [each.sample(30) for each in (left, right)]
        assert_same(*map(flatten, batches))
        for each, batch in zip((left, right), batches, strict=True):
            each.update_priorities(batch, np.linspace(0, 2, len(batch[keys.IDXS])))
