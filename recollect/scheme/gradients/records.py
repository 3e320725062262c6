"""What is known of each gradient worker: its pace, how far it is behind, what it sent, whether it is there."""

import time
from collections.abc import Iterable, Mapping, Sequence

from recollect import metrics
from recollect.scheme.collection.collectors.reports import Receipt, WorkerRecord, WorkerReport, metrics_of


class GradientRecords:
    """Notes what comes from gradient workers; their lag is the number of updates since their weights were sent.

    Parameters
    ----------
    indices : iterable of int
        Which workers.
    """

    def __init__(self, indices: Iterable[int]) -> None:
        self._records = {index: WorkerRecord(0, index) for index in indices}
        self._times = dict.fromkeys(self._records, time.monotonic())

    def add(self, index: int, num_steps: int, lag: int, num_bytes: int) -> None:
        """Note what a worker has sent, and how many steps have been collected for it since."""
        now = time.monotonic()
        self._records[index].add(Receipt(num_steps, now - self._times[index], lag, num_bytes, 0.0, 0))
        self._times[index] = now

    def lose(self, index: int) -> None:
        """Note that a worker is restarted."""
        self._records[index].restart()

    def reports(self, restarts: Mapping[int, int]) -> tuple[WorkerReport, ...]:
        """Sum up; `restarts` are those of each worker, 0 left out."""
        return tuple(record.report(restarts.get(index, 0)) for index, record in self._records.items())


def gradient_worker_metrics(reports: Sequence[WorkerReport]) -> dict[str, float]:
    """Metrics of each gradient worker, by name."""
    found: dict[str, float] = {}
    for report in reports:
        found |= metrics_of(report, metrics.GRADIENTS, str(report.index_worker))
    return found
