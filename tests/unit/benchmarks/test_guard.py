"""The guard notices that a hot path does more than before, and says which part of it."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import guard
from recollect import PERBuffer

pytestmark = pytest.mark.slow


@pytest.fixture
def memory() -> PERBuffer:
    memory = PERBuffer.standalone(100, alpha=0.6, seed=1)
    obs, no = np.ones((1, 4), np.float32), np.zeros(1, np.bool_)
    for _ in range(50):
        memory.add(obs, np.zeros(1, np.int64), np.ones(1), obs, no, no)
    memory.sample(8)
    return memory


def test_counts_are_the_same_each_time(memory: PERBuffer) -> None:
    first, second = (guard.count(lambda: memory.sample(8)) for _ in range(2))
    assert sum(first[guard.CALLS].values()) > 0
    assert not guard.growth("sample", first, second)
    assert not guard.growth("sample", second, first)


PLANTED: dict[str, tuple[Callable[[PERBuffer], object], str, str]] = {
    "a call": (lambda memory: [len(memory) for _ in range(5)], guard.CALLS, "agent/storages/base_buffer.py"),
    "an operator": (lambda memory: torch.ones(1), guard.OPERATORS, "aten.ones.default"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_growth_is_found_and_named(memory: PERBuffer, name: str) -> None:
    plant, kind, part = PLANTED[name]
    before = guard.count(lambda: memory.sample(8))
    now = guard.count(lambda: (plant(memory), memory.sample(8)))
    found = [line for line in guard.growth("sample", before, now) if kind in line]
    assert len(found) == 1
    assert part in found[0]
    assert found[0].startswith("sample: ")


def counts_of(num_calls: int) -> guard.Counts:
    return {guard.CALLS: {"a.py": num_calls, "b.py": 50}}


def test_a_twentieth_more_is_let_pass_and_no_more() -> None:
    assert not guard.report({"x": counts_of(50)}, {"x": counts_of(55)})
    (line,) = guard.report({"x": counts_of(50)}, {"x": counts_of(56)})
    assert line == "x: 6% more Python calls, 100 → 106: a.py +6"
    assert not guard.report({"x": counts_of(50)}, {"x": counts_of(1)})


def test_paths_that_only_one_of_them_has_are_told() -> None:
    assert guard.report({}, {"x": counts_of(1)}) == ["x: new Python calls, 0 → 51: b.py +50, a.py +1"]
    assert guard.report({"x": counts_of(1)}, {}) == ["x: in the baseline, but not counted"]


def test_the_command_fails_where_something_grew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: PERBuffer, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = tmp_path / "guard.json"
    monkeypatch.setattr(guard, "hot_paths", lambda: [("sample", lambda: memory.sample(8))])
    threads = torch.get_num_threads()
    try:
        assert guard.main(["--update", "--baseline", str(baseline)]) == 0
        assert guard.main(["--baseline", str(baseline)]) == 0
        counts = json.loads(baseline.read_text())
        counts["sample"][guard.CALLS] = {part: calls // 2 for part, calls in counts["sample"][guard.CALLS].items()}
        baseline.write_text(json.dumps(counts))
        assert guard.main(["--baseline", str(baseline)]) == 1
    finally:
        torch.set_num_threads(threads)
    assert "make bench-guard ARGS=--update" in capsys.readouterr().err


def test_the_committed_baseline_has_every_path() -> None:
    baseline = json.loads(guard.BASELINE.read_text())
    assert {"standalone add", "standalone sample", "standalone update_priorities", "sac", "ddqn", "ppo"} <= set(
        baseline
    )
    assert all(sum(counts[guard.CALLS].values()) > 0 for counts in baseline.values())
