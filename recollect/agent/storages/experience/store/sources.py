"""`Sources`: the sources of a store, their lanes, and the steps received from each."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recollect.checks import check_whole
from recollect.errors import ConfigError, StorageError


class Continuation(NamedTuple):
    """How steps continue what was received of their stream before, lane by lane.

    Attributes
    ----------
    num_known : int64 [num_lanes]
        Steps at the beginning that were received before.
    follows : bool [num_lanes]
        Whether the first one after these directly follows on what was received; elsewhere there is a gap.
    """

    num_known: np.ndarray
    follows: np.ndarray


def join(received: np.ndarray, begins: np.ndarray, num_steps: np.ndarray | int) -> Continuation:
    """What of `num_steps` steps from the numbers `begins` on is new after `received`, all [num_lanes]."""
    return Continuation(np.minimum(np.maximum(received - begins, 0), num_steps), begins <= received)


class Source:
    """One feeder of a store: its first lane, and how many steps of each lane's stream were received so far.

    Attributes
    ----------
    num_rows : int
        Steps received of all lanes alike; counting them costs less than an array does.
    """

    def __init__(self, lane: int, received: np.ndarray) -> None:
        self.lane = lane
        self.num_rows = 0
        self.one_step = np.array([lane, len(received), 0, 1], np.int64)
        self._received = np.array(received, np.int64)

    @property
    def received(self) -> np.ndarray:
        """Steps received, int64 [num_envs]."""
        return self._received + self.num_rows

    @received.setter
    def received(self, numbers: np.ndarray) -> None:
        self._received = numbers - self.num_rows


@dataclass(frozen=True)
class StoreState:
    """What a snapshot needs beside the ring.

    Attributes
    ----------
    sources : tuple
        Name, first lane and steps received, lane by lane, of each source.
    vacant_lanes : tuple of int
        First lanes of those that left.
    warned_of_cuts : bool
        Whether the warning of unannounced breaks was given.
    cleared_at : int
        Steps that the first lane had received when the store was last emptied.
    """

    sources: tuple[tuple[Hashable, int, tuple[int, ...]], ...]
    vacant_lanes: tuple[int, ...]
    warned_of_cuts: bool
    cleared_at: int


def check_source(source: Hashable) -> None:
    """Refuse what cannot be a source's name."""
    try:
        hash(source)
    except TypeError:
        raise ConfigError(f"source must be hashable, such as a number or a string, got {source!r}") from None


def check_origin(source: Hashable, first_step: int | None) -> int | None:
    """Refuse what cannot be a source's name, or the running number of a step; returns the number."""
    check_source(source)
    return None if first_step is None else check_whole("first_step", first_step)


class Sources:
    """The feeders of a store, each with lanes of its own.

    Attributes
    ----------
    known : dict
        The sources that feed the store, by name.
    """

    def __init__(self) -> None:
        self.known: dict[Hashable, Source] = {}
        self._vacant_lanes: list[int] = []

    @property
    def names(self) -> list[Hashable]:
        """Names of the sources, in the order in which they joined."""
        return list(self.known)

    def lane_of(self, name: Hashable) -> int:
        """First of the lanes that a source feeds."""
        check_source(name)
        if name not in self.known:
            raise StorageError(f"nothing is stored from source {name!r}; the sources are {self.names}")
        return self.known[name].lane

    def add(self, name: Hashable, received: np.ndarray, add_lanes: Callable[[], int]) -> Source:
        """A source; a new one feeds the first lanes, those that another left, or those that `add_lanes` adds."""
        if name in self.known:
            return self.known[name]
        if self._vacant_lanes:
            lane = self._vacant_lanes.pop(0)
        elif not self.known:
            lane = 0
        else:
            lane = add_lanes()
        self.known[name] = Source(lane, received)
        return self.known[name]

    def release(self, name: Hashable) -> int:
        """Let the lanes of a source that left be taken by the next one that joins; returns the first of them."""
        check_source(name)
        if name not in self.known:
            raise StorageError(f"no source {name!r} feeds this storage; its sources are {self.names}")
        lane = self.known.pop(name).lane
        self._vacant_lanes.append(lane)
        return lane

    def clear(self) -> None:
        """Forget all sources."""
        self.known.clear()

    def state(self, *, warned_of_cuts: bool, cleared_at: int) -> StoreState:
        """Who feeds the store, and how far they got."""
        sources = [(name, source.lane, tuple(source.received.tolist())) for name, source in self.known.items()]
        return StoreState(tuple(sources), tuple(self._vacant_lanes), warned_of_cuts, cleared_at)

    def load_state(self, state: StoreState) -> None:
        """Replace the sources by those of a snapshot."""
        self.known = {name: Source(lane, np.array(received)) for name, lane, received in state.sources}
        self._vacant_lanes = list(state.vacant_lanes)
