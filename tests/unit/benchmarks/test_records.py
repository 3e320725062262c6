"""A record comes back as it was written, and knows the settings that made it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.learn.records import Episodes, hash_of, path_of, read
from tests.unit.benchmarks.builders import make_record


def test_a_record_survives_the_disk(tmp_path: Path) -> None:
    record = make_record()
    record.write(tmp_path)
    assert read(tmp_path, "small", 1) == record


def test_there_is_no_record_of_another_seed(tmp_path: Path) -> None:
    make_record().write(tmp_path)
    assert read(tmp_path, "small", 2) is None


def test_measured_numbers_are_short_and_settings_exact(tmp_path: Path) -> None:
    evaluation = Episodes([1 / 3], [10], None)
    path = make_record(evaluation=evaluation, config={"learning_rate": 1 / 3}).write(tmp_path)
    data = json.loads(path.read_text())
    assert data["evaluation"]["returns"] == [0.333]
    assert data["config"]["learning_rate"] == 1 / 3


def test_nothing_but_the_record_is_left(tmp_path: Path) -> None:
    path = make_record().write(tmp_path)
    assert list(tmp_path.iterdir()) == [path] == [path_of(tmp_path, "small", 1)]


def test_hash_ignores_order_and_sees_values() -> None:
    assert hash_of({"a": 1, "b": {"c": 2}}) == hash_of({"b": {"c": 2}, "a": 1})
    assert hash_of({"a": 1}) != hash_of({"a": 2})


def test_scores_of_an_evaluation() -> None:
    episodes = make_record().evaluation
    assert episodes.mean_return == 2.0
    assert episodes.success_rate == 0.5


def test_success_is_not_invented() -> None:
    episodes = replace(make_record().evaluation, successes=None)
    with pytest.raises(ValueError, match="tells no success"):
        _ = episodes.success_rate
