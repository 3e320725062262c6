"""What is shown of a training, on a terminal and elsewhere."""

import errno
import io
from typing import Any

import pytest
from rich.console import Console

from recollect import metrics
from recollect.interrupts import Terminated
from recollect.runs.display import progress
from recollect.runs.display.progress import Progress

FOUND = {
    metrics.STEPS: 14_200,
    metrics.UPDATES: 14_000,
    metrics.STEPS_PER_S: 412.4,
    metrics.UPDATES_PER_S: 409.0,
    metrics.TRAIN_RETURN: -148.2,
    metrics.STORAGE_SIZE: 14_200,
    metrics.STORAGE_CAPACITY: 1_000_000,
    metrics.STORAGE_BYTES: 1_100_000,
    "algorithm/loss_q": 0.1234567,
}


class FakeLearner:
    """A learner that says what it is told to."""

    def __init__(self) -> None:
        self.found: dict[str, float] = dict(FOUND)
        self.num_refreshes = 0
        self.is_done = False

    def done(self) -> bool:
        return self.is_done

    def get_metrics(self) -> dict[str, float]:
        self.num_refreshes += 1
        return self.found


def make_console(*, is_terminal: bool, width: int = 150) -> Any:
    return Console(file=io.StringIO(), force_terminal=is_terminal, width=width)


def test_the_line_of_steps() -> None:
    assert progress.steps_line(FOUND, 20_000) == (
        "█████████████████░░░░░░░  71%  14,200/20,000 steps   412 steps/s   ETA 0:14"
    )


def test_a_line_before_anything_is_known_and_one_at_the_end() -> None:
    start = {**FOUND, metrics.STEPS: 0, metrics.STEPS_PER_S: 0.0, metrics.UPDATES: 0}
    assert progress.steps_line(start, 100, bar=False) == "  0%  0/100 steps"
    assert "ETA" not in progress.steps_line({**FOUND, metrics.STEPS: 20_010}, 20_000)


def test_the_line_of_returns() -> None:
    found = {**FOUND, metrics.EVAL_RETURN: -149.3, metrics.EVAL_SUCCESS: 0.5}
    assert progress.returns_line(found, [-1240.0, -600.0, -148.2]) == (
        "return −1,240 → −148 ▁▅█   evaluation −149   success 50%   updates/s 409   replay 14,200/1,000,000 (1.1 MB)"
    )
    assert progress.returns_line(FOUND, []).startswith("updates/s")
    assert progress.returns_line({**FOUND, metrics.UPDATES_PER_S: 0.0}, []).startswith("replay")


def test_the_line_of_losses() -> None:
    assert progress.losses_line(FOUND) == "loss_q 0.123"
    assert progress.losses_line({"algorithm/entropy": -0.98765}) == "entropy −0.988"
    assert progress.losses_line({}) == ""


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0], "▁"), ([2.0, 2.0], "▁▁"), ([0.0, 7.0], "▁█"), (list(range(8)), "▁▂▃▄▅▆▇█")],
)
def test_sparklines(values: list[float], expected: str) -> None:
    assert progress.sparkline(values) == expected


def test_many_values_are_picked_evenly() -> None:
    sparks = progress.sparkline([float(value) for value in range(1000)])
    assert len(sparks) == 16
    assert list(sparks) == sorted(sparks)


@pytest.mark.parametrize(("value", "expected"), [(-1240.4, "−1,240"), (12.34, "12.3"), (0.854, "0.85"), (-5, "−5.00")])
def test_numbers(value: float, expected: str) -> None:
    assert progress.number(value) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(14.2, "0:14"), (75, "1:15"), (3671, "1:01:11")])
def test_durations(seconds: float, expected: str) -> None:
    assert progress.duration(seconds) == expected


def test_a_live_display_shows_three_lines() -> None:
    console, learner = make_console(is_terminal=True), FakeLearner()
    with Progress(20_000, console) as display:
        display.update(learner)
    shown = console.file.getvalue()
    for part in ("14,200/20,000 steps", "return −148", "loss_q"):
        assert part in shown


@pytest.mark.parametrize("width", [80, 120])
def test_a_live_display_cuts_nothing_off(width: int) -> None:
    console, learner = make_console(is_terminal=True, width=width), FakeLearner()
    learner.found |= {metrics.EVAL_RETURN: -149.3, metrics.EVAL_SUCCESS: 0.5, **WORKERS}
    learner.found |= {metrics.GRADIENT_WORKERS: 2, metrics.GRADIENT_WORKERS_ALIVE: 2}
    learner.found |= {f"algorithm/loss_{number}": 0.12345 for number in range(4)}
    with Progress(1_000_000, console, seconds_between=0.0) as display:
        for _ in range(20):
            display.update(learner)
    shown = console.file.getvalue()
    assert "…" not in shown
    for part in ("ETA 39:50", "success 50%", "updates/s 409", "14,200/1,000,000 (1.1 MB)", "loss_2 0.123", "11.0 MB/s"):
        assert part in shown


def test_refreshes_are_rare_but_the_last_one_is_never_left_out() -> None:
    console, learner = make_console(is_terminal=False), FakeLearner()
    with Progress(20_000, console, seconds_between=3600) as display:
        for _ in range(100):
            display.update(learner)
        assert learner.num_refreshes == 1
        learner.found[metrics.STEPS] = 20_000
        learner.is_done = True
        display.update(learner)
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 2
    assert "20,000/20,000 steps" in lines[1]
    assert "\x1b" not in console.file.getvalue()


WORKERS = {
    metrics.WORKERS: 3,
    metrics.WORKERS_ALIVE: 2,
    metrics.WORKER_RESTARTS: 1,
    metrics.POLICY_LAG: 1.2,
    metrics.POLICY_LAG_MAX: 4,
    metrics.WORKER_BYTES_PER_S: 11e6,
    "workers/0.0/steps_per_s": 1500.0,
    "workers/0.0/policy_lag": 1.0,
    "workers/0.0/restarts": 0,
    "workers/0.0/bytes_per_s": 6e6,
    "workers/1.3/steps_per_s": 2440.0,
    "workers/1.3/policy_lag": 1.4,
    "workers/1.3/restarts": 1,
    "workers/1.3/bytes_per_s": 5e6,
}


def test_workers_are_shown_all_together() -> None:
    found = {metrics.STEPS_PER_S: 3940.0, **WORKERS}
    line = "workers 2/3 · 3,940 steps/s · policy lag 1.2 (max 4) · restarts 1 · 11.0 MB/s"
    assert progress.workers_line(found) == line
    gradients = {metrics.GRADIENT_WORKERS: 2, metrics.GRADIENT_WORKERS_ALIVE: 1, metrics.GRADIENT_RESTARTS: 3}
    assert progress.workers_line(gradients) == "gradient workers 1/2 · restarts 3"
    gradients |= {metrics.ASYNCHRONY: 0.75, metrics.ASYNCHRONY_MAX: 3}
    assert "asynchrony 0.8 (max 3) · restarts 3" in progress.workers_line(gradients)
    assert progress.workers_line({metrics.STEPS_PER_S: 10.0}) == ""


def test_every_worker_has_a_line() -> None:
    lines = progress.worker_lines(WORKERS)
    assert [line.split()[0] for line in lines] == ["0.0", "1.3"]
    assert "2,440 steps/s   lag  1.4   restarts  1      5.0 MB/s" in lines[1]
    gradients = {"steps_per_s": 70.0, "asynchrony": 0.5, "restarts": 2, "bytes_per_s": 1e6}
    lines = progress.worker_lines(WORKERS | {f"gradients/7/{name}": value for name, value in gradients.items()})
    assert lines[2].split() == ["grad", "7", "70", "steps/s", "lag", "0.5", "restarts", "2", "1.0", "MB/s"]
    many = {
        f"workers/0.{n}/{name}": 1.0
        for n in range(40)
        for name in ("steps_per_s", "policy_lag", "restarts", "bytes_per_s")
    }
    assert len(progress.worker_lines(many)) == 33
    assert progress.worker_lines(many)[-1] == "… and 8 more"


def test_a_live_display_shows_workers() -> None:
    console, learner = make_console(is_terminal=True), FakeLearner()
    learner.found |= WORKERS
    with Progress(20_000, console) as display:
        display.update(learner)
    assert "policy lag 1.2" in console.file.getvalue()
    assert "2,440 steps/s" in console.file.getvalue()


class LostTerminal(io.StringIO):
    """A terminal that was closed."""

    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_a_training_whose_terminal_is_gone_is_interrupted() -> None:
    console = Console(file=LostTerminal(), force_terminal=False)
    with pytest.raises(Terminated) as caught, Progress(20_000, console) as display:
        display.update(FakeLearner())
    assert caught.value.code == 129
