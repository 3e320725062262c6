"""Sources of a store: whose lanes are whose."""

import pytest

from recollect.agent.storages.experience.store.sources import Sources
from recollect.errors import StorageError


def no_lanes() -> int:
    raise AssertionError("no new lanes are needed")


def test_every_source_has_lanes_of_its_own() -> None:
    sources = Sources(num_envs=2)
    assert sources.join("a", 0, no_lanes).lane == 0
    assert sources.join("b", 5, lambda: 2).lane == 2
    assert (sources.names, sources.known["b"].received) == (["a", "b"], 5)
    assert [sources.lane_of(name) for name in "ab"] == [0, 2]
    assert sources.known["b"].one_step.tolist() == [2, 2, 0, 1]


def test_lanes_that_were_left_are_taken_first() -> None:
    sources = Sources(num_envs=2)
    sources.join("a", 0, no_lanes)
    sources.join("b", 0, lambda: 2)
    assert sources.release("a") == 0
    assert sources.names == ["b"]
    assert sources.join("c", 0, no_lanes).lane == 0


def test_unknown_sources_are_named_in_the_error() -> None:
    sources = Sources(num_envs=1)
    sources.join("a", 0, no_lanes)
    with pytest.raises(StorageError, match="nothing is stored from source 'x'; the sources are \\['a'\\]"):
        sources.lane_of("x")
    with pytest.raises(StorageError, match="no source 'x' feeds this storage"):
        sources.release("x")


def test_the_state_restores_sources_and_vacant_lanes() -> None:
    sources, other = Sources(num_envs=1), Sources(num_envs=1)
    sources.join("a", 0, no_lanes)
    sources.join("b", 7, lambda: 1)
    sources.release("a")
    state = sources.state(warned_of_cuts=True, cleared_at=3)
    other.load_state(state)
    assert other.state(warned_of_cuts=True, cleared_at=3) == state
    assert other.known["b"].received == 7
    assert other.join("c", 0, no_lanes).lane == 0
