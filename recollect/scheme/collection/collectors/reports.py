"""Reports of collection workers: throughput, policy lag, bytes sent, restarts."""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from recollect import metrics

_NUM_RECENT_PIECES: Final = 20
_TOTALS: Final = ("num_steps", "restarts", "num_bytes", "codec_s", "env_failures")


@dataclass(frozen=True)
class WorkerReport:
    """How one collecting worker has fared of late; the number of steps, bytes, failures and restarts is in all.

    Attributes
    ----------
    index_parent, index_worker : int
        Which worker.
    num_steps : int
        Transitions that were received from it.
    steps_per_s : float
        Transitions per second while it collects.
    lag, max_lag : float
        Versions that its policy was behind, on average and at most.
    restarts : int
        How often it was restarted.
    num_bytes, bytes_per_s
        What it sent.
    codec_s : float
        Seconds spent on compression.
    env_failures : int
        Environments that failed and were rebuilt.
    is_alive : bool
        Whether anything has come from it since it was built, or restarted.
    """

    index_parent: int
    index_worker: int
    num_steps: int = 0
    steps_per_s: float = 0.0
    lag: float = 0.0
    max_lag: int = 0
    restarts: int = 0
    num_bytes: int = 0
    bytes_per_s: float = 0.0
    codec_s: float = 0.0
    env_failures: int = 0
    is_alive: bool = True


def add_totals(report: WorkerReport, earlier: Iterable[WorkerReport]) -> WorkerReport:
    """Count in a report also what the same worker did for those who are gone."""
    totals = {name: sum((getattr(other, name) for other in earlier), getattr(report, name)) for name in _TOTALS}
    return replace(report, **totals)


class Receipt(NamedTuple):
    """What is noted of one piece."""

    num_steps: int
    time_s: float
    lag: int
    num_bytes: int
    codec_s: float
    env_failures: int


class WorkerRecord:
    """Notes what comes from one worker."""

    def __init__(self, index_parent: int, index_worker: int) -> None:
        self._place = (index_parent, index_worker)
        self._recent: deque[Receipt] = deque(maxlen=_NUM_RECENT_PIECES)
        self._arrivals: deque[float] = deque([time.monotonic()], maxlen=_NUM_RECENT_PIECES + 1)
        self._num_steps = 0
        self._num_bytes = 0
        self._codec_s = 0.0
        # Of earlier incarnations, and of the present one.
        self._env_failures = [0, 0]
        self._is_alive = False

    @property
    def idle_s(self) -> float:
        """Seconds since the latest piece."""
        return time.monotonic() - self._arrivals[-1]

    def add(self, receipt: Receipt) -> None:
        """Note a piece."""
        self._recent.append(receipt)
        self._arrivals.append(time.monotonic())
        self._num_steps += receipt.num_steps
        self._num_bytes += receipt.num_bytes
        self._codec_s += receipt.codec_s
        self._env_failures[1] = receipt.env_failures
        self._is_alive = True

    def restart(self) -> None:
        """Note that the worker is restarted."""
        self._env_failures = [sum(self._env_failures), 0]
        self._is_alive = False

    def report(self, restarts: int) -> WorkerReport:
        """Sum up."""
        time_s = sum(receipt.time_s for receipt in self._recent)
        span_s = self._arrivals[-1] - self._arrivals[0]
        lags = [receipt.lag for receipt in self._recent]
        return WorkerReport(
            *self._place,
            num_steps=self._num_steps,
            steps_per_s=sum(receipt.num_steps for receipt in self._recent) / time_s if time_s else 0.0,
            lag=sum(lags) / len(lags) if lags else 0.0,
            max_lag=max(lags, default=0),
            restarts=restarts,
            num_bytes=self._num_bytes,
            bytes_per_s=sum(receipt.num_bytes for receipt in self._recent) / span_s if span_s else 0.0,
            codec_s=self._codec_s,
            env_failures=sum(self._env_failures),
            is_alive=self._is_alive,
        )


def worker_metrics(reports: Sequence[WorkerReport]) -> dict[str, float]:
    """Metrics of all workers together and of each, by name; none without remote workers."""
    if not reports:
        return {}
    lags = [report.lag for report in reports]
    found: dict[str, float] = {
        metrics.WORKERS: len(reports),
        metrics.WORKERS_ALIVE: sum(report.is_alive for report in reports),
        metrics.WORKER_RESTARTS: sum(report.restarts for report in reports),
        metrics.POLICY_LAG: sum(lags) / len(lags),
        metrics.POLICY_LAG_MAX: max(report.max_lag for report in reports),
        metrics.WORKER_BYTES_PER_S: sum(report.bytes_per_s for report in reports),
        metrics.WORKER_CODEC_S: sum(report.codec_s for report in reports),
    }
    for report in reports:
        found |= _metrics_of(report, metrics.COLLECTORS, f"{report.index_parent}.{report.index_worker}")
    return found


def gradient_worker_metrics(reports: Sequence[WorkerReport]) -> dict[str, float]:
    """Metrics of each gradient worker, by name."""
    found: dict[str, float] = {}
    for report in reports:
        found |= _metrics_of(report, metrics.GRADIENTS, str(report.index_worker))
    return found


def _metrics_of(report: WorkerReport, kind: str, number: str) -> dict[str, float]:
    """Metrics of one worker by name; `kind` is one of `metrics.LAGS`."""
    values = {
        metrics.STEPS_PER_S: report.steps_per_s,
        metrics.LAGS[kind]: report.lag,
        metrics.RESTARTS: report.restarts,
        metrics.BYTES_PER_S: report.bytes_per_s,
    }
    return {f"{kind}/{number}/{name}": value for name, value in values.items()}
