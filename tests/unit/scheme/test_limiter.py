"""Updates and collected steps keep their ratio to each other, whoever is ahead."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.errors import ConfigError
from recollect.scheme.limiter import ReplayRatio


@settings(deadline=None)
@given(st.floats(0.001, 20.0), st.lists(st.integers(0, 100), max_size=10))
def test_no_update_is_early_and_none_is_left_out(ratio: float, stages: list[int]) -> None:
    limiter, num_updates = ReplayRatio(ratio), 0
    for num_steps in stages:
        limiter.collected(num_steps)
        for due in range(limiter.due, 0, -1):
            assert limiter.due == due
            limiter.updated()
            num_updates += 1
        assert limiter.due == 0
    assert abs(num_updates - ratio * sum(stages)) < 1 + 1e-6


def test_an_update_is_due_with_the_step_that_makes_it_whole() -> None:
    limiter = ReplayRatio(0.3)
    limiter.collected(3)
    assert limiter.due == 0
    limiter.collected(1)
    assert limiter.due == 1


def test_going_on_from_a_state() -> None:
    limiter, other = ReplayRatio(0.5), ReplayRatio(0.5)
    limiter.collected(9)
    for _ in range(3):
        limiter.updated()
    other.load_state(limiter.state(), 9)
    assert other.due == limiter.due == 1
    other.updated()
    other.collected(1)
    assert other.due == 1


def test_no_updates_at_all_are_no_ratio() -> None:
    with pytest.raises(ConfigError, match="above 0"):
        ReplayRatio(0.0)


@pytest.mark.parametrize("credit", [1e300, -1e300])
def test_a_forged_state_has_no_more_updates_due_than_its_steps_allow(credit: float) -> None:
    limiter = ReplayRatio(0.5)
    limiter.load_state({"replay_credit": credit}, 8)
    limiter.collected(10)
    assert limiter.due == (10 if credit > 0 else 0)


@pytest.mark.parametrize("credit", [float("nan"), float("inf"), "1", None, True])
def test_a_state_without_a_number_is_refused(credit: object) -> None:
    with pytest.raises(ValueError, match="expected a"):
        ReplayRatio(0.5).load_state({"replay_credit": credit}, 8)
