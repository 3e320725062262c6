"""The training benchmark: who runs when, what a window counts, and what is said about it."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import training
from benchmarks.documents import replace_section
from benchmarks.loops import harness, report
from benchmarks.loops.catalog import COMPETITORS, OURS, PEERS, SB3, SBX
from benchmarks.loops.process import Failure, Window
from benchmarks.loops.results import Cell, Entry, Results
from benchmarks.loops.targets import TARGETS, targets_of
from benchmarks.loops.tasks import TASKS, find, select
from benchmarks.loops.watch import LOOP, MATMULS, UPDATES, Watch

ROOT = Path(__file__).parents[3]
MACHINE = {
    "cpu": "AMD EPYC",
    "cores": 2,
    "memory_gib": 8,
    "python": "3.11",
    "packages": {"torch": "2.13.0"},
    "load_average": 0.1,
}
SETTINGS = {
    "date": "2026-01-02",
    "quick": False,
    "rounds": 3,
    "whole": True,
    "loop_s": 2.5,
    "updates_s": 1.0,
    "clock": "wall",
}


def windows(*rates: float) -> list[Window]:
    return [Window(rate * 2, 2.0, 1.9) for rate in rates]


def make_results(cell: Cell, rates: dict[str, float], **ours: float) -> Results:
    """One row: the rate of each competitor's loop, and windows of ours beside it."""
    entries = {name: Entry(loop=windows(rate * 0.9, rate, rate * 1.2), version="1") for name, rate in rates.items()}
    for kind, rate in ours.items():
        setattr(entries[OURS], kind, windows(rate))
    return Results({cell: entries})


def make_report(results: Results, **settings: Any) -> report.Report:
    return report.Report(machine=MACHINE, settings=SETTINGS | settings, results=results)


class FakeProcess:
    """Answers at once, and notes in which order it was asked."""

    def __init__(self, name: str, asked: list[tuple[str, str]], *, fails_at: int | None = None) -> None:
        self.name, self.asked, self.fails_at = name, asked, fails_at
        self.num_asked = 0
        self.is_closed = False
        self.messages: list[dict[str, Any]] = [{"version": "1.2"}, {"num_parameters": 7, "note": "short"}]

    def receive(self) -> dict[str, Any]:
        return self.messages.pop(0)

    def ask(self, what: str, seconds: float) -> Window | Failure:
        self.num_asked += 1
        self.asked.append((self.name, what))
        return Failure("out of memory") if self.num_asked == self.fails_at else Window(10 * seconds, seconds, seconds)

    def close(self) -> None:
        self.is_closed = True


class Starting:
    """Starts fake processes, but not those that are missing."""

    def __init__(self, *, missing: str = "", failing: str = "") -> None:
        self.asked: list[tuple[str, str]] = []
        self.processes: list[FakeProcess] = []
        self.missing, self.failing = missing, failing

    def __call__(self, name: str, task: Any, num_cores: int) -> Any:
        if name == self.missing:
            return Failure("there is no interpreter")
        self.processes.append(FakeProcess(name, self.asked, fails_at=7 if name == self.failing else None))
        return self.processes[-1]


PLAN = harness.Plan(rounds=2, loop_s=2.0, updates_s=1.0, warm_s=0.5)


def test_every_round_begins_with_another_competitor() -> None:
    assert [harness.turns(["a", "b", "c"], number) for number in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]


def test_competitors_take_turns_after_warming_up() -> None:
    start = Starting()
    results = harness.run(start, [(find("sac"), 1)], [OURS, SB3], PLAN)
    both = [LOOP, UPDATES]
    in_turn = [(OURS, what) for what in both] + [(SB3, what) for what in both]
    swapped = [(SB3, what) for what in both] + [(OURS, what) for what in both]
    assert start.asked == in_turn * harness.NUM_WARM_UPS + in_turn + swapped + [(OURS, MATMULS)]
    entry = results.entries["sac", 1][OURS]
    assert entry.loop == [Window(20.0, 2.0, 2.0)] * 2
    assert entry.updates == [Window(10.0, 1.0, 1.0)] * 2
    assert (entry.version, entry.num_parameters, entry.note) == ("1.2", 7, "short")
    assert not results.entries["sac", 1][SB3].matmuls
    assert all(process.is_closed for process in start.processes)


def test_whoever_fails_is_named_and_the_others_continue() -> None:
    start = Starting(missing=SBX, failing=SB3)
    results = harness.run(start, [(find("sac"), 2)], [OURS, SB3, SBX], PLAN)
    assert list(results.failures()) == [
        (("sac", 2), SB3, "out of memory"),
        (("sac", 2), SBX, "there is no interpreter"),
    ]
    assert results.rate(("sac", 2), SB3) is None, "one round is not a result"
    assert len(results.entries["sac", 2][OURS].loop) == 2
    told = report.text(make_report(results))
    assert "SB3 did not run sac on 2 cores: out of memory" in told
    assert "SBX (JAX) did not run sac on 2 cores: there is no interpreter" in told


def test_every_row_is_kept_as_soon_as_it_is_done() -> None:
    kept: list[int] = []
    cells = harness.cells_of([find("sac"), find("td3")], [1, 2])
    assert [(task.key, cores) for task, cores in cells] == [("sac", 1), ("td3", 1), ("sac", 2), ("td3", 2)]
    harness.run(Starting(), cells, [OURS], PLAN, lambda results: kept.append(len(results.entries)))
    assert kept == [1, 2, 3, 4]


def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(start: Any, cells: Any, names: Any, plan: Any, keep: Any, results: Results) -> None:
        results.entries["sac", 1] = make_results(("sac", 1), {OURS: 100.0}).entries["sac", 1]
        keep(results)
        raise KeyboardInterrupt

    monkeypatch.setattr(harness, "run", interrupted)
    assert training.main(["--cores", "1", "--out", str(tmp_path)]) == 130
    (written,) = tmp_path.glob("training-*.json")
    assert report.Report.read(written).results.rate(("sac", 1), OURS) is not None


def run_watch(commands: list[Any], ticks: list[int], start_steps: int = 0) -> list[dict[str, Any]]:
    """Send commands to a watch whose loop ticks at these steps; returns its answers."""
    answers = io.StringIO()
    watch = Watch(io.StringIO("".join(json.dumps(command) + "\n" for command in commands)), answers, start_steps)
    watch.ready(lambda: 4, num_parameters=9)
    *steps, last = ticks
    for step in steps:
        watch.tick(step)
    with pytest.raises(SystemExit):
        watch.tick(last)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


def test_a_window_counts_the_steps_between_its_ends() -> None:
    ready, first, second = run_watch([[LOOP, 0.0], [LOOP, 0.0]], ticks=[5, 10, 20, 35], start_steps=10)
    assert ready == {"num_parameters": 9, "note": ""}
    assert (first["count"], second["count"]) == (10, 15)


def test_updates_are_counted_while_the_loop_stands_still() -> None:
    _, updates, loop = run_watch([[UPDATES, 1e-9], [LOOP, 0.0]], ticks=[10, 20])
    assert updates["count"] == 4
    assert loop["count"] == 10


def test_a_window_does_not_close_before_its_time() -> None:
    answers = io.StringIO()
    watch = Watch(io.StringIO('["loop", 1000.0]\n'), answers, start_steps=0)
    for step in range(50):
        watch.tick(step)
    assert answers.getvalue() == ""


def test_rates_are_medians_with_their_spread() -> None:
    results = make_results(("sac", 2), {OURS: 100.0, SB3: 40.0})
    rate = results.rate(("sac", 2), OURS)
    assert rate is not None
    assert (rate.low, rate.median, rate.high) == (90.0, 100.0, 120.0)
    assert results.ratio(("sac", 2), SB3) == pytest.approx(2.5)
    assert results.ratio(("sac", 2), SBX) is None


def test_the_fastest_peer_is_named_and_ours_is_none() -> None:
    results = make_results(("sac", 1), {OURS: 100.0, SB3: 40.0, SBX: 80.0})
    assert results.fastest_peer(("sac", 1)) == SBX
    assert OURS not in PEERS
    row = report.loop_rows(make_report(results))[1]
    assert row == [find("sac").title, "1", "100 (90–120)", "40 (36–48)", "80 (72–96)", "SBX (JAX)", "1.25×"]


@pytest.mark.parametrize(
    ("key", "loop", "updates"),
    [("sac", 92.0, 100.0), ("ddqn-small", 368.0, 100.0), ("ppo-cartpole", 92.0 * 64, 100.0)],
)
def test_the_loop_loses_what_updates_do_not_take(key: str, loop: float, updates: float) -> None:
    results = make_results((key, 1), {OURS: loop}, updates=updates, matmuls=150.0)
    assert results.lost_to_the_loop((key, 1)) == pytest.approx(0.08)
    assert results.over_matmuls((key, 1)) == pytest.approx(1.5)


def test_targets_are_reached_or_missed_by_so_much() -> None:
    cell = ("sac", 2)
    results = make_results(cell, {OURS: 130.0, SB3: 100.0, SBX: 100.0}, updates=140.0, matmuls=280.0)
    verdicts = {target.requirement(): target.verdict(results) for target in targets_of(cell)}
    assert verdicts == {
        "≥ 1.25× SBX (JAX)": "reached (1.30×)",
        "≥ 2× SB3": "missed (1.30×, 35% short)",
        "≥ 1.5× SBX (JAX) (moonshot)": "missed (1.30×, 13% short)",
        "≤ 8% of the loop's time is not the update": "reached (7.1%)",
        "≤ 1.5× the time of the update's own matmuls": "missed (2.00×, 33% over)",
    }
    assert targets_of(("sac", 1))[0].verdict(results) == "not measured"
    assert report.count(make_report(results)) == f"2 of 5 measured targets reached ({len(TARGETS)} in all)"


def test_targets_against_the_fastest_follow_whoever_that_is() -> None:
    cell = ("ddqn-small", 1)
    (target,) = targets_of(cell)
    assert target.measure(make_results(cell, {OURS: 170.0, SB3: 100.0, SBX: 90.0})) == pytest.approx(1.7)
    assert target.measure(make_results(cell, {OURS: 170.0, SB3: 100.0, "plain": 200.0})) == pytest.approx(0.85)
    assert target.measure(make_results(cell, {OURS: 170.0})) is None


def test_reports_survive_their_file(tmp_path: Path) -> None:
    results = make_results(("sac", 1), {OURS: 100.0, SB3: 40.0}, updates=120.0, matmuls=150.0)
    results.entries["sac", 1][SBX] = Entry(failure="ModuleNotFoundError: no jax")
    made = make_report(results)
    training.write_json(made, tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.name == "training-2026-01-02.json"
    assert report.text(report.Report.read(path)) == report.text(made)


def test_the_section_says_when_it_is_quick_partial_or_beside_load() -> None:
    results = make_results(("sac", 1), {OURS: 100.0, SB3: 40.0})
    plain = report.markdown(make_report(results), "chart.png")
    assert plain.startswith(
        "![Training speed of Recollect and its peers](chart.png)\n\n| steps/s, whole loop | cores |"
    )
    assert not any(word in plain for word in ("quick", "not all rows", "beside other load"))
    results.entries["sac", 1][OURS].loop = [Window(100.0, 1.0, 0.25)] * 4
    results.clock = "cpu"
    told = report.markdown(make_report(results, quick=True, whole=False), None)
    assert all(word in told for word in ("quick", "not all rows", "processor time", "left 25% of a core's time"))
    rate = results.rate(("sac", 1), OURS)
    assert rate is not None
    assert rate.median == 400.0


def test_another_number_of_weights_is_told() -> None:
    results = make_results(("sac", 1), {OURS: 100.0, SB3: 40.0})
    results.entries["sac", 1][OURS].num_parameters = 1_000
    results.entries["sac", 1][SB3].num_parameters = 1_000
    assert "same number of weights" in report.text(make_report(results))
    results.entries["sac", 1][SB3].num_parameters = 2_500
    assert "Weights in sac: 1,000, but SB3 2,500" in report.text(make_report(results))


def test_the_chart_is_drawn(tmp_path: Path) -> None:
    results = make_results(("sac", 1), {OURS: 100.0, SB3: 40.0})
    results.entries |= make_results(("td3", 2), {SB3: 40.0}).entries
    path = training.write_chart(make_report(results), tmp_path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_options_select_rows_and_competitors() -> None:
    options = training.parse(["--only", "ddqn-small", "ppo", "--competitors", OURS, SBX, "--cores", "1"])
    assert [task.key for task in select(options.only)] == ["ddqn-small", "ppo-cartpole", "ppo-cheetah", "ppo-frames"]
    assert options.competitors == [OURS, SBX]
    assert not training.is_whole(options)
    assert not training.is_whole(training.parse(["--quick", "--cores", "1"]))


@pytest.mark.parametrize(
    "arguments", [["--only", "dqn"], ["--competitors", "rllib"], ["--rounds", "0"], ["--cores", "0"]]
)
def test_wrong_options_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        training.parse([*arguments] if "--cores" in arguments else [*arguments, "--cores", "1"])
    assert arguments[1] in capsys.readouterr().err


def test_tasks_add_up() -> None:
    assert len({task.key for task in TASKS}) == len(TASKS)
    for task in TASKS:
        if task.is_on_policy:
            assert task.batch * task.num_mini_batch == task.update_every * task.num_envs
            assert task.start_steps == 0
        else:
            assert task.num_epochs * task.num_mini_batch == 1
            assert task.start_steps >= task.batch


def test_targets_are_about_rows_that_exist() -> None:
    assert {target.cell[0] for target in TARGETS} <= {task.key for task in TASKS}
    assert {target.cell[1] for target in TARGETS} == set(training.CORES)


def test_the_page_has_a_place_for_the_tables() -> None:
    assert replace_section(training.PAGE.read_text(), "training", "") is not None


def test_a_missing_interpreter_is_a_reason(tmp_path: Path) -> None:
    start = harness.Starter([0], Path(sys.executable), tmp_path / "python")
    failure = start(SBX, find("sac"), 1)
    assert isinstance(failure, Failure)
    assert "make bench-training" in failure.reason
    assert COMPETITORS[SBX].is_jax
