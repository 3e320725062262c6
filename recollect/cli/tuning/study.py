"""A tuning: an Optuna study in a SQLite file, whose trials train agents in processes of their own."""

import multiprocessing
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from recollect.config import RunConfig, build, settings
from recollect.config.files import Document, dump_document, parse_value, read_document, write_document
from recollect.config.layers import override
from recollect.config.parts import ACTOR, ALGO, STORAGE, options_of
from recollect.errors import ConfigError, EnvError, NotFiniteError, RecollectError, StorageError
from recollect.extras import the_extra
from recollect.files.disk import open_file
from recollect.files.records import PARSE_ERRORS
from recollect.interrupts import interruptible
from recollect.options import Search

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna import Trial
    from optuna.pruners import BasePruner
    from optuna.trial import FrozenTrial

    from recollect.learner import Learner

_NAME: Final = "recollect"
# Updates between evaluations of its own that an algorithm never gets to.
_NEVER: Final = 1 << 62
# Settings that may differ between one call and the next.
_MAY_CHANGE: Final = ("seed", "threads", "device")
# How often processes are asked to end before they are killed, and how long each time they may take.
_MAX_STOP_REQUESTS: Final = 3
_PATIENCE_S: Final = 20.0


def search_space(config: RunConfig, fixed: Mapping[str, Any]) -> dict[str, Search]:
    """What the options of a run's parts declare to try, by path; those that the caller fixed are left out."""
    found: dict[str, Search] = {}
    for part in (ALGO, ACTOR, STORAGE):
        options = options_of(part, getattr(config, part, None)).values()
        found |= {f"{part}.{option.name}": option.search for option in options if option.search is not None}
    return {path: search for path, search in found.items() if not {path, path.partition(".")[2]} & set(fixed)}


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What is tuned, and how; sent to the processes that train.

    Attributes
    ----------
    config : RunConfig
        What every trial begins with; trial n trains with its seed plus n.
    space : dict of Search
        What is tried, by path of the option.
    pruner : str
        What ends trials early: "median", "halving" or "none".
    num_reports : int
        Evaluations of a trial, of which the last one counts.
    num_episodes : int
        Episodes of each.
    """

    config: RunConfig
    space: Mapping[str, Search]
    pruner: str = "median"
    num_reports: int = 10
    num_episodes: int = 10

    def config_of(self, number: int, values: Mapping[str, Any]) -> RunConfig:
        """Config of a trial: the common one, with values by path and a seed of its own."""
        typed = {path: parse_value(value) if isinstance(value, str) else value for path, value in values.items()}
        document = override(self.config.to_document(), typed, settings())
        # It is of the config that was resolved, which asked for what it needs.
        return replace(RunConfig.from_document(document, trust=True), seed=self.config.seed + number)


class StudyFolder:
    """Folder of a study: what is tuned (`tune.yaml`), the trials (`study.db`), the best config and a picture.

    Parameters
    ----------
    path : Path
        The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / "study.db"
        self.best_file = path / "best.yaml"
        self.picture = path / "study.png"
        self._tuning_file = path / "tune.yaml"

    def begin(self, tuning: Tuning) -> int:
        """Make the study, or take up the one that is there, and return how many of its trials are over.

        A study of something else is refused. Trials of a process that is gone count as failed.
        """
        require_optuna()
        document = _document_of(tuning)
        if self._tuning_file.is_file():
            self._check_same(document)
        self.path.mkdir(parents=True, exist_ok=True)
        write_document(document, self._tuning_file)
        self.give_up_running(tuning)
        return len(self.finished(tuning))

    def give_up_running(self, tuning: Tuning) -> None:
        """Mark trials that nobody runs any more as failed."""
        from optuna.trial import TrialState

        study = self.open(tuning)
        for trial in study.get_trials(states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)

    def finished(self, tuning: Tuning) -> "list[FrozenTrial]":
        """Trials that are over; failed ones do not count."""
        from optuna.trial import TrialState

        return self.open(tuning).get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))

    def best(self, tuning: Tuning) -> "FrozenTrial | None":
        """The trial with the highest return, if any was trained to its end."""
        done = [trial for trial in self.finished(tuning) if trial.value is not None and trial.state.name == "COMPLETE"]
        return max(done, key=lambda trial: trial.value or 0.0, default=None)

    def open(self, tuning: Tuning, index_worker: int = 0) -> "OptunaStudy":
        """Open the study, for a process that draws numbers of its own."""
        import optuna
        from sqlalchemy.exc import SQLAlchemyError

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            if self.database.is_symlink() or self.database.exists():
                with open_file(self.database):
                    pass
            study = optuna.create_study(
                storage=f"sqlite:///{self.database.resolve()}",
                pruner=_pruner(tuning),
                study_name=_NAME,
                direction="maximize",
                load_if_exists=True,
            )
            num_trials = len(study.get_trials(deepcopy=False))
        except (SQLAlchemyError, optuna.exceptions.OptunaError, *PARSE_ERRORS) as error:
            reason = str(error).partition("\n")[0]
            raise StorageError(f"{self.database} is no study: {reason}; choose another --name, or remove it") from error
        # What was tried is not drawn again when a study is taken up.
        entropy = (tuning.config.seed, index_worker, num_trials)
        (seed,) = np.random.SeedSequence(entropy).generate_state(1)
        study.sampler = optuna.samplers.TPESampler(seed=int(seed))
        return study

    def _check_same(self, document: Document) -> None:
        before = read_document(self._tuning_file)
        changed = [entry for entry in document if before.get(entry) != document[entry]]
        if changed:
            raise ConfigError(
                f"{self.path} holds a study with another {changed[0]}; give the options that it was begun with, or "
                "another --name"
            )


def require_optuna() -> None:
    """Refuse to tune without Optuna."""
    if find_spec("optuna") is None:
        raise ConfigError(f"recollect tune needs {the_extra('tune')}")


class Workers:
    """Processes that run the trials of a study.

    Parameters
    ----------
    tuning : Tuning
        What is tuned.
    folder : StudyFolder
        Where the study is.
    num_trials, num_jobs : int
        Trials to run, and how many at a time.
    """

    def __init__(self, tuning: Tuning, folder: StudyFolder, num_trials: int, num_jobs: int) -> None:
        context = multiprocessing.get_context("spawn")
        # Kept here, because a semaphore that nobody refers to is gone before the processes find it.
        self._permits = context.Semaphore(num_trials)
        self._processes = [
            context.Process(target=work, args=(tuning, folder, self._permits, index))
            for index in range(min(num_jobs, num_trials))
        ]
        for process in self._processes:
            process.start()

    def are_running(self) -> bool:
        """Whether any process still runs."""
        return any(process.is_alive() for process in self._processes)

    def stop(self) -> None:
        """End the processes, in the middle of their trials; one that ignores it is asked again, and then killed.

        Python loses an interrupt that comes while it runs a finaliser.
        """
        for _ in range(_MAX_STOP_REQUESTS):
            for process in self._processes:
                process.terminate()
            end = time.monotonic() + _PATIENCE_S
            for process in self._processes:
                process.join(max(0.0, end - time.monotonic()))
            if not self.are_running():
                return
        for process in self._processes:
            process.kill()

    def wait(self) -> int:
        """Wait until all processes are over, and return 0 if they ended well."""
        for process in self._processes:
            process.join()
        return int(any(process.exitcode for process in self._processes))


def work(tuning: Tuning, folder: StudyFolder, permits: Semaphore, index_worker: int) -> None:
    """Run trials while there are any left, and somebody who waits for them."""
    import torch
    from optuna.trial import TrialState

    # A terminal sends Ctrl-C to all processes; the one that started this one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(tuning.config.threads or 1)
    study = folder.open(tuning, index_worker)
    parent = multiprocessing.parent_process()
    with interruptible():
        while parent is not None and parent.is_alive() and permits.acquire(block=False):
            trial = study.ask()
            try:
                study.tell(trial, *_train(trial, tuning))
            except (NotFiniteError, EnvError):
                # A learning rate that blows the weights up is a finding, and no reason to end the study.
                study.tell(trial, state=TrialState.FAIL)
            except RecollectError as error:
                study.tell(trial, state=TrialState.FAIL)
                sys.exit(f"error: {error}")


def _train(trial: "Trial", tuning: Tuning) -> "tuple[float | None, Any]":
    """Train one agent; returns the return of its last evaluation and how the trial ended."""
    from optuna.trial import TrialState

    from recollect.callbacks import named_callbacks
    from recollect.data.offline import load_data
    from recollect.learner import Learner

    values = {path: _suggest(trial, path, search) for path, search in tuning.space.items()}
    config = tuning.config_of(trial.number, values)
    # The tuning evaluates all trials after as many steps; the algorithm's own evaluations count updates.
    scheme = build(replace(config, algo_options=config.options(ALGO) | {"test_every": _NEVER}))
    learner = Learner(scheme, config.steps, offline_updates=config.updates, callbacks=named_callbacks(config))
    try:
        load_data(config, scheme)
        for number in range(1, tuning.num_reports + 1):
            while not learner.done() and _share_done(learner) * tuning.num_reports < number:
                learner.step()
            mean = learner.evaluate(tuning.num_episodes).mean
            trial.report(mean, number)
            if learner.stop_reason is not None:
                break
            if number < tuning.num_reports and trial.should_prune():
                return None, TrialState.PRUNED
    finally:
        learner.stop()
    return mean, TrialState.COMPLETE


def _share_done(learner: "Learner") -> float:
    """Share of a trial that is over, updates from data and env steps counted alike."""
    num_offline = min(learner.num_updates, learner.offline_updates)
    return (num_offline + learner.num_steps) / (learner.offline_updates + learner.target_steps)


def _suggest(trial: "Trial", path: str, search: Search) -> Any:
    if search.choices:
        return trial.suggest_categorical(path, [plain(value) for value in search.choices])
    return trial.suggest_float(path, search.low, search.high, log=search.is_log)


def plain(value: object) -> Any:
    """A choice as a database holds it: a number or a text."""
    return value if isinstance(value, (int, float, str)) else str(value)


def _pruner(tuning: Tuning) -> "BasePruner":
    from optuna import pruners

    if tuning.pruner == "none":
        return pruners.NopPruner()
    if tuning.pruner == "halving":
        return pruners.SuccessiveHalvingPruner()
    return pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=tuning.num_reports // 4)


def _document_of(tuning: Tuning) -> Document:
    """What must be the same for trials to be compared."""
    config = {entry: value for entry, value in tuning.config.to_document().items() if entry not in _MAY_CHANGE}
    found = config | {
        "space": {path: str(search) for path, search in tuning.space.items()},
        "evaluations": [tuning.num_reports, tuning.num_episodes],
    }
    document: Document = parse_value(dump_document(found))
    return document
