"""`GWorkerSet`: gradient workers in processes of their own, each with its own collection."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

from recollect.files.lock import FolderLock
from recollect.roles import Device
from recollect.scheme.base.resources import DEFAULT, Demand, Resources
from recollect.scheme.base.supervision import Supervision
from recollect.scheme.base.worker_set import WorkerSet
from recollect.scheme.collection.c_worker_set import CWorkerSetFactory
from recollect.scheme.gradients.g_worker import GWorker

# A gradient worker must have the time to find out that one of its collectors hangs.
_PATIENCE: Final = 3.0
# Around the names of folders of journals.
_PREFIX: Final = "recollect-"
_SUFFIX: Final = "-journals"


class GWorkerSet(WorkerSet):
    """Remote gradient workers.

    Parameters
    ----------
    num_workers : int
        Gradient workers.
    col_workers_factory : callable
        Creates the workers that collect for each: `col_workers_factory(device, initial_weights, index_parent)`.
    device, replay_ratio
        As in `GWorker`.
    worker_class : type
        Class of the workers.
    journal_folder : path-like, optional
        Where a folder is made for what workers note of their storages, and removed with them; by default among the
        temporary files of each machine. A folder that all machines share outlives any of them.
    worker_remote_config : mapping, optional
        Ray's resource options of one worker; by default what the cluster has.
    supervision, placement, beside
        As in `WorkerSet`; a collector that hangs is found out before its gradient worker counts as hung.
    """

    def __init__(
        self,
        num_workers: int,
        col_workers_factory: CWorkerSetFactory,
        device: Device | None = None,
        *,
        worker_class: type[GWorker] = GWorker,
        replay_ratio: float | None = None,
        journal_folder: str | PathLike[str] | None = None,
        worker_remote_config: Resources | None = None,
        supervision: Supervision | None = None,
        placement: str = DEFAULT,
        beside: Sequence[Demand] = (),
    ) -> None:
        supervision = supervision or Supervision()
        if journal_folder is not None:
            Path(journal_folder).mkdir(parents=True, exist_ok=True)
        remove_left_journals(Path(journal_folder or gettempdir()))
        self._journals = TemporaryDirectory(_SUFFIX, _PREFIX, journal_folder, ignore_cleanup_errors=True)
        self._lock = FolderLock(Path(self._journals.name))
        params = {
            "col_workers_factory": col_workers_factory,
            "device": device,
            "num_peers": num_workers,
            "replay_ratio": replay_ratio,
            "journal_folder": Path(self._journals.name),
        }
        try:
            super().__init__(
                worker_class,
                params,
                worker_remote_config,
                num_workers,
                supervision=replace(supervision, timeout_s=_PATIENCE * supervision.timeout_s),
                placement=placement,
                beside=beside,
            )
        except BaseException:
            self._remove_journals()
            raise

    def stop(self) -> None:
        """End all workers, and remove what they have noted."""
        super().stop()
        self._remove_journals()

    def _remove_journals(self) -> None:
        self._lock.release()
        self._journals.cleanup()


def remove_left_journals(folder: Path) -> None:
    """Remove the journals that processes left in a folder when they were killed."""
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        if not path.is_symlink() and FolderLock.is_left(path):
            rmtree(path, ignore_errors=True)
