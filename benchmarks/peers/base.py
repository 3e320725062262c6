"""The interface that every competitor's adapter has."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from itertools import cycle
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.cartpole import CartPoleDQN, Transitions
from benchmarks.synthetic import Array, Chunk, step_cycle
from benchmarks.workloads import Kind, Store, Workload

Call = Callable[[], Any]

NUM_ERRORS = 16


class UnsupportedError(Exception):
    """A competitor has no such feature; the message says so."""


class Adapter(ABC):
    """A competitor's store, filled and ready to be timed.

    Parameters
    ----------
    store : Store
        What to hold. `fill` puts the steps of `benchmarks.synthetic.chunks` into it.
    """

    title: ClassVar[str]
    distribution: ClassVar[str]
    missing: ClassVar[Mapping[Kind, str]] = {}
    """Kinds of store that the competitor does not have, with the reason."""

    def __init__(self, store: Store) -> None:
        if store.kind in self.missing:
            raise UnsupportedError(self.missing[store.kind])
        self.store = store

    @classmethod
    def version(cls) -> str:
        return version(cls.distribution)

    @classmethod
    def note(cls) -> str:
        """Say what a reader must know about the build that runs."""
        return ""

    @abstractmethod
    def fill(self) -> None:
        """Fill the store to its capacity, by the fastest way that leaves what single inserts would."""

    @abstractmethod
    def prioritise(self) -> None:
        """Give every stored step a random priority, as a store in use has them."""

    @abstractmethod
    def sample(self, batch_size: int) -> Any:
        """Draw one batch in the competitor's own form."""

    def draw(self, batch_size: int) -> Any:
        """Draw one batch, with weights and all that `answer` needs where there are priorities."""
        return self.sample(batch_size)

    @abstractmethod
    def answer(self, batch: Any, errors: NDArray[np.float32]) -> None:
        """Give the rows of a batch that was drawn the priorities of `errors` [batch]."""

    def round_trip(self, batch_size: int, errors: NDArray[np.float32]) -> Any:
        """Draw one batch and answer it."""
        batch = self.draw(batch_size)
        self.answer(batch, errors)
        return batch

    @abstractmethod
    def steps(self, chunks: Sequence[Chunk]) -> list[Any]:
        """Convert single steps into what `insert` takes; not timed."""

    @abstractmethod
    def insert(self, step: Any) -> Any:
        """Insert one step of every environment."""

    @abstractmethod
    def add(
        self, obs: Array, action: Array, reward: Array, next_obs: Array, terminated: Array, truncated: Array
    ) -> None:
        """Insert one step of one environment as a training loop has it, arrays `[1, …]`."""

    @abstractmethod
    def transitions(self, batch: Any) -> Transitions:
        """Return what a network learns from; libraries that hand out arrays wrap them in tensors."""

    def train(self, step: tuple[Array, ...], batch_size: int, errors: NDArray[np.float32]) -> Any:
        """Do what each step of a training loop does: add a step and draw a batch, with priorities answer it."""
        self.add(*step)
        return self.round_trip(batch_size, errors) if self.store.prioritised else self.sample(batch_size)

    @abstractmethod
    def num_rows(self, batch: Any) -> int:
        """Count a batch's transitions."""

    def torch_steps(self, chunks: Sequence[Chunk]) -> list[Any]:
        """Convert single steps into tensors that `insert` takes; not timed."""
        raise UnsupportedError("only Recollect is timed with both kinds of input")

    def counters(self) -> dict[str, int]:
        """Return what the store counts of its own work."""
        return {}

    def operation(self, workload: Workload) -> Call:
        """Return the call that a workload times."""
        size = workload.batch_size
        if workload.operation == "dqn":
            return CartPoleDQN(self, size).step
        if workload.operation == "sample":
            return lambda: self.sample(size)
        if workload.operation == "round_trip":
            errors = cycle(random_errors(size))
            return lambda: self.round_trip(size, next(errors))
        chunks = step_cycle(self.store)
        if workload.operation == "train":
            given = cycle(zip([fields_of(chunk) for chunk in chunks], cycle(random_errors(size)), strict=False))
            return lambda: _train(self, size, *next(given))
        convert = self.torch_steps if workload.operation == "insert_torch" else self.steps
        steps = cycle(convert(chunks))
        return lambda: self.insert(next(steps))


def _train(adapter: Adapter, batch_size: int, step: tuple[Array, ...], errors: NDArray[np.float32]) -> Any:
    return adapter.train(step, batch_size, errors)


def fields_of(chunk: Chunk) -> tuple[Array, ...]:
    """Arrays `[1, …]` of a single step, as vector environments hand them out: rewards as float64."""
    rewards = chunk.reward[0].astype(np.float64)
    return chunk.obs[0], chunk.action[0], rewards, chunk.next_obs[0], chunk.terminated[0], chunk.truncated[0]


def random_errors(batch_size: int) -> list[NDArray[np.float32]]:
    """Make TD errors for some batches."""
    rng = np.random.default_rng(3)
    return [rng.random(batch_size, np.float32) for _ in range(NUM_ERRORS)]
