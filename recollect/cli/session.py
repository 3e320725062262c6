"""A training on the command line: a summary, progress and the final evaluation."""

import argparse
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import torch

from recollect.callbacks import Callback, StopAt, named_callbacks
from recollect.cli.summary import new_folder, say, summarise
from recollect.config import RunConfig, build
from recollect.data.offline import load_data
from recollect.errors import ConfigError, RecollectError, StorageError
from recollect.files.disk import read_file, remove_file, write_file
from recollect.files.lock import FolderLock
from recollect.files.records import MAX_BYTES, PARSE_ERRORS
from recollect.interrupts import Interrupts, exit_code, interruptible
from recollect.learner import Learner
from recollect.runs.directory import RunDirectory
from recollect.runs.display.progress import Progress
from recollect.runs.plots import plot_run
from recollect.runs.writers import MetricWriter, MLflowWriter, WandbWriter
from recollect.scheme.collection.worker.evaluation import Evaluation
from recollect.scheme.scheme import Scheme
from recollect.scheme.threads import choose_threads

EVALUATION_FILE: Final = "evaluation.json"
_OPTIONS_FILE: Final = "session.json"


@dataclass(frozen=True, kw_only=True)
class _SessionOptions:
    """How a run is recorded and when it stops, which does not change what it learns.

    Attributes
    ----------
    saves_replay : bool
        Whether checkpoints come with the replay.
    wandb_project, wandb_id : str or None
        Project of Weights & Biases that gets the metrics, and the run there.
    mlflow_experiment, mlflow_id : str or None
        Experiment of MLflow that gets the metrics, and the run there.
    stop_at : float or None
        Mean return of an evaluation at which the training stops.
    """

    saves_replay: bool = True
    wandb_project: str | None = None
    wandb_id: str | None = None
    mlflow_experiment: str | None = None
    mlflow_id: str | None = None
    stop_at: float | None = None

    @property
    def services(self) -> list[str]:
        """Where metrics are sent besides the folder."""
        named = {"Weights & Biases": self.wandb_project, "MLflow": self.mlflow_experiment}
        return [f"{name} ({place})" for name, place in named.items() if place]

    @property
    def callbacks(self) -> list[Callback]:
        """What the options add to the training loop."""
        return [] if self.stop_at is None else [StopAt(self.stop_at)]

    def write(self, folder: Path) -> None:
        """Keep the options in a run's folder."""
        write_file(folder / _OPTIONS_FILE, (json.dumps(asdict(self), indent=1) + "\n").encode())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the options of a run; runs that were not started by a command have the defaults."""
        path = folder / _OPTIONS_FILE
        if not path.is_file():
            return cls()
        try:
            return cls(**json.loads(read_file(path, MAX_BYTES)))
        except PARSE_ERRORS as error:
            raise StorageError(f"{path} cannot be read: {error}; correct the file, or remove it") from error


def begin(config: RunConfig, name: str, options: argparse.Namespace) -> int:
    """Begin a run in a new folder and train to its end; returns an exit code."""
    scheme, config = _prepare(config)
    document = config.with_defaults().to_document()
    callbacks = named_callbacks(config)
    made = [parent for parent in (options.out, *options.out.parents) if not parent.exists()]
    folder = new_folder(options.out, name)
    kept = _SessionOptions(
        saves_replay=not options.no_replay,
        wandb_project=options.wandb,
        mlflow_experiment=options.mlflow,
        stop_at=options.stop_at,
    )
    try:
        kept, writers = _open_writers(kept, folder.name, document)
        # Before the config, with which the folder holds a run: wherever it is killed, it resumes with its options.
        kept.write(folder)
        load_data(config, scheme)
        learner = Learner(
            scheme,
            config.steps,
            folder,
            offline_updates=config.updates,
            config=document,
            command=options.command,
            save_storage=kept.saves_replay,
            **config.checkpoints(),
            writers=writers,
            callbacks=[*callbacks, *kept.callbacks],
        )
    except (RecollectError, OSError):
        if not RunDirectory(folder).exists:
            with suppress(OSError):  # a folder that others have put files into stays
                remove_file(folder / _OPTIONS_FILE)
                for empty in (folder, *made):
                    empty.rmdir()
        raise
    return _train(learner, config, folder)


def resume(config: RunConfig, run: RunDirectory, *, trust: bool = False) -> int:
    """Resume a run from its newest checkpoint, with the session options it was begun with; returns an exit code.

    Metrics go to services that its files name only if the caller trusts them.
    """
    # Locked before anything is built, and before other services know of the run.
    with FolderLock(run.path):
        kept = _SessionOptions.read(run.path)
        if kept.services and not trust:
            raise ConfigError(
                f"{run.path / _OPTIONS_FILE} asks to send metrics to {' and '.join(kept.services)}; allow it if you "
                "trust where it is from: trust=True"
            )
        scheme, config = _prepare(config)
        kept, writers = _open_writers(kept, run.path.name, config.to_document())
        learner = Learner(
            scheme,
            config.steps,
            run.path,
            offline_updates=config.updates,
            save_storage=kept.saves_replay,
            **config.checkpoints(),
            writers=writers,
            callbacks=[*named_callbacks(config), *kept.callbacks],
            resume=True,
        )
        load_data(config, scheme)  # where the replay was not saved
        run.change({"steps": config.steps, "threads": config.threads})
        if (run.path / EVALUATION_FILE).exists():
            # It belongs to fewer steps, where a callback may have stopped the training: until there is a new one, the
            # run is not complete.
            remove_file(run.path / EVALUATION_FILE)
            learner.stop_reason = None
        return _train(learner, config, run.path)


def _open_writers(
    kept: _SessionOptions, name: str, document: Mapping[str, Any]
) -> tuple[_SessionOptions, list[MetricWriter]]:
    """Open the services that get the metrics; returns the options with the runs there, so that those are resumed."""
    writers: list[MetricWriter] = []
    if kept.wandb_project:
        wandb = WandbWriter(kept.wandb_project, name, document, kept.wandb_id)
        kept, writers = replace(kept, wandb_id=wandb.run_id), [wandb]
    if kept.mlflow_experiment:
        mlflow = MLflowWriter(kept.mlflow_experiment, name, document, kept.mlflow_id)
        kept, writers = replace(kept, mlflow_id=mlflow.run_id), [*writers, mlflow]
    return kept, writers


def _prepare(config: RunConfig) -> tuple[Scheme, RunConfig]:
    """Build the workers of a run; returns its config too, with as many threads as pay if it does not say how many."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
        return build(config), config
    scheme = build(config)
    return scheme, replace(config, threads=choose_threads(scheme.algo))


def _train(learner: Learner, config: RunConfig, folder: Path) -> int:
    """Train to the end, evaluate, save and plot; Ctrl-C, SIGTERM and SIGHUP leave a checkpoint to resume from."""
    say(summarise(config, torch.get_num_threads(), folder))
    try:
        with Progress(learner.target_steps) as progress:
            learner.train(progress.update)
        if learner.stop_reason is not None:
            say(f"stopped at {learner.num_steps:,} steps: {learner.stop_reason}")
        with interruptible():
            # The checkpoint before it stays the last one: a run that is killed in here evaluates the same again.
            evaluation = learner.evaluate(config.final_episodes)
            learner.write_row()
    except Interrupts as interrupt:
        say(f"stopped at {learner.num_steps:,} steps; resume with: recollect resume {folder}")
        return exit_code(interrupt)
    finally:
        learner.stop()
    _write_evaluation(evaluation, folder / EVALUATION_FILE)
    say(f"evaluation: {evaluation}   curve: {plot_run(folder)}")
    return 0


def _write_evaluation(evaluation: Evaluation, path: Path) -> None:
    """Write the episodes of an evaluation and their mean as JSON."""
    content = {
        "mean": evaluation.mean,
        # JSON has no NaN, which the error of a single episode is.
        "standard_error": None if math.isnan(evaluation.standard_error) else evaluation.standard_error,
        "success_rate": evaluation.success_rate,
        "returns": evaluation.returns,
        "lengths": evaluation.lengths,
    }
    write_file(path, (json.dumps(content, indent=1) + "\n").encode())
