"""Sources of a store: whose lanes are whose."""

import numpy as np
import pytest

from recollect.agent.storages.experience.store.sources import Sources, join
from recollect.errors import StorageError


def no_lanes() -> int:
    raise AssertionError("no new lanes are needed")


def test_every_source_has_lanes_of_its_own() -> None:
    sources = Sources()
    assert sources.add("a", np.array([0, 0]), no_lanes).lane == 0
    assert sources.add("b", np.array([5, 5]), lambda: 2).lane == 2
    assert (sources.names, sources.known["b"].received.tolist()) == (["a", "b"], [5, 5])
    assert [sources.lane_of(name) for name in "ab"] == [0, 2]
    assert sources.known["b"].one_step.tolist() == [2, 2, 0, 1]


def test_lanes_that_were_left_are_taken_first() -> None:
    sources = Sources()
    sources.add("a", np.array([0, 0]), no_lanes)
    sources.add("b", np.array([0, 0]), lambda: 2)
    assert sources.release("a") == 0
    assert sources.names == ["b"]
    assert sources.add("c", np.array([0, 0]), no_lanes).lane == 0


def test_unknown_sources_are_named_in_the_error() -> None:
    sources = Sources()
    sources.add("a", np.array([0, 0]), no_lanes)
    with pytest.raises(StorageError, match="nothing is stored from source 'x'; the sources are \\['a'\\]"):
        sources.lane_of("x")
    with pytest.raises(StorageError, match="no source 'x' feeds this storage"):
        sources.release("x")


def test_the_state_restores_sources_and_vacant_lanes() -> None:
    sources, other = Sources(), Sources()
    sources.add("a", np.array([0, 0]), no_lanes)
    sources.add("b", np.array([7, 7]), lambda: 1)
    sources.release("a")
    state = sources.state(warned_of_cuts=True, cleared_at=3)
    other.load_state(state)
    assert other.state(warned_of_cuts=True, cleared_at=3) == state
    assert other.known["b"].received.tolist() == [7, 7]
    assert other.add("c", np.array([0, 0]), no_lanes).lane == 0


def test_what_is_new_what_is_a_gap_and_what_is_a_repetition() -> None:
    received, begins = np.array([5, 5, 5, 5, 5]), np.array([5, 3, 7, 0, 4])
    joint = join(received, begins, np.array([2, 4, 2, 3, 0]))
    assert joint.num_known.tolist() == [0, 2, 0, 3, 0]
    assert joint.follows.tolist() == [True, True, False, True, True]


def test_steps_that_all_lanes_received_count_for_each() -> None:
    source = Sources().add("a", np.array([3, 5]), no_lanes)
    source.num_rows += 2
    assert source.received.tolist() == [5, 7]
    source.received = np.array([9, 9])
    source.num_rows += 1
    assert source.received.tolist() == [10, 10]
