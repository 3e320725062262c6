"""`Learner`: runs the training loop of a scheme, with evaluations, metrics and checkpoints."""

import logging
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Any, Final

from recollect import keys, metrics, units
from recollect.callbacks import Callback, Callbacks, KeepBest, StepFunction
from recollect.checks import check_count, check_list, check_number, check_whole
from recollect.config.describe import describe
from recollect.errors import ConfigError, MemoryExplained, RecollectWarning
from recollect.interrupts import Interrupts, held_back, interruptible
from recollect.roles import ComponentFactory
from recollect.runs.checkpointing.pace import CheckpointPace
from recollect.runs.directory import RunDirectory
from recollect.runs.display.rates import Rates
from recollect.runs.recorder import Recorder
from recollect.runs.rescue import Rescue
from recollect.runs.training_metrics import evaluation_metrics, scheme_metrics
from recollect.runs.writers import MetricWriter, RowFunction
from recollect.scheme.collection.worker.evaluation import Evaluation
from recollect.scheme.gradients.g_worker import GWorker
from recollect.scheme.scheme import Scheme

_LOG = logging.getLogger(__name__)
_RESUME_LOG = logging.getLogger(keys.RESUME_LOGGER)
ROWS_A_RUN: Final = 200
_CHECKPOINTS_A_RUN: Final = 10
_OFFLINE_UPDATES_A_STAGE: Final = 50


class Learner:
    """Trains an agent, one update stage at a time.

    Parameters
    ----------
    scheme : Scheme
        The workers.
    target_steps : int
        Env steps to train for, over all environments together, those of earlier trainings included. Update
        stages are not cut short, so it may become up to one stage more.
    offline_updates : int
        Updates from what is stored before anything is collected, those of earlier trainings included.
    log_dir : path-like, optional
        Folder of the run. Without one nothing is written.
    config : mapping, optional
        The resolved config, to be kept with the run; by default what the scheme's factories say.
    command : str, optional
        The command line that started the run, to be kept with it.
    log_every, checkpoint_every : int, optional
        Env steps between rows of metrics, and between checkpoints; by default 200 and 10 a run.
    checkpoint_minutes : float, optional
        Minutes between checkpoints at most.
    keep_checkpoints : int
        How many checkpoints to keep, the newest ones.
    keep_checkpoint_days : float, optional
        Remove those that are older, too; the newest one always stays.
    background_checkpoints : bool
        Copy what a checkpoint needs, and write it in a thread beside the training; else the training waits. One that
        comes due while another is written waits until that is whole.
    save_storage : bool
        Save the replay with checkpoints.
    writers : sequence of MetricWriter or function
        Where metrics go besides the run's CSV file and TensorBoard; a function gets each row as a dict.
    callbacks : sequence of Callback or function
        What runs in the training loop; a function is called with the learner after every update stage. A run with a
        folder also has `KeepBest`.
    resume : bool
        Resume the run in `log_dir` from its newest checkpoint.

    Attributes
    ----------
    last_evaluation : Evaluation or None
        The newest evaluation.
    stop_reason : str or None
        Why a callback stopped the training.
    elapsed_s : float
        Seconds of training, evaluations left out.
    logged : dict
        The newest value of each metric that callbacks logged.
    unwritten : set
        Names of those among them that the next row of metrics will hold.

    Examples
    --------
    >>> from recollect import DDQN, OffPolicyActor, ReplayBuffer, VecEnv
    >>> envs, action_space, obs_space = VecEnv.create_factory("CartPole-v1", seed=1)
    >>> scheme = Scheme(
    ...     DDQN.create_factory(start_steps=100, update_every=10, num_mini_batch=2),
    ...     OffPolicyActor.create_factory(obs_space, action_space, DDQN, seed=1),
    ...     ReplayBuffer.create_factory(1000, seed=1),
    ...     envs,
    ... )
    >>> learner = Learner(scheme, target_steps=200)
    >>> while not learner.done():
    ...     learner.step()
    >>> learner.num_steps
    200
    >>> learner.stop()
    """

    def __init__(
        self,
        scheme: Scheme,
        target_steps: int,
        log_dir: str | PathLike[str] | None = None,
        *,
        offline_updates: int = 0,
        config: Mapping[str, Any] | None = None,
        command: str | None = None,
        log_every: int | None = None,
        checkpoint_every: int | None = None,
        checkpoint_minutes: float | None = None,
        keep_checkpoints: int = keys.KEPT_CHECKPOINTS,
        keep_checkpoint_days: float | None = None,
        background_checkpoints: bool = True,
        save_storage: bool = True,
        writers: Sequence[MetricWriter | RowFunction] = (),
        callbacks: Sequence[Callback | StepFunction] = (),
        resume: bool = False,
    ) -> None:
        self.scheme = scheme
        self.offline_updates = check_whole("offline_updates", offline_updates)
        self.target_steps = (check_whole if offline_updates else check_count)("target_steps", target_steps)
        num_kept, oldest_s = check_count("keep_checkpoints", keep_checkpoints), None
        if keep_checkpoint_days is not None:
            oldest_s = units.DAY_S * check_number("keep_checkpoint_days", keep_checkpoint_days, 0)
        every = _interval("checkpoint_every", checkpoint_every, target_steps // _CHECKPOINTS_A_RUN)
        pace = CheckpointPace(every, checkpoint_minutes)
        self.last_evaluation: Evaluation | None = None
        self.stop_reason: str | None = None
        self.elapsed_s = 0.0
        self.logged: dict[str, float] = {}
        self.unwritten: set[str] = set()
        self._rates = Rates()
        self._memory_explained = MemoryExplained("the training")
        callbacks, writers = check_list("callbacks", callbacks), check_list("writers", writers)
        keeps_best = log_dir is None or any(isinstance(callback, KeepBest) for callback in callbacks)
        self._callbacks = Callbacks(callbacks if keeps_best else [*callbacks, KeepBest()])
        self._callbacks.check(scheme)
        self._has_started = False
        kept = self._described(config) if log_dir is not None and not resume else None
        self._recorder = Recorder(
            _run_directory(log_dir, kept, command, resume=resume),
            log_every=_interval("log_every", log_every, target_steps // ROWS_A_RUN),
            pace=pace,
            with_storage=save_storage,
            in_background=background_checkpoints,
            writers=writers,
        )
        self._rescue = Rescue(self._recorder, self)
        if self.run is not None:
            self.run.checkpoints.num_kept, self.run.checkpoints.oldest_s = num_kept, oldest_s
        if resume:
            self._restore()
        elif self.run is not None and (gap := scheme.resume_gap) is not None:
            _RESUME_LOG.info("if this run is resumed, new episodes begin: %s", gap)
        self._num_episodes = self._count_episodes()
        self._next_test = self._following_test()

    @property
    def num_steps(self) -> int:
        """Env steps so far."""
        return self.scheme.num_steps

    @property
    def num_updates(self) -> int:
        """Network updates so far."""
        return self.scheme.num_updates

    @property
    def run(self) -> RunDirectory | None:
        """Where the run is kept, if anywhere."""
        return self._recorder.run

    @property
    def folder(self) -> RunDirectory:
        """Where the run is kept; an error if nowhere."""
        return self._recorder.folder

    def done(self) -> bool:
        """Whether the target is reached, or a callback has asked to stop."""
        has_learned = not self._is_offline and self.num_steps >= self.target_steps
        return self.stop_reason is not None or has_learned

    @property
    def _is_offline(self) -> bool:
        """Whether updates from what is stored are left, before anything is collected."""
        return self.num_updates < self.offline_updates

    def request_stop(self, reason: str = "a callback asked for it") -> None:
        """End the training after the present update stage."""
        self.stop_reason = reason
        _LOG.info("the training stops at %d steps: %s", self.num_steps, reason)

    def log(self, values: Mapping[str, float]) -> None:
        """Add custom metrics to the next row: to the run's CSV file, TensorBoard and all other writers."""
        numbers = {name: check_number(f"the metric {name}", value, -math.inf) for name, value in values.items()}
        if metrics.STEPS in numbers:
            raise ConfigError(f"the metric {metrics.STEPS!r} is the learner's own; use another name")
        self.logged |= numbers
        self.unwritten |= numbers.keys()

    def step(self) -> None:
        """Run one update stage; evaluate, log and save where that is due.

        Ctrl-C, SIGTERM and SIGHUP take effect once all that is done, so that a resumed run lacks nothing of it; a
        second one interrupts it at once. Either way the learner can then be saved, or continue. Before an error ends a
        run that has a folder, a checkpoint is saved there.
        """
        with held_back():
            with self._rescue:
                self._start()
                self._run_stage()
                self._tell_of_episodes()
            if self.num_updates >= self._next_test:
                self.evaluate()
                self._next_test = self._following_test()
            with self._rescue:
                self._callbacks.call("on_step", self)
            if self._recorder.is_due(self):
                self._recorder.follow(self)
                self._tell_of_checkpoints()

    def _start(self) -> None:
        """Begin the training, before its first stage."""
        if not self._has_started:
            self._has_started = True
            self._callbacks.call("on_start", self)
            self._recorder.begin(self)

    def train(self, show: Callable[["Learner"], None] | None = None) -> None:
        """Train until the target is reached, then save a checkpoint if the run has a folder.

        After Ctrl-C, SIGTERM or SIGHUP a checkpoint is saved too, and the interrupt is passed on: `KeyboardInterrupt`,
        or `SystemExit` with the exit code that shells expect.

        Parameters
        ----------
        show : callable, optional
            Called with the learner after each update stage.
        """
        with interruptible():
            try:
                while not self.done():
                    self.step()
                    if show is not None:
                        show(self)
            except Interrupts:
                self._save_last()
                raise
            self._save_last()

    def evaluate(self, num_episodes: int | None = None) -> Evaluation:
        """Evaluate the present actor without exploration, by default over the algorithm's `num_test_episodes`."""
        num_episodes = self.scheme.algo.num_test_episodes if num_episodes is None else num_episodes
        with self._rescue:
            evaluation = self.scheme.col_worker.evaluate_episodes(num_episodes)
            self.last_evaluation = evaluation
            self._callbacks.call("on_evaluation", self, evaluation)
        return evaluation

    def get_metrics(self) -> dict[str, float]:
        """Return the present metrics of the training, by the names in `recollect.metrics`."""
        steps_per_s, updates_per_s = self._rates.per_second()
        found: dict[str, float | None] = {
            metrics.STEPS: self.num_steps,
            metrics.UPDATES: self.num_updates,
            metrics.ELAPSED_S: self.elapsed_s,
            metrics.STEPS_PER_S: steps_per_s,
            metrics.UPDATES_PER_S: updates_per_s,
            **scheme_metrics(self.scheme),
            **evaluation_metrics(self.last_evaluation),
        }
        found[metrics.CHECKPOINT_STALL_MS] = self._recorder.stall_ms
        found[metrics.CHECKPOINT_WRITE_S] = self._recorder.write_s
        if self._recorder.num_failed:
            found[metrics.FAILED_WRITES] = self._recorder.num_failed
        found |= self.logged
        return {name: value for name, value in found.items() if value is not None and not math.isnan(value)}

    def print_info(self) -> None:
        """Log one line of progress."""
        found = self.get_metrics()
        train_return = found.get(metrics.TRAIN_RETURN, math.nan)
        _LOG.info(
            "%d of %d steps, %d updates, return %.1f, %.0f steps/s",
            self.num_steps,
            self.target_steps,
            self.num_updates,
            train_return,
            found[metrics.STEPS_PER_S],
        )

    def update_algorithm_parameter(self, parameter_name: str, new_parameter_value: object) -> None:
        """Change a parameter of the algorithm, on all workers."""
        self.scheme.update_algorithm_parameter(parameter_name, new_parameter_value)
        self._next_test = self._following_test()

    def update_storage_parameter(self, parameter_name: str, new_parameter_value: object) -> None:
        """Change a parameter of the storage, on all workers."""
        self.scheme.update_storage_parameter(parameter_name, new_parameter_value)

    def replace_agent_component(self, component_name: str, new_component_factory: ComponentFactory) -> None:
        """Replace `"actor"`, `"algo"`, `"storage"`, `"envs_train"` or `"envs_test"`, on all workers."""
        self.scheme.replace_agent_component(component_name, new_component_factory)
        self._next_test = self._following_test()

    def save_model(self, path: str | PathLike[str]) -> None:
        """Write the actor's weights as safetensors."""
        self.scheme.actor.save(path)

    def save_checkpoint(self) -> Path:
        """Write the present metrics and a checkpoint into the run's folder, and return the checkpoint's.

        It is whole by then, and so is one that was being written.
        """
        self._recorder.write_row(self)
        path = self._recorder.save(self)
        self._tell_of_checkpoints(path)
        return path

    def _save_last(self) -> None:
        """Save the end of a training, if the run has a folder: the row is no part of it, as it may come anywhere."""
        if self.run is None:
            return
        try:
            path = self._recorder.save(self)
        finally:
            self._recorder.write_row(self)
        self._tell_of_checkpoints(path)

    def request_checkpoint(self) -> None:
        """Have a checkpoint written beside the training, as soon as none is; from the end of this update stage on."""
        self._recorder.request_checkpoint()

    def write_row(self) -> None:
        """Write the present metrics."""
        self._recorder.write_row(self)

    def keeps_running(self) -> AbstractContextManager[None]:
        """Let what cannot be written to the run's folder be a warning and a metric, and not the end of the run."""
        return self._recorder.tolerating()

    def callback_states(self) -> dict[str, Any]:
        """States of the callbacks by name, as checkpoints keep them."""
        return self._callbacks.state()

    def close(self) -> None:
        """Close the run's files, once no checkpoint is being written; another learner can continue with the scheme."""
        try:
            self._recorder.finish(self)
            self._tell_of_checkpoints()
            if self._has_started:
                self._has_started = False
                self._callbacks.call("on_end", self)
                if self.unwritten:
                    self._recorder.write_row(self)
        finally:
            self._recorder.close()

    def stop(self) -> None:
        """Close environments and files; what is not saved is lost."""
        try:
            self.close()
        finally:
            self.scheme.stop()

    def _described(self, config: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Config to keep with the run; says at once if there is none by which it can be loaded."""
        if config is not None:
            return config
        try:
            return describe(self.scheme, self.target_steps)
        except ConfigError as reason:
            warnings.warn(
                "the run gets no config by which `recollect resume`, `recollect eval` or Agent.load could read it: "
                f"{reason}; give config=, or resume it with Learner(scheme, ..., resume=True)",
                RecollectWarning,
                stacklevel=3,
            )
            return {}

    def _restore(self) -> None:
        try:
            restored = self._recorder.restore(self.scheme)
            self.elapsed_s = restored.elapsed_s
            self._callbacks.load_state(restored.callbacks)
            self.log(restored.logged)
            self.stop_reason = restored.stop_reason
        except BaseException:
            self._recorder.close()
            raise

    def _count_episodes(self) -> int:
        """Episodes that ended so far; 0 where no callback wants to know."""
        return self.scheme.status().episodes.num_episodes if self._callbacks.listens("on_episode_end") else 0

    def _tell_of_episodes(self) -> None:
        """Hand the episodes that ended in the last stage to the callbacks."""
        if self._callbacks.listens("on_episode_end"):
            episodes = self.scheme.status().episodes
            num_new = min(episodes.num_episodes - self._num_episodes, len(episodes.recent))
            self._num_episodes = episodes.num_episodes
            for episode in list(episodes.recent)[len(episodes.recent) - num_new :]:
                self._callbacks.call("on_episode_end", self, episode)

    def _tell_of_checkpoints(self, *more: Path) -> None:
        """Tell callbacks of the checkpoints that were written on the way, and of more."""
        for path in (*self._recorder.take_new(), *more):
            with self._rescue:
                self._callbacks.call("on_checkpoint", self, path)

    def _following_test(self) -> float:
        """Number of updates at which to evaluate next."""
        every = self.scheme.algo.test_every
        return (self.num_updates // every + 1) * every if every else math.inf

    def _run_stage(self) -> None:
        begin = time.perf_counter()
        try:
            with self._memory_explained:
                if self._is_offline:
                    num_left = min(self.offline_updates, self._next_test) - self.num_updates
                    num_batches = int(min(num_left, _OFFLINE_UPDATES_A_STAGE))
                    self._learn_offline(num_batches)
                else:
                    self.scheme.update_worker.step()
        finally:
            self.elapsed_s += time.perf_counter() - begin
            self._rates.follow(self.elapsed_s, self.num_steps, self.num_updates)

    def _learn_offline(self, num_batches: int) -> None:
        """Update from what is stored; checkpoints, which go by env steps later on, go by updates here."""
        gradients = self.scheme.gradients
        if not isinstance(gradients, GWorker):
            raise ConfigError("data are learned from in this process; leave gradient workers out")
        every, num_before = max(1, self.offline_updates // _CHECKPOINTS_A_RUN), self.num_updates
        self.scheme.update_worker.apply(gradients.offline_stage(num_batches))
        if self.run is not None and self.num_updates // every > num_before // every:
            self.request_checkpoint()


def _run_directory(
    log_dir: str | PathLike[str] | None, config: Mapping[str, Any] | None, command: str | None, *, resume: bool
) -> RunDirectory | None:
    if log_dir is None:
        return None
    return RunDirectory.open(log_dir) if resume else RunDirectory.create(log_dir, config, command)


def _interval(name: str, given: int | None, default: int) -> int:
    return max(1, default) if given is None else check_count(name, given)
