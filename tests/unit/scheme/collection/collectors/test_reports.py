"""Metrics say how each worker fares, and all of them together."""

import time

import pytest

from recollect.scheme.collection.collectors.reports import Receipt, WorkerRecord, worker_metrics


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_record_sums_up(now: list[float]) -> None:
    record = WorkerRecord(1, 2)
    for lag in (1, 3):
        now[0] += 5
        record.add(Receipt(100, 2.0, lag, 1000, 0.25, 4))
    report = record.report(restarts=6)
    assert (report.index_parent, report.index_worker) == (1, 2)
    assert (report.num_steps, report.steps_per_s) == (200, 50.0)
    assert (report.lag, report.max_lag) == (2.0, 3)
    assert (report.num_bytes, report.bytes_per_s, report.codec_s) == (2000, 200.0, 0.5)
    assert (report.restarts, report.env_failures) == (6, 4)


def test_failures_of_earlier_lives_count(now: list[float]) -> None:
    record = WorkerRecord(0, 0)
    record.add(Receipt(1, 1.0, 0, 1, 0.0, 3))
    assert record.report(0).is_alive
    record.restart()
    assert not record.report(1).is_alive
    record.add(Receipt(1, 1.0, 0, 1, 0.0, 2))
    assert record.report(1).env_failures == 5


def test_totals_and_single_workers(now: list[float]) -> None:
    records = [WorkerRecord(0, 0), WorkerRecord(1, 0), WorkerRecord(1, 1)]
    now[0] = 1.0
    for number, record in enumerate(records[:2]):
        record.add(Receipt(10, 1.0, number, 50, 0.5, 0))
    found = worker_metrics([record.report(number) for number, record in enumerate(records)])
    assert found["workers/number"] == 3
    assert found["workers/alive"] == 2
    assert found["workers/restarts"] == 3
    assert found["workers/policy_lag_max"] == 1
    assert found["workers/bytes_per_s"] == 100
    assert found["workers/0.0/steps_per_s"] == 10
    assert found["workers/1.1/steps_per_s"] == 0
    assert found["workers/1.1/restarts"] == 2


def test_there_is_nothing_to_say_without_workers() -> None:
    assert worker_metrics(()) == {}
