"""Workers made of stand-ins."""

from collections.abc import Sequence
from typing import Any

from recollect.scheme.collection.c_worker import CWorker
from recollect.scheme.collection.collectors.collector import LocalCollector
from tests.parts import CountingActor, CountingAlgo, RecordingStorage, ScriptedEnvs


def make_worker(
    lengths: Sequence[Sequence[int]] = ((3, 5), (4,)),
    *,
    is_recurrent: bool = False,
    failures: Sequence[int] = (),
    late_failures: Sequence[int] = (),
    index: tuple[int, int] = (0, 0),
    fraction_samples: float = 1.0,
    initial_weights: Any = None,
    **numbers: Any,
) -> Any:
    """A worker; `numbers` are those of the algorithm."""
    return CWorker(
        index[0],
        index[1],
        lambda device, actor, envs: CountingAlgo(actor, envs, **numbers),
        lambda device: CountingActor(is_recurrent),
        lambda device, actor, algo, envs: RecordingStorage(actor, algo, envs),
        fraction_samples,
        train_envs_factory=lambda device, worker, parent: ScriptedEnvs(lengths, failures, late_failures),
        test_envs_factory=lambda device, worker, parent, mode: ScriptedEnvs(((2,), (6, 1), (9,))),
        initial_weights=initial_weights,
        device="cpu",
    )


class LocalWorkers:
    """What a gradient worker has its data from: one worker, in the same process."""

    def __init__(self, worker: CWorker) -> None:
        self._worker = worker
        self.num_workers = 0
        self.collector = LocalCollector(worker)

    def local_worker(self) -> CWorker:
        return self._worker

    def stop(self) -> None:
        self._worker.stop()


def make_workers(lengths: Sequence[Sequence[int]] = ((3, 5), (4,)), **numbers: Any) -> Any:
    """A factory of such workers."""
    return lambda device, weights, parent: LocalWorkers(make_worker(lengths, index=(0, parent), **numbers))
