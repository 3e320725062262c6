"""The scaling benchmark says what it measured, and its envs are what they claim to be."""

import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import scaling
from benchmarks.scaling import parse, write_files, write_guide
from benchmarks.scaling_costs import PieceSource, make_worker
from benchmarks.scaling_report import Outcome, draw, measured, projected
from benchmarks.scaling_rllib import INSTALL, rates_elsewhere
from benchmarks.sleepers import OneIsSlow, make_parts
from benchmarks.sleeping_env import EPISODE, SleepingEnv
from recollect.scheme.collection.collectors.inbox import Inbox

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
        update_every=100,
        sleep_s=0.01,
        rates={"sync": {1: 100.0, 16: 1440.0}, "async": {1: 100.0, 16: 1520.0}},
        overhead_us={"sync": {1: 50.0, 16: 40.0}, "async": {1: 55.0, 16: 45.0}},
        straggler={"all_alike": 1440.0, "one_slow": 300.0, "one_slow_preempted": 1300.0},
        path={
            "message_s": 0.002,
            "byte_s": 1e-9,
            "mb_per_s": 500.0,
            "copy_mb_per_s": 5000.0,
            "message_bytes": 2.9e6,
        },
        messages={"vectors, 100 steps": {"bytes_per_step": 104.0, "learner_us": 46.0}},
        gradients={"local": 1.0, "sync": 5.0, "async": 3.0, "decentralised": 4.0, "bytes": 270_000},
        rllib={"sync": {1: 90.0, 16: 1000.0}, "async": {1: 90.0, 16: 1080.0}},
    )


def test_efficiency_is_relative_to_one_worker() -> None:
    assert make_outcome().efficiency("sync") == pytest.approx(0.9)
    assert make_outcome().efficiency("async") == pytest.approx(0.95)


def test_the_report_has_it_all() -> None:
    text = measured(make_outcome())
    for part in (
        "| 16 | 1,440 | 1,520 | 45 | 1,000 | 1,080 |",
        "16 async workers: 95% (at least 90%)",
        "16 sync workers: 90% (at least 85%)",
        "16 env runners of RLlib, without a storage: 69% sync, 75% async",
        "21% of the rate without it; with preemption 90% (at least 85%)",
        "500 MB/s in messages of 2.9 MB, 1/10.0 of a plain copy in memory (5,000 MB/s)",
        "A message of vectors, 100 steps: 104 bytes a step; the learner stores it in 46 µs",
        "a message costs 2.00 ms and a megabyte 1.00 ms",
        "a gradient of 0.27 MB takes 1.0 ms in one process; with two gradient workers 5.0 ms (sync), 3.0 ms (async)",
    ):
        assert part in text


def test_the_report_says_how_to_get_rllib() -> None:
    found = rates_elsewhere("false", [1], 100, 0.01, 1.0)
    assert isinstance(found, str)
    outcome = make_outcome()
    outcome.rllib = found
    assert INSTALL in measured(outcome)
    assert "| 16 | 1,440 | 1,520 | 45 | – | – |" in measured(outcome)


def test_projections_are_computed_from_the_costs() -> None:
    outcome = make_outcome()
    # 100 frames: 2 ms + 0.7056 ms a message, 1 s to collect; sync 1/0.85 - 1 and async 1/0.9 of it over 2.7056 ms.
    assert "| a frame of 84×84 uint8 | 36,960 | 65 | 410 |" in projected(outcome)
    outcome.path["message_s"] *= 2
    assert "| a frame of 84×84 uint8 | 21,251 | 37 | 236 |" in projected(outcome)


def test_the_figure_is_written(tmp_path: Path) -> None:
    draw(make_outcome(), tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").stat().st_size > 10_000


def test_the_guide_shows_figure_and_sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = tmp_path / "docs" / "guide" / "scaling.md"
    guide.parent.mkdir(parents=True)
    guide.write_text("<!-- scaling:start -->\nold\n<!-- scaling:end -->\n<!-- more:start -->\n<!-- more:end -->\n")
    monkeypatch.setattr(scaling, "GUIDE", guide)
    figure = write_files(make_outcome(), tmp_path / "results")
    write_guide({"scaling": "measured", "more": "projected"}, figure)
    link = f"![Steps per second by number of workers](../../results/{figure.name})"
    assert guide.read_text() == (
        f"<!-- scaling:start -->\nmeasured\n\n{link}\n<!-- scaling:end -->\n"
        "<!-- more:start -->\nprojected\n<!-- more:end -->\n"
    )


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


def test_an_inbox_takes_the_messages_that_are_timed() -> None:
    source, learner = PieceSource(0, 0, 2, 3), make_worker(2, 3)
    inbox = Inbox(learner)
    for number in range(2):
        inbox.insert(source.send(number), 1)
    assert len(learner.storage) == 4
    source.stop()
    learner.stop()
