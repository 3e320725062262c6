"""Figures over seeds, against numbers worked by hand."""

import numpy as np
import pytest

from benchmarks.learn.statistics import mean_and_error, middle_with_interval


def test_standard_error_is_the_sample_deviation_over_the_root_of_the_number() -> None:
    estimate = mean_and_error([1.0, 2.0, 6.0])
    assert estimate.mean == pytest.approx(3.0)
    assert estimate.error == pytest.approx(np.sqrt(7.0) / np.sqrt(3.0))


def test_one_seed_has_no_spread() -> None:
    assert mean_and_error([5.0]).error == 0.0


def test_no_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one score"):
        mean_and_error([])
    with pytest.raises(ValueError, match="at least one score"):
        middle_with_interval([])


def test_the_middle_three_of_five_count() -> None:
    assert middle_with_interval([100.0, 1.0, 2.0, 3.0, -100.0]).value == pytest.approx(2.0)


def test_interval_holds_the_middle_and_narrows_with_more_seeds() -> None:
    few, many = (middle_with_interval(np.linspace(6, 14, num_seeds)) for num_seeds in (5, 500))
    assert few.low < few.value < few.high
    assert many.low < 10 < many.high
    assert many.high - many.low < 0.3 * (few.high - few.low)


def test_same_scores_give_the_same_interval() -> None:
    assert middle_with_interval([1.0, 2.0, 3.0]) == middle_with_interval([1.0, 2.0, 3.0])
