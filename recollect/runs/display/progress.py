"""Progress of a training on the screen: a live display, or plain lines where there is no terminal."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console

from recollect import metrics
from recollect.interrupts import hang_ups
from recollect.roles import Training
from recollect.runs.display.live import LiveDisplay
from recollect.units import folded, human_bytes

_BAR_WIDTH: Final = 24
_SPARKS: Final = "▁▂▃▄▅▆▇█"
_NUM_SPARKS: Final = 16
_NUM_LOSSES: Final = 4
_NUM_WORKERS: Final = 32
# What workers of a kind are called before their number.
_TITLES: Final = {metrics.COLLECTORS: "", metrics.GRADIENTS: "grad "}
_SECONDS_BETWEEN_FRAMES: Final = 0.25
_SECONDS_BETWEEN_LINES: Final = 10.0

Metrics = Mapping[str, float]


class Progress(LiveDisplay):
    """Shows the progress of a training; use as a context, and call `update` after each update stage.

    On a terminal a few lines change in place, with one for each remote worker; elsewhere a line is printed every few
    seconds.

    Parameters
    ----------
    target_steps : int
        Env steps to train for.
    console : rich.console.Console, optional
        Where to show it.
    seconds_between : float, optional
        Shortest time between two refreshes.
    """

    def __init__(self, target_steps: int, console: Console | None = None, seconds_between: float | None = None) -> None:
        super().__init__(console)
        self.target_steps = target_steps
        default = _SECONDS_BETWEEN_FRAMES if self.is_live else _SECONDS_BETWEEN_LINES
        self._seconds_between = default if seconds_between is None else seconds_between
        self._next_refresh = 0.0
        self._returns: list[float] = []

    def update(self, learner: Training) -> None:
        """Refresh the display, if the last refresh is long enough ago or the training is over."""
        now = time.monotonic()
        if now < self._next_refresh and not learner.done():
            return
        self._next_refresh = now + self._seconds_between
        found = learner.get_metrics()
        if metrics.TRAIN_RETURN in found:
            self._returns.append(found[metrics.TRAIN_RETURN])
        with hang_ups():
            if self.is_live:
                self.show(self._rows(found))
            else:
                self.console.print(self._plain_line(found), highlight=False, soft_wrap=True)

    def _rows(self, found: Metrics) -> list[str]:
        lines = (
            steps_line(found, self.target_steps),
            returns_line(found, self._returns),
            losses_line(found),
            workers_line(found),
        )
        rows = [row for line in lines if line for row in folded(line, self.width - 1)]
        return [f" {row}" for row in [*rows, *worker_lines(found)]]

    def _plain_line(self, found: Metrics) -> str:
        parts = (
            steps_line(found, self.target_steps, bar=False),
            returns_line(found, self._returns, sparks=False),
            workers_line(found),
        )
        return "   ".join(part for part in parts if part)


def steps_line(found: Metrics, target_steps: int, *, bar: bool = True) -> str:
    """Steps done, speed and time left."""
    num_steps, rate = found[metrics.STEPS], found[metrics.STEPS_PER_S]
    share = min(num_steps / target_steps, 1.0) if target_steps else 1.0
    parts = [f"{share:4.0%}  {num_steps:,.0f}/{target_steps:,} steps"]
    if not num_steps and found[metrics.UPDATES]:  # from data, so far
        parts.append(f"{found[metrics.UPDATES]:,.0f} updates")
    if bar:
        num_full = int(share * _BAR_WIDTH)
        parts[0] = "█" * num_full + "░" * (_BAR_WIDTH - num_full) + parts[0].rjust(len(parts[0]) + 1)
    if rate > 0:
        parts.append(f"{rate:,.0f} steps/s")
    if rate > 0 and share < 1:
        parts.append(f"ETA {duration((target_steps - num_steps) / rate)}")
    return "   ".join(parts)


def returns_line(found: Metrics, returns: Sequence[float], *, sparks: bool = True) -> str:
    """Returns so far, of training and evaluation, updates and replay."""
    parts = []
    if returns:
        way = f"{number(returns[0])} → {number(returns[-1])} {sparkline(returns)}"
        parts.append(f"return {way if sparks else number(returns[-1])}")
    if metrics.EVAL_RETURN in found:
        parts.append(f"evaluation {number(found[metrics.EVAL_RETURN])}")
    if metrics.EVAL_SUCCESS in found:
        parts.append(f"success {found[metrics.EVAL_SUCCESS]:.0%}")
    if found[metrics.UPDATES_PER_S] > 0:
        parts.append(f"updates/s {found[metrics.UPDATES_PER_S]:,.0f}")
    if found[metrics.STORAGE_SIZE]:  # storages of one's own need not count
        fill = f"{found[metrics.STORAGE_SIZE]:,.0f}/{found[metrics.STORAGE_CAPACITY]:,.0f}"
        parts.append(f"replay {fill} ({human_bytes(found[metrics.STORAGE_BYTES])})")
    return "   ".join(parts)


def losses_line(found: Metrics) -> str:
    """The first few metrics that the algorithm reports of its updates."""
    names = [name for name in found if name.startswith(metrics.ALGORITHM_PREFIX)][:_NUM_LOSSES]
    return "   ".join(f"{name.removeprefix(metrics.ALGORITHM_PREFIX)} {_short(found[name])}" for name in names)


def workers_line(found: Metrics) -> str:
    """State of all remote workers together; empty without any."""
    parts = []
    if metrics.WORKERS in found:
        lag = f"policy lag {found[metrics.POLICY_LAG]:.1f} (max {found[metrics.POLICY_LAG_MAX]:.0f})"
        alive = f"workers {found[metrics.WORKERS_ALIVE]:.0f}/{found[metrics.WORKERS]:.0f}"
        parts += [alive, f"{found[metrics.STEPS_PER_S]:,.0f} steps/s", lag]
    if metrics.GRADIENT_WORKERS in found:
        alive = f"{found[metrics.GRADIENT_WORKERS_ALIVE]:.0f}/{found[metrics.GRADIENT_WORKERS]:.0f}"
        parts.append(f"gradient workers {alive}")
    if metrics.ASYNCHRONY in found:
        parts.append(f"asynchrony {found[metrics.ASYNCHRONY]:.1f} (max {found[metrics.ASYNCHRONY_MAX]:.0f})")
    if parts:
        num_restarts = found.get(metrics.WORKER_RESTARTS, 0) + found.get(metrics.GRADIENT_RESTARTS, 0)
        parts.append(f"restarts {num_restarts:.0f}")
    if metrics.WORKER_BYTES_PER_S in found:
        parts.append(f"{human_bytes(found[metrics.WORKER_BYTES_PER_S])}/s")
    return " · ".join(parts)


def worker_lines(found: Metrics) -> list[str]:
    """State of each remote worker, collectors and gradient workers; the first few of them."""
    patterns = (metrics.OF_WORKER, metrics.OF_GRADIENT_WORKER)
    rates = [name for pattern in patterns for name in found if pattern.match(name)]
    names = [name.removesuffix(f"/{metrics.STEPS_PER_S}") for name in rates]
    lines = [_worker_line(found, name) for name in names[:_NUM_WORKERS]]
    return lines if len(names) == len(lines) else [*lines, f"… and {len(names) - len(lines)} more"]


def _worker_line(found: Metrics, name: str) -> str:
    kind, _, place = name.rpartition("/")
    rate, lag, restarts, sent = (
        found[f"{name}/{value}"]
        for value in (metrics.STEPS_PER_S, metrics.LAGS[kind], metrics.RESTARTS, metrics.BYTES_PER_S)
    )
    pace = f"{_TITLES[kind] + place:>6}  {rate:8,.0f} steps/s   lag {lag:4.1f}"
    return f"{pace}   restarts {restarts:2.0f}   {human_bytes(sent):>9}/s"


def sparkline(values: Sequence[float]) -> str:
    """Values as a row of small bars, evenly picked if there are many."""
    num_picked = min(len(values), _NUM_SPARKS)
    picked = [values[round(i * (len(values) - 1) / max(1, num_picked - 1))] for i in range(num_picked)]
    low, high = min(picked), max(picked)
    scale = (len(_SPARKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_SPARKS[round((value - low) * scale)] for value in picked)


def number(value: float) -> str:
    """A number as people write it: −1,240 or 0.85."""
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return text.replace("-", "−")


def _short(value: float) -> str:
    text = f"{value:.3g}"
    return "−" + text[1:] if text.startswith("-") else text


def duration(seconds: float) -> str:
    """Seconds as hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
