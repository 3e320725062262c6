"""Ours and the plain scripts train for a moment in processes of their own."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.loops import breakdown, harness
from benchmarks.loops.catalog import OURS
from benchmarks.loops.competitors import ours, plain
from benchmarks.loops.frames import EPISODE, STACK, make_frames
from benchmarks.loops.matmuls import recorded
from benchmarks.loops.profile import Sections, clock_all, place_of, start
from benchmarks.loops.tasks import TASKS, Task, find
from benchmarks.loops.watch import LOOP, UPDATES, Watch

PLAN = harness.Plan(rounds=1, loop_s=0.01, updates_s=0.01, warm_s=0.01)


@pytest.mark.slow
def test_ours_and_the_plain_script_are_timed_in_processes_of_their_own() -> None:
    python, key = Path(sys.executable), "ddqn-small"
    start = harness.Starter(sorted(os.sched_getaffinity(0)), python, python)
    results = harness.run(start, [(find(key), 1)], [OURS, "plain"], PLAN)
    entries = results.entries[key, 1]
    assert [entry.failure for entry in entries.values()] == [None, None]
    assert len({entry.num_parameters for entry in entries.values()}) == 1
    for entry in entries.values():
        assert [len(entry.loop), len(entry.updates)] == [1, 1]
        assert entry.loop[0].count > 0
        assert entry.updates[0].count > 0
    assert results.over_matmuls((key, 1)) is not None


@pytest.mark.parametrize("run", [ours.run, plain.run], ids=["ours", "plain"])
@pytest.mark.parametrize("key", ["sac", "td3", "ddqn-frames", "ppo-cartpole"])
def test_loops_tick_once_per_stage_and_update_with_what_is_stored(key: str, run: Callable[..., None]) -> None:
    task = find(key)
    small = task if task.is_on_policy else replace(task, batch=16, buffer=200, start_steps=40)
    commands = [[LOOP, 0.0], [UPDATES, 1e-9], [LOOP, 0.0]]
    answers = io.StringIO()
    watch = Watch(io.StringIO("".join(json.dumps(command) + "\n" for command in commands)), answers, small.start_steps)
    with pytest.raises(SystemExit):
        run(small, watch, {})
    ready, first, updates, second = (json.loads(line) for line in answers.getvalue().splitlines())
    assert ready["num_parameters"] > 0
    assert first["count"] == second["count"] == small.update_every * small.num_envs
    assert updates["count"] == small.num_epochs * small.num_mini_batch


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.key)
def test_our_agent_is_what_the_task_says(task: Task) -> None:
    small = replace(task, buffer=100, start_steps=min(task.start_steps, 50))
    agent = ours.build(small, {"seed": 3})
    algo = agent.scheme.algo
    assert agent.config.seed == 3, "overrides make variants"
    assert (algo.gamma, algo.update_every, algo.num_epochs) == (small.gamma, small.update_every, small.num_epochs)
    assert (algo.num_mini_batch, algo.mini_batch_size) == (small.num_mini_batch, small.batch)
    assert algo.test_every == 0
    agent.close()


def test_synthetic_frames_have_the_shape_of_atari() -> None:
    env = make_frames()
    obs, _ = env.reset(seed=1)
    assert obs.shape == (STACK, 84, 84)
    assert obs.dtype == np.uint8
    next_obs, _, _, _, _ = env.step(0)
    assert np.array_equal(next_obs[:-1], obs[1:])
    assert not np.array_equal(next_obs[-1], obs[-1])
    ends = [env.step(0)[2] for _ in range(EPISODE - 1)]
    assert [*ends].index(True) == EPISODE - 2


def test_only_the_products_of_an_update_are_repeated() -> None:
    weight = torch.rand(2, 5, 3, requires_grad=True)
    calls: list[str] = []

    def update() -> int:
        calls.append("update")
        (torch.rand(4, 5).expand(2, -1, -1) @ weight).relu().sum().backward()
        return 3

    repeat = recorded(update)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        assert repeat() == 3
    counts = {event.key: event.count for event in profiler.key_averages()}
    assert counts["aten::bmm"] == 2, "forward and backward to the weight"
    assert "aten::relu" not in counts
    assert calls == ["update"]


class Inner:
    """Stands for a part with a method and a generator."""

    def work(self) -> int:
        return 1

    def items(self) -> Iterator[int]:
        yield from (1, 2)


class Outer:
    """Calls its inner part."""

    def __init__(self) -> None:
        self.inner = Inner()

    def run(self) -> int:
        return self.inner.work() + sum(self.inner.items())


def test_clocks_count_calls_and_leave_results_alone() -> None:
    outer, sections = Outer(), Sections()
    sections.clock("outer", outer, "run")
    sections.clock("work", outer.inner, "work")
    sections.clock("items", outer.inner, "items")
    assert [outer.run(), outer.run()] == [4, 4]
    assert sections.calls["outer"] == sections.calls["work"] == 2
    assert sections.calls["items"] == 2 * (1 + 2 + 1), "the call, two items, and the end"
    assert all(seconds >= 0 for seconds in sections.seconds.values())
    assert sections.places["outer"] == place_of(Outer.run)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["ddqn-small", "ppo-cartpole"])
def test_each_section_of_a_loop_is_in_one_part_of_the_picture(key: str, tmp_path: Path) -> None:
    task = find(key)
    small = task if task.is_on_policy else replace(task, start_steps=64)
    agent, learner = start(small)
    sections = clock_all(agent, learner)
    agent.close()
    assert sorted(sections.seconds) == sorted(title for titles in breakdown.PARTS.values() for title in titles)
    times = breakdown.measure(small, seconds=0.1)
    assert min(times.values()) >= 0.0
    assert times["environment"] > 0.0
    assert times["gradients"] > 0.0
    breakdown.draw({key: times}, tmp_path / "breakdown.png")
    assert (tmp_path / "breakdown.png").read_bytes().startswith(b"\x89PNG")
