"""The ablation reduces runs to interquartile means, and draws them."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.learn import figure
from benchmarks.learn.ablation import ABLATION, analyse, markdown, table
from benchmarks.learn.records import Episodes
from benchmarks.learn.report import Row
from tests.unit.benchmarks.builders import make_record


def rows() -> list[Row]:
    """Five seeds of each variant with final returns 0, 1, 2, 3 and 100 more than the variant's number."""
    offsets = (0.0, 1.0, 2.0, 3.0, 100.0)
    return [
        Row(cell, [_record(cell.key, seed, number + x) for seed, x in enumerate(offsets, 1)])
        for number, cell in enumerate(ABLATION)
    ]


def _record(key: str, seed: int, score: float) -> object:
    evaluation = Episodes([score - 1, score + 1], [5, 5], None)
    return make_record(cell=key, seed=seed, evaluation=evaluation, curve=[(100, score - 4), (200, score - 2)])


def test_the_outlier_does_not_count() -> None:
    outcome = analyse(rows())[0]
    assert outcome.final.value == pytest.approx(2.0)
    assert outcome.during_training.value == pytest.approx(-1.0)
    assert outcome.final.low < outcome.final.value < outcome.final.high
    np.testing.assert_array_equal(outcome.steps, [100, 200])
    assert outcome.curve.shape == (5, 2)


def test_every_variant_has_its_line() -> None:
    lines = table(analyse(rows()))[1:]
    assert [line[:3] for line in lines[:2]] == [["Pendulum-v1", "uniform", "5"], ["Pendulum-v1", "n-step", "5"]]
    assert len({(line[0], line[1]) for line in lines}) == 10


def test_variants_that_have_not_run_are_left_out() -> None:
    assert len(analyse([Row(ABLATION[0], []), *rows()[1:]])) == 9


def test_the_figure_is_drawn_and_shown(tmp_path: Path) -> None:
    outcomes = analyse(rows())
    figure.draw(outcomes, tmp_path / "ablation.png")
    assert (tmp_path / "ablation.png").read_bytes().startswith(b"\x89PNG")
    assert "(ablation.png)" in markdown(outcomes, "ablation.png", "2026-01-02")
