"""Gradients are applied as they come, but none later than it may."""

import random

import pytest

from recollect.scheme.gradients.async_source import overdue_version


def test_without_a_bound_the_first_goes_first() -> None:
    assert overdue_version(1000, 1000, [0, 1], None) is None


def test_one_that_would_come_too_late_goes_first() -> None:
    assert overdue_version(3, 3, [1], 2) == 1
    assert overdue_version(3, 3, [2], 2) is None
    # Two of the same version cannot both be the next one.
    assert overdue_version(3, 3, [2, 2], 2) == 2


def test_the_first_in_line_may_itself_be_the_oldest() -> None:
    assert overdue_version(3, 1, [2, 2], 2) == 1


@pytest.mark.parametrize("num_workers", [1, 2, 3, 5])
@pytest.mark.parametrize("slack", [0, 1, 4])
def test_no_lag_exceeds_the_bound_however_slow_some_are(num_workers: int, slack: int) -> None:
    bound = num_workers - 1 + slack
    draw = random.Random(1)
    pending = [0] * num_workers
    for num_updates in range(500):
        # Any of them may come first, the last worker hardly ever does.
        first = min(draw.sample(range(num_workers), min(2, num_workers)))
        others = pending[:first] + pending[first + 1 :]
        overdue = overdue_version(num_updates, pending[first], others, bound)
        taken = first if overdue is None else pending.index(overdue)
        assert num_updates - pending[taken] <= bound
        pending[taken] = num_updates + 1
