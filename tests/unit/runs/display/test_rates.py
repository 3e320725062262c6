"""Rates are those of late."""

import pytest

from recollect.runs.display.rates import Rates


def test_nothing_is_known_at_first() -> None:
    rates = Rates()
    assert rates.per_second() == (0.0, 0.0)
    rates.follow(1.0, 10, 5)
    assert rates.per_second() == (0.0, 0.0)


def test_two_counts_make_a_rate() -> None:
    rates = Rates()
    rates.follow(1.0, 10, 5)
    rates.follow(1.1, 30, 6)
    assert rates.per_second() == pytest.approx((200.0, 10.0))


def test_what_is_long_ago_does_not_count() -> None:
    rates = Rates()
    for tenth in range(1000):
        elapsed_s = tenth / 10
        num_steps = 1000 * elapsed_s if elapsed_s < 50 else 50_000 + 10 * (elapsed_s - 50)
        rates.follow(elapsed_s, round(num_steps), 0)
    assert rates.per_second()[0] == pytest.approx(10, rel=0.05)
