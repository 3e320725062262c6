"""`Inbox`: takes the slices of remote workers into the learner's storage, each step once."""

import time
from collections import Counter
from typing import Any, Final

import numpy as np

from recollect import keys
from recollect.errors import StorageError
from recollect.scheme.collection.c_worker import CWorker
from recollect.scheme.collection.collectors.reports import Receipt
from recollect.scheme.collection.collectors.slices import Slice

Life = tuple[int, int, int]
"""Index of a worker's parent, its own, and its epoch: the source of a stream of steps."""

# Marks of steps after which an episode begins.
_ENDS: Final = (keys.NEXT_DONE, keys.SKIP, keys.CUT)


class Inbox:
    """Puts slices into the storage of the learner's worker, and has it count steps and episodes.

    Every life of a worker is a source of its own in the storage. Steps that are there already are dropped.

    Parameters
    ----------
    worker : CWorker
        The learner's worker.
    """

    def __init__(self, worker: CWorker) -> None:
        self._worker = worker
        self._received: dict[Life, int] = {}
        self._stage_steps: Counter[tuple[int, int]] = Counter()

    def begin_stage(self) -> None:
        """Say that a stage of collection begins: what an on-policy storage held has been let go."""
        self._stage_steps.clear()

    def has_room(self, new: Slice) -> bool:
        """Whether the storage can take a slice in this stage; only on-policy ones are ever full.

        A slice that is larger than the whole storage has room in no stage: it is not kept back, so that the storage
        refuses it.
        """
        num_stored = self._stage_steps[new.source]
        if not self._worker.algo.is_on_policy or num_stored == 0:
            return True
        return bool(num_stored + new.num_steps <= self._worker.storage.max_size)

    def insert(self, new: Slice, newest_version: int) -> Receipt:
        """Take in a slice, and say what it brought."""
        begin, num_bytes = time.perf_counter(), new.num_bytes
        codec_s = 0.0 if new.packed is None else new.packed.elapsed_s
        if new.packed is not None:
            new = new.unpacked()
            codec_s += time.perf_counter() - begin
        life = (*new.source, new.epoch)
        num_known = min(max(0, self._received.get(life, 0) - new.first_step), new.num_steps)
        num_fresh = self._store(new, life, num_known) if num_known < new.num_steps else 0
        return Receipt(
            num_fresh,
            new.info[keys.COLLECTION][keys.TIME_S],
            newest_version - new.version,
            num_bytes,
            codec_s,
            new.info[keys.ENV_FAILURES],
        )

    def forget(self, life: Life) -> None:
        """Say that a life has ended; its successor takes its lanes."""
        if self._received.pop(life, None) is not None:
            try:
                self._worker.storage.release_source(life)
            except StorageError:  # the storage was exchanged since, and this one has nothing of that life
                return

    def _store(self, new: Slice, life: Life, num_known: int) -> int:
        worker, full = self._worker, new.expand()
        worker.storage.insert_data_slice(full, source=life, first_step=new.first_step)
        self._received[life] = new.first_step + new.num_steps
        self._stage_steps[new.source] += new.num_steps
        self._observe(full, life, num_known)
        skipped = new.arrays.get(keys.SKIP)
        num_rows = (new.num_steps - num_known) * worker.envs_train.num_envs
        num_fresh = num_rows - (0 if skipped is None else int(np.count_nonzero(skipped[num_known:])))
        worker.num_steps += num_fresh
        worker.episodes.add(new.info[keys.ENDED])
        if new.info[keys.ENDED] and hasattr(worker.storage, "handle_end_of_episode"):
            worker.storage.handle_end_of_episode()
        return num_fresh

    def _observe(self, full: dict[str, Any], life: Life, num_known: int) -> None:
        """Let the normalisers of the learner's actor see what the worker's saw, step by step."""
        actor, gamma = self._worker.actor, self._worker.algo.gamma
        if getattr(actor, "normaliser", None) is None and getattr(actor, "reward_normaliser", None) is None:
            return
        for number in range(num_known, len(full[keys.REWARD])):
            obs, reward = _at(full[keys.OBS], number), _at(full[keys.REWARD], number)
            ends = {key: full[key][number].astype(np.bool_) for key in _ENDS if key in full}
            begins = np.logical_or.reduce(list(ends.values()))
            actor.observe(obs, reward, begins, gamma, source=life, skip=ends.get(keys.SKIP))


def _at(arrays: Any, step: int) -> Any:
    """The (nested) arrays of one step; copies, because what came through the object store is read-only."""
    if isinstance(arrays, dict):
        return {key: _at(inner, step) for key, inner in arrays.items()}
    return arrays[step].copy()
