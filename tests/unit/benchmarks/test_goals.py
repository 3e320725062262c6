"""Bounds say truthfully whether and by how much they are missed."""

import pytest

from benchmarks.learn.goals import AsGoodAs, AtLeast, Below, BetterThan, format_score
from benchmarks.learn.statistics import Estimate


@pytest.mark.parametrize(("mean", "shortfall"), [(480.0, 0.0), (475.0, 0.0), (470.0, 5.0)])
def test_at_least(mean: float, shortfall: float) -> None:
    assert AtLeast(475).shortfall(Estimate(mean, 1.0), None) == pytest.approx(shortfall)


@pytest.mark.parametrize(("mean", "shortfall"), [(0.1, 0.0), (0.25, 0.05)])
def test_below(mean: float, shortfall: float) -> None:
    assert Below(0.2).shortfall(Estimate(mean, 0.0), None) == pytest.approx(shortfall)


def test_as_good_as_a_peer_allows_one_standard_error_of_the_peer_and_none_of_ours() -> None:
    goal, peer = AsGoodAs("peer"), Estimate(100.0, 10.0)
    assert goal.shortfall(Estimate(90.0, 0.0), peer) == 0.0
    assert goal.shortfall(Estimate(88.0, 50.0), peer) == pytest.approx(2.0)
    assert goal.shortfall(Estimate(88.0, 50.0), None) is None


def test_better_than_another_by_more_than_its_standard_error() -> None:
    goal, peer = BetterThan("other"), Estimate(100.0, 10.0)
    assert goal.shortfall(Estimate(111.0, 50.0), peer) == 0.0
    assert goal.shortfall(Estimate(105.0, 0.0), peer) == pytest.approx(5.0)
    assert goal.shortfall(Estimate(105.0, 0.0), None) is None


@pytest.mark.parametrize(
    ("score", "unit", "text"),
    [(475, "return", "475"), (-180.25, "return", "−180.2"), (6514.6, "return", "6,515"), (0.953, "success", "95 %")],
)
def test_scores_read_well(score: float, unit: str, text: str) -> None:
    assert format_score(score, unit) == text
