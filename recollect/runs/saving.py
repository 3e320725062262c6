"""Saving and resuming a training: weights, optimisers, counters, generators, parameters and replay."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from recollect.errors import StorageError
from recollect.runs.checkpoints import read_checkpoint
from recollect.runs.directory import RunDirectory
from recollect.scheme.scheme import Scheme

_SCHEME: Final = "scheme"
_ELAPSED_S: Final = "elapsed_s"
_CALLBACKS: Final = "callbacks"
_CHANGES: Final = "changed_parameters"
_OF_ALGORITHM: Final = "algorithm"
_OF_STORAGE: Final = "storage"
_LOG = logging.getLogger(__name__)


class Restored(NamedTuple):
    """What a checkpoint holds beside the scheme's state: seconds of training, and states of callbacks by name."""

    elapsed_s: float
    callbacks: Mapping[str, Any]


def save_training(
    run: RunDirectory,
    scheme: Scheme,
    elapsed_s: float,
    callbacks: Mapping[str, Any] | None = None,
    *,
    with_storage: bool = True,
    is_best: bool = False,
) -> Path:
    """Write a checkpoint and return its folder; of the replay, only what is new is written.

    The replay comes first, so that every checkpoint can be resumed from. The best agent is kept without it.
    """
    if with_storage and not is_best:
        scheme.save_storage(run.storage_folder)
    state = {
        _SCHEME: scheme.state(),
        _ELAPSED_S: elapsed_s,
        _CHANGES: _changes(scheme),
        _CALLBACKS: dict(callbacks or {}),
    }
    path = (run.best if is_best else run.checkpoints).write(scheme.actor, state, scheme.num_steps)
    _LOG.info("checkpoint %s", path)
    return path


def restore_training(run: RunDirectory, scheme: Scheme, *, best: bool = False) -> Restored:
    """Load the newest checkpoint into a scheme, or the best agent without its replay.

    The environments begin new episodes. Without a saved replay, learning resumes once the storage has
    `start_steps` new steps. Parameters that were changed while running are changed again.
    """
    path = run.checkpoint(best=best)
    state = read_checkpoint(path, scheme.actor)
    try:
        _change_again(scheme, state.get(_CHANGES, {}))
        scheme.load_state(state[_SCHEME])
        restored = Restored(float(state[_ELAPSED_S]), state.get(_CALLBACKS, {}))
    except KeyError as error:
        raise StorageError(f"{path} does not fit this run: it lacks {error}; use the config of the run") from error
    if not best:
        scheme.load_storage(run.storage_folder)
    return restored


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
