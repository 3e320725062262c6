"""Where gradients come from: what all sources yield, and `LocalGradientSource` of a worker in this process."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from recollect.roles import Batch, Info
from recollect.roles import Gradients as Values
from recollect.scheme.base.commands import Command
from recollect.scheme.base.shared import SharedComponents
from recollect.scheme.collection.collectors.reports import WorkerReport
from recollect.scheme.gradients.g_worker import GWorker
from recollect.scheme.gradients.status import GradientStatus


class Gradient(NamedTuple):
    """Gradients that are to be applied, None if the algorithm has them already, and what is known of them."""

    values: Values | None
    info: Info


class GradientReport(NamedTuple):
    """What is known of remote gradient workers: how many, restarts, how far behind recent gradients were, and each.

    The lag of a gradient is the number of updates that were applied since its weights were sent.
    """

    num_workers: int = 0
    num_restarts: int = 0
    lags: tuple[int, ...] = ()
    reports: tuple[WorkerReport, ...] = ()


class LocalGradientSource(SharedComponents):
    """Gradients of one worker in this process: they are where the algorithm wants them, nothing is sent.

    Parameters
    ----------
    worker : GWorker
        The worker.
    """

    def __init__(self, worker: GWorker) -> None:
        self.worker = worker
        self.col_worker = worker.col_worker

    @property
    def offending_batch(self) -> Batch | None:
        """The batch whose loss was not finite, if there was one."""
        return self.worker.offending_batch

    def stage(self) -> Iterator[Gradient]:
        """Have data collected for one update stage, and yield one gradient after the other.

        Each is to be applied before the next one is asked for.
        """
        num_updates = 0
        self.worker.collect()
        for info in self.worker.compute_gradients():
            yield Gradient(None, info)
            num_updates += 1
        self.algo.end_stages(num_updates)

    @property
    def num_steps(self) -> int:
        """Transitions collected, over all workers."""
        return int(self.col_worker.num_steps)

    def status(self) -> GradientStatus:
        """How the collection stands, over all workers."""
        return self.worker.status()

    def report(self) -> GradientReport:
        """What is known of the gradient workers that are elsewhere."""
        return GradientReport()

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs of the collection."""
        return self.worker.collection_state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from `state`, with the weights that the algorithm has by now."""
        self.worker.load_collection_state(state)

    def save_storage(self, folder: Path) -> None:
        """Write what is stored into a folder."""
        self.worker.save_storage(folder)

    def load_storage(self, folder: Path) -> None:
        """Read what is stored from a folder, as far as it is there."""
        self.worker.load_storage(folder)

    def broadcast(self, command: Command) -> None:
        """Have all workers execute a command, and wait until all have."""
        self.worker.execute(command)

    def stop(self) -> None:
        """Stop all workers."""
        self.worker.stop()
