"""Saving and resuming a training: weights, optimisers, counters, generators, parameters and replay."""

import logging
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from recollect import metrics
from recollect.errors import RecollectError, StorageError
from recollect.files.records import PARSE_ERRORS, as_count, as_number, as_value
from recollect.runs.checkpointing.captured_agent import CapturedAgent, read_checkpoint
from recollect.runs.checkpointing.checkpoints import Checkpoints
from recollect.runs.checkpointing.commit import Commit, Replay, read_commit
from recollect.runs.directory import RunDirectory
from recollect.scheme.scheme import Scheme, resume_gap

_SCHEME: Final = "scheme"
_ELAPSED_S: Final = "elapsed_s"
_CALLBACKS: Final = "callbacks"
_LOGGED: Final = "logged"
_ROW: Final = "row"
_STOP_REASON: Final = "stop_reason"
_CHANGES: Final = "changed_parameters"
_OF_ALGORITHM: Final = "algorithm"
_OF_STORAGE: Final = "storage"
# A name that no replay has: the storage stays empty, and the workers count what they have lost.
_NO_REPLAY: Final = "none"
_LOG = logging.getLogger(__name__)


class _Writing:
    """Whose turn it is: learners of one process may share a folder, and one tidies up what the other writes."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin with a lock that nobody has."""
        self.lock = threading.Lock()


_WRITING: Final = _Writing()
# Whoever has the lock when a process is forked is not there to give it back.
os.register_at_fork(after_in_child=_WRITING.renew)


class LoopState(NamedTuple):
    """What a training loop has beside its scheme.

    Attributes
    ----------
    elapsed_s : float
        Seconds of training.
    callbacks : mapping
        States of callbacks by name.
    logged : mapping
        Metrics of callbacks that no row has yet.
    row : mapping or None
        The newest row of metrics that was due, empty before the first one; None if nobody knows. Those behind it
        belong to what a resumed run does again.
    stop_reason : str or None
        Why a callback has ended the training.
    """

    elapsed_s: float = 0.0
    callbacks: Mapping[str, Any] = {}
    logged: Mapping[str, float] = {}
    row: Mapping[str, float] | None = None
    stop_reason: str | None = None

    def to_state(self) -> dict[str, Any]:
        """What checkpoints keep of it."""
        return {
            _ELAPSED_S: self.elapsed_s,
            _CALLBACKS: dict(self.callbacks),
            _LOGGED: dict(self.logged),
            _ROW: None if self.row is None else dict(self.row),
            _STOP_REASON: self.stop_reason,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Read it back; earlier versions kept less."""
        reason = state.get(_STOP_REASON)
        return cls(
            as_number(state[_ELAPSED_S], 0.0),
            {**state.get(_CALLBACKS, {})},
            {str(name): as_number(value) for name, value in state.get(_LOGGED, {}).items()},
            _row_in(state.get(_ROW)),
            None if reason is None else str(reason),
        )


@dataclass(frozen=True)
class CapturedTraining:
    """A training as it was at one moment, copied; any thread may write it while the training continues.

    Attributes
    ----------
    checkpoints : Checkpoints
        Where it is to be written.
    storage_folder : Path
        Where its replay is to be written.
    replay : (name, number, function) or None
        What to call the replay, how many transitions it has, and what writes it; None to save without.
    agent : CapturedAgent
        Weights, and all other state.
    num_steps : int
        Env steps so far.
    gap : str or None
        Why episodes in progress cannot be continued from it, if they cannot.
    """

    checkpoints: Checkpoints
    storage_folder: Path
    replay: tuple[str, int, Callable[[], None]] | None
    agent: CapturedAgent
    num_steps: int
    gap: str | None

    def write(self) -> Path:
        """Write the checkpoint and return its folder.

        The commit record, which comes last, names the replay that belongs to it.
        """
        replay = None
        with _WRITING.lock:
            if self.replay is not None:
                name, num_stored, write = self.replay
                write()
                replay = Replay.find(self.storage_folder, name, num_stored)
            path = self.checkpoints.write(self.agent.dump(), self.num_steps, replay, self.gap)
        _LOG.info("checkpoint %s", path)
        return path


def capture_training(
    run: RunDirectory,
    scheme: Scheme,
    loop: LoopState,
    *,
    with_storage: bool = True,
    is_best: bool = False,
) -> CapturedTraining:
    """Copy what a checkpoint needs; of the replay, only what is new. The best agent is kept without one."""
    checkpoints, num_steps, replay = run.best if is_best else run.checkpoints, scheme.num_steps, None
    if with_storage and not is_best:
        # No attempt before can have left anything under this name.
        name = f"{checkpoints.next_name(num_steps)}-{uuid.uuid4().hex[:8]}"
        write = scheme.capture_storage(run.storage_folder, name)
        replay = (name, scheme.status().num_stored, write)
    of_scheme = scheme.state()
    state = {_SCHEME: of_scheme, _CHANGES: _changes(scheme), **loop.to_state()}
    agent = CapturedAgent.of(scheme.actor, state)
    return CapturedTraining(checkpoints, run.storage_folder, replay, agent, num_steps, resume_gap(of_scheme))


def save_training(
    run: RunDirectory,
    scheme: Scheme,
    elapsed_s: float,
    callbacks: Mapping[str, Any] | None = None,
    *,
    with_storage: bool = True,
    is_best: bool = False,
) -> Path:
    """Write a checkpoint and return its folder, see `capture_training`."""
    loop = LoopState(elapsed_s, callbacks or {})
    return capture_training(run, scheme, loop, with_storage=with_storage, is_best=is_best).write()


def restore_training(run: RunDirectory, scheme: Scheme, *, best: bool = False) -> LoopState:
    """Load the newest whole checkpoint into a scheme, or the best agent without its replay.

    Episodes in progress are continued where environments can be saved. Without a saved replay, learning resumes once
    the storage has `start_steps` new steps. Parameters that were changed while running are changed again.
    """
    path = run.checkpoint(best=best, with_replay=not best)
    commit, state = read_commit(path), read_checkpoint(path, scheme.actor)
    try:
        _change_again(scheme, state.get(_CHANGES, {}))
        scheme.load_state(state[_SCHEME])
        restored = LoopState.from_state(state)
    except KeyError as error:
        raise StorageError(f"{path} does not fit this run: it lacks {error}; use the config of the run") from error
    except (*PARSE_ERRORS, RuntimeError) as error:
        if isinstance(error, RecollectError):
            raise
        raise StorageError(f"{path} does not fit this run: {error!r}; use the config of the run") from error
    if not best:
        _load_replay(run, scheme, commit)
    return restored


def _row_in(found: Mapping[str, Any] | None) -> dict[str, float] | None:
    """A row of metrics, if there is one; it says of how many steps it is."""
    if not found:
        return None if found is None else {}
    row = {str(name): as_value(value) for name, value in found.items()}
    return {**row, metrics.STEPS: as_count(row[metrics.STEPS])}


def _load_replay(run: RunDirectory, scheme: Scheme, commit: Commit) -> None:
    """Fill the storage with what belongs to a checkpoint."""
    if commit.replay is None:
        scheme.load_storage(run.storage_folder, _NO_REPLAY)
        return
    scheme.load_storage(run.storage_folder, commit.replay.name)
    if commit.replay.num_stored and not scheme.status().num_stored:
        _LOG.warning(
            "the %s transitions in %s were stored by other gradient workers than there are now, so that learning waits "
            "for new ones; resume with as many workers to learn from them",
            f"{commit.replay.num_stored:,}",
            run.storage_folder,
        )


def _changes(scheme: Scheme) -> dict[str, dict[str, Any]]:
    """Parameters that were changed while running; parts that do not record them resume with those of their config."""
    parts = {_OF_ALGORITHM: scheme.algo, _OF_STORAGE: scheme.storage}
    return {name: dict(getattr(part, "changed_parameters", {})) for name, part in parts.items()}


def _change_again(scheme: Scheme, changes: Mapping[str, Mapping[str, Any]]) -> None:
    # The algorithm's come last: it owns gamma, which can be changed through the storage too.
    for name, value in changes.get(_OF_STORAGE, {}).items():
        scheme.update_storage_parameter(name, value)
    for name, value in changes.get(_OF_ALGORITHM, {}).items():
        scheme.update_algorithm_parameter(name, value)
