"""A training on the command line: a summary, progress and the final evaluation."""

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

import torch

from recollect.cli.command import INTERRUPTED
from recollect.cli.summary import say, summarise
from recollect.config import RunConfig, build
from recollect.errors import StorageError
from recollect.learner import Learner
from recollect.runs.directory import RunDirectory
from recollect.runs.plots import plot_run
from recollect.runs.progress import Progress
from recollect.runs.writers import MetricWriter, WandbWriter
from recollect.scheme.collection.worker.evaluation import Evaluation
from recollect.scheme.scheme import Scheme

EVALUATION_FILE: Final = "evaluation.json"
_OPTIONS_FILE: Final = "session.json"


@dataclass(frozen=True, kw_only=True)
class _SessionOptions:
    """How a run is recorded, which does not change what it learns.

    Attributes
    ----------
    saves_replay : bool
        Whether checkpoints come with the replay.
    wandb_project, wandb_id : str or None
        Project of Weights & Biases that gets the metrics, and the run there.
    """

    saves_replay: bool = True
    wandb_project: str | None = None
    wandb_id: str | None = None

    def write(self, folder: Path) -> None:
        """Keep the options in a run's folder."""
        (folder / _OPTIONS_FILE).write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the options of a run; runs that were not started by a command have the defaults."""
        path = folder / _OPTIONS_FILE
        if not path.is_file():
            return cls()
        try:
            return cls(**json.loads(path.read_bytes()))
        except (TypeError, ValueError) as error:
            raise StorageError(f"{path} cannot be read: {error}; correct the file, or remove it") from error


def begin(config: RunConfig, folder: Path, options: argparse.Namespace) -> int:
    """Begin a run in a folder and train to its end; returns an exit code."""
    document = config.with_defaults().to_document()
    scheme = _prepare(config)
    wandb = WandbWriter(options.wandb, folder.name, document) if options.wandb else None
    learner = Learner(
        scheme,
        config.steps,
        folder,
        config=document,
        command=options.command,
        save_storage=not options.no_replay,
        writers=[wandb] if wandb else [],
    )
    _SessionOptions(
        saves_replay=not options.no_replay, wandb_project=options.wandb, wandb_id=wandb.run_id if wandb else None
    ).write(folder)
    return _train(learner, config, folder)


def resume(config: RunConfig, run: RunDirectory) -> int:
    """Resume a run from its newest checkpoint, with the session options it was begun with; returns an exit code."""
    kept = _SessionOptions.read(run.path)
    scheme = _prepare(config)
    writers: list[MetricWriter] = []
    if kept.wandb_project:
        writers = [WandbWriter(kept.wandb_project, run.path.name, config.to_document(), kept.wandb_id)]
    learner = Learner(scheme, config.steps, run.path, save_storage=kept.saves_replay, writers=writers, resume=True)
    config.save(run.config_file)
    # It belongs to fewer steps; until there is a new one, the run is not complete.
    (run.path / EVALUATION_FILE).unlink(missing_ok=True)
    return _train(learner, config, run.path)


def _prepare(config: RunConfig) -> Scheme:
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    return build(config)


def _train(learner: Learner, config: RunConfig, folder: Path) -> int:
    """Train to the end, evaluate, save and plot; Ctrl-C leaves a checkpoint to resume from."""
    say(summarise(config, torch.get_num_threads(), folder))
    try:
        with Progress(learner.target_steps) as progress:
            while not learner.done():
                learner.step()
                progress.update(learner)
        evaluation = learner.evaluate(config.final_episodes)
        learner.save_checkpoint()
    except KeyboardInterrupt:
        learner.save_checkpoint()
        say(f"stopped at {learner.num_steps:,} steps; resume with: recollect resume {folder}")
        return INTERRUPTED
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
    path.write_text(json.dumps(content, indent=1) + "\n")
