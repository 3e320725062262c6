"""What collectors have in common, and the simplest one: in this process."""

from contextlib import AbstractContextManager

from recollect.checks import check_count
from recollect.errors import ConfigError
from recollect.scheme.collection.agent_worker import AgentWorker
from recollect.scheme.collection.c_worker import CWorker
from recollect.scheme.collection.collectors.reports import WorkerReport
from recollect.scheme.overlap import Overlap


class CollectorBase:
    """What collectors have in common: the worker whose storage they fill.

    Parameters
    ----------
    worker : AgentWorker
        The worker whose storage is filled, and which counts steps and episodes.
    num_parents : int
        Collections like this one, each for a gradient worker, that a run has.
    """

    def __init__(self, worker: AgentWorker, num_parents: int = 1) -> None:
        self.worker = worker
        self._num_parents = num_parents

    @property
    def num_run_steps(self) -> int:
        """Steps that the run has collected so far, if the other collections are as fast as this one."""
        return self.worker.num_steps * self._num_parents

    def beside(self, overlap: Overlap) -> AbstractContextManager[None] | None:
        """Collects for a stage beside the updates of a block, or before it, and stores that after it; None if not."""
        return None


class LocalCollector(CollectorBase):
    """The worker collects itself."""

    worker: CWorker

    def collect(self) -> int:
        """Collect for one update stage."""
        num_before = self.worker.num_steps
        if self._num_parents > 1:
            self.worker.acting.follow_run(self.num_run_steps)
        self.worker.collect_train_data()
        return self.worker.num_steps - num_before

    def beside(self, overlap: Overlap) -> AbstractContextManager[None]:
        """Collects for a stage beside the updates of a block, or before it, and stores that after it."""
        return overlap.running(self.worker.deferred)

    def reports(self) -> tuple[WorkerReport, ...]:
        """None: there are no remote workers."""
        return ()

    def set_num_workers(self, num_workers: int) -> None:
        """Refuse: a worker that collects here cannot be joined by remote ones."""
        check_num_workers(num_workers, 0)

    @property
    def num_env_failures(self) -> int:
        """How often an environment failed so far."""
        return int(self.worker.envs_train.num_failures)

    def progress(self) -> int | None:
        """Return a number that moves on with every step; None while environments are built."""
        return self.worker.progress()


def check_num_workers(num_workers: int, num_present: int) -> None:
    """Refuse to change the number of remote workers where there are none, or to leave none."""
    if num_present == 0:
        raise ConfigError(
            "the learner collects itself, in its own process; use at least 1 collection worker from the start "
            "to add or remove some"
        )
    if num_workers <= 0:
        raise ConfigError(
            f"{num_present - num_workers} of {num_present} collection workers cannot be removed; one must stay"
        )
    check_count("the number of collection workers", num_workers)
