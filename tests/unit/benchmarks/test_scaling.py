"""The scaling benchmark says what it measured, and its envs are what they claim to be."""

import time

import numpy as np
import pytest

from benchmarks.scaling import Outcome, parse, report
from benchmarks.sleepers import EPISODE, OneIsSlow, SleepingEnv, make_parts

MACHINE = {
    "time": "2026-11-15T00:00:00",
    "cpu": "AMD EPYC",
    "cores": 2,
    "memory_gib": 8,
    "python": "3.11",
    "packages": {},
    "threads_per_competitor": 1,
    "load_average": 0.1,
}


def make_outcome() -> Outcome:
    return Outcome(
        MACHINE,
        rates={"sync": {1: 100.0, 16: 1440.0}, "async": {1: 100.0, 16: 1520.0}},
        overhead_us={"sync": {1: 50.0, 16: 40.0}, "async": {1: 55.0, 16: 45.0}},
        straggler={"all_alike": 1440.0, "one_slow": 300.0, "one_slow_preempted": 1300.0},
        path={"mb_per_s": 500.0, "copy_mb_per_s": 5000.0, "message_ms": 1.5, "message_bytes": 2.9e6},
    )


def test_efficiency_is_relative_to_one_worker() -> None:
    assert make_outcome().efficiency("sync") == pytest.approx(0.9)
    assert make_outcome().efficiency("async") == pytest.approx(0.95)


def test_the_report_has_it_all() -> None:
    text = report(make_outcome())
    for part in (
        "| 16 | 1,440 | 1,520 | 45 |",
        "16 async workers: 95% (at least 90%)",
        "16 sync workers: 90% (at least 85%)",
        "21% of the rate without it; with preemption 90% (at least 85%)",
        "500 MB/s in messages of 2.9 MB (a plain copy in memory: 5,000 MB/s)",
        "a small message takes 1.5 ms",
    ):
        assert part in text


def test_an_env_sleeps_and_its_episodes_are_cut() -> None:
    env = SleepingEnv(0.002, obs_size=3)
    obs, _ = env.reset(seed=1)
    assert obs.shape == (3,)
    begin = time.perf_counter()
    ends = [env.step(0)[3] for _ in range(EPISODE)]
    assert time.perf_counter() - begin >= 0.002 * EPISODE
    assert np.flatnonzero(ends).tolist() == [EPISODE - 1]


def test_only_the_first_worker_is_slow() -> None:
    parts = make_parts(0.0, 10, slow_factor=5.0)
    assert isinstance(parts["train_envs_factory"], OneIsSlow)
    assert not isinstance(make_parts(0.0, 10)["train_envs_factory"], OneIsSlow)
    factory = OneIsSlow(lambda *_: "usual", lambda *_: "slow")
    assert [factory("cpu", index) for index in range(3)] == ["slow", "usual", "usual"]


def test_options() -> None:
    assert parse(["--quick"]).quick
    assert parse(["--seconds", "2"]).seconds == 2.0
