"""The report says what was measured, and by how much a score was missed."""

from typing import Any

from benchmarks.learn.goals import AsGoodAs, AtLeast
from benchmarks.learn.records import Episodes
from benchmarks.learn.report import Row, markdown, sentence, summary, table
from tests.unit.benchmarks.builders import make_cell, make_record


def row(returns: list[float], **changes: Any) -> Row:
    """A cell whose seeds had these mean returns."""
    cell = make_cell(**{"seeds": tuple(range(1, len(returns) + 1))} | changes)
    evaluations = [Episodes([value], [10], None) for value in returns]
    return Row(cell, [make_record(cell=cell.key, seed=k, evaluation=x) for k, x in enumerate(evaluations, 1)])


def outcome(*rows: Row) -> list[str]:
    return [line[-1] for line in table(rows)[1:]]


def test_score_with_its_standard_error() -> None:
    line = table([row([1.0, 2.0, 6.0], goal=AtLeast(2.5))])[1]
    assert line == ["Small-v0", "Agent", "100", "3 ± 1.5", "≥ 2.5", "reached"]


def test_a_miss_is_said_with_its_size() -> None:
    assert outcome(row([470.0, 472.0], goal=AtLeast(475))) == ["missed by 4"]


def test_a_cell_that_has_not_run_is_no_success() -> None:
    assert outcome(row([], goal=AtLeast(1), seeds=(1, 2, 3))) == ["not measured yet"]


def test_missing_seeds_are_told() -> None:
    assert table([row([1.0], seeds=(1, 2, 3))])[1][3] == "1 (1 of 3 seeds)"
    assert table([row([1.0, 2.0], seeds=(1, 2, 3))])[1][3] == "1.5 ± 0.5 (2 of 3 seeds)"
    assert outcome(row([1.0], seeds=(1, 2, 3), goal=AtLeast(0))) == ["reached so far"]
    assert outcome(row([1.0], seeds=(1, 2, 3), goal=AtLeast(3))) == ["missed by 2 so far"]


def test_a_peer_is_compared_with_its_mean_minus_one_error() -> None:
    peer = row([90.0, 110.0], key="peer")
    assert outcome(row([91.0], goal=AsGoodAs("peer")), peer) == ["reached", ""]
    assert outcome(row([80.0], goal=AsGoodAs("peer")), peer) == ["missed by 10", ""]
    assert outcome(row([91.0], goal=AsGoodAs("peer"))) == ["no score of the peer yet"]
    running = row([90.0, 110.0], key="peer", seeds=(1, 2, 3))
    assert outcome(row([91.0], goal=AsGoodAs("peer")), running) == ["reached so far", ""]
    assert summary([row([91.0], goal=AsGoodAs("peer")), running]) == "0 of 0 scores reached, 1 not complete yet"


def test_a_peer_whose_error_is_as_large_as_its_mean_is_pointed_out() -> None:
    ours = row([5.0], goal=AsGoodAs("peer"))
    for peer, is_weak in [(row([-90.0, 110.0], key="peer"), True), (row([90.0, 110.0], key="peer"), False)]:
        assert ("The Small-v0 score is inconclusive" in markdown([ours, peer])) is is_weak
        assert ("The Small-v0 score is inconclusive" in sentence([ours, peer])) is is_weak
    assert "standard error is as large as its mean (100 and 10)" in markdown([ours, row([-90.0, 110.0], key="peer")])
    assert "inconclusive" not in markdown([ours, row([], key="peer")])


def test_summary_counts_cells_with_all_their_seeds_only() -> None:
    complete = [row([5.0], goal=AtLeast(4)), row([3.0], goal=AtLeast(4)), row([1.0])]
    partial = [row([], goal=AtLeast(4), seeds=(1,)), row([5.0], goal=AtLeast(4), seeds=(1, 2))]
    assert summary(complete) == "1 of 2 scores reached"
    assert summary([*complete, *partial]) == "1 of 2 scores reached, 2 not complete yet"


def test_markdown_has_date_and_versions() -> None:
    text = markdown([row([5.0, 6.0], goal=AtLeast(4))])
    assert "| Small-v0 | Agent | 100 | 5.5 ± 0.5 | ≥ 4 | reached |" in text
    assert "2 runs, 2026-01-02" in text
    assert "recollect 0.1.0" in text
