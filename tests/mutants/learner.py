"""Faults in the learner: when it ends, tests, saves, and what it reports."""

from typing import Final

from tests.mutants.mutant import Mutant

LEARNER: Final = "learner.py"
RESCUE: Final = "runs/rescue.py"
TESTS: Final = "tests/unit/test_learner.py"
CALLBACKS: Final = "tests/unit/callbacks"
EVALUATIONS: Final = (f"{TESTS}::test_evaluations_come_every_so_many_updates",)
METRICS: Final = (
    f"{TESTS}::test_metrics_are_numbers_by_name",
    f"{TESTS}::test_losses_are_means_over_recent_updates",
)
NOT_FINITE: Final = (f"{TESTS}::test_a_loss_that_is_not_finite_ends_with_the_batch_and_the_weights_before_it",)

MUTANTS: Final = (
    Mutant(
        "training stops a stage late",
        LEARNER,
        "and self.num_steps >= self.target_steps",
        "and self.num_steps > self.target_steps",
        (f"{TESTS}::test_a_learner_trains_to_its_target_and_writes_nothing",),
    ),
    Mutant(
        "evaluations come at every stage",
        LEARNER,
        "                self._next_test = self._following_test()\n            with self._rescue:",
        "            with self._rescue:",
        EVALUATIONS,
    ),
    Mutant(
        "a first evaluation comes before its time",
        LEARNER,
        "(self.num_updates // every + 1) * every",
        "(self.num_updates // every) * every",
        EVALUATIONS,
    ),
    Mutant(
        "a changed interval of evaluations is not followed",
        LEARNER,
        """        self.scheme.update_algorithm_parameter(parameter_name, new_parameter_value)
        self._next_test = self._following_test()
""",
        "        self.scheme.update_algorithm_parameter(parameter_name, new_parameter_value)\n",
        (f"{TESTS}::test_parameters_change_while_running",),
    ),
    Mutant(
        "losses are those of the last update",
        "runs/training_metrics.py",
        "float(np.mean(numbers))",
        "float(numbers[-1])",
        METRICS,
    ),
    Mutant(
        "an evaluation's return is its best episode's",
        "runs/training_metrics.py",
        "metrics.EVAL_RETURN: evaluation.mean,",
        "metrics.EVAL_RETURN: max(evaluation.returns),",
        METRICS,
    ),
    Mutant(
        "a resumed run's clock starts at zero",
        LEARNER,
        "            self.elapsed_s = restored.elapsed_s\n",
        "",
        (f"{TESTS}::test_a_resumed_run_continues_as_if_nothing_had_happened",),
    ),
    Mutant(
        "the batch of a loss that is not finite is lost",
        RESCUE,
        "if isinstance(error, NotFiniteError) else None",
        "if isinstance(error, StorageError) else None",
        NOT_FINITE,
    ),
    Mutant(
        "a run that fails is not saved",
        RESCUE,
        "isinstance(error, RecollectError) and run is not None:",
        "isinstance(error, RecollectError) and run is None:",
        NOT_FINITE,
    ),
    Mutant(
        "a storage that cannot be saved takes the weights along",
        RESCUE,
        "except (StorageError, WorkerError):",
        "except WorkerError:",
        (f"{TESTS}::test_a_storage_that_cannot_be_saved_does_not_keep_the_rest_from_it",),
    ),
    Mutant(
        "Ctrl-C ends a stage halfway",
        LEARNER,
        "        with held_back():\n            with self._rescue:\n                self._start()\n",
        "        if True:\n            with self._rescue:\n                self._start()\n",
        (f"{TESTS}::test_an_interrupted_run_can_be_saved_resumed_and_continued",),
    ),
    Mutant(
        "a callback that asks to stop is ignored",
        LEARNER,
        "return self.stop_reason is not None or has_learned",
        "return has_learned",
        (f"{CALLBACKS}/test_stopping.py",),
    ),
    Mutant(
        "callbacks get every recent episode again",
        LEARNER,
        "            self._num_episodes = episodes.num_episodes\n",
        "",
        (f"{CALLBACKS}/test_callback.py::test_every_episode_is_told_once",),
    ),
    Mutant(
        "a resumed run's callbacks start again",
        LEARNER,
        "            self._callbacks.load_state(restored.callbacks)\n",
        "",
        (f"{CALLBACKS}/test_callback.py::test_states_are_saved_and_restored",),
    ),
    Mutant(
        "what callbacks have logged is lost where a run is resumed",
        LEARNER,
        "            self.log(restored.logged)\n",
        "",
        (
            "tests/unit/runs/test_exact_resume.py::test_rows_of_a_resumed_run_have_what_callbacks_logged_before_it_was_killed",
        ),
    ),
    Mutant(
        "a run is not saved before a callback's error ends it",
        LEARNER,
        '            with self._rescue:\n                self._callbacks.call("on_step", self)\n',
        '            self._callbacks.call("on_step", self)\n',
        (f"{CALLBACKS}/test_callback.py::test_an_error_names_the_callback_and_the_run_is_saved_first",),
    ),
    Mutant(
        "the worst agent is kept as the best",
        "callbacks/keeping.py",
        "evaluation.mean <= self.best:",
        "evaluation.mean > self.best > -math.inf:",
        (f"{CALLBACKS}/test_keeping.py",),
    ),
    Mutant(
        "the best agent is the first of each session",
        "callbacks/keeping.py",
        '        return {"best": self.best}\n',
        "        return {}\n",
        (f"{CALLBACKS}/test_keeping.py",),
    ),
    Mutant(
        "a schedule starts again where a run is resumed",
        "callbacks/schedule.py",
        'return {} if self._origin is None else {"origin": self._origin, "present": self._present}',
        "return {}",
        (f"{CALLBACKS}/test_schedule.py",),
    ),
    Mutant(
        "a schedule is over when half of the training is",
        "callbacks/schedule.py",
        "/ num_steps * _NUM_CHANGES",
        "/ num_steps * 2 * _NUM_CHANGES",
        (f"{CALLBACKS}/test_schedule.py",),
    ),
    Mutant(
        "patience never ends",
        "callbacks/stopping.py",
        "        self._num_worse += 1\n",
        "",
        (f"{CALLBACKS}/test_stopping.py",),
    ),
    Mutant(
        "acting outside of training forgets its memory at every step",
        "predictor.py",
        "self._memory = rhs, torch.zeros_like(done)",
        "self._memory = rhs, done",
        ("tests/unit/test_predictor.py",),
    ),
    Mutant(
        "predicting spends the random numbers of training",
        "predictor.py",
        "        with self.algo.preserving_exploration():\n            _, action",
        "        if deterministic in (True, False):\n            _, action",
        ("tests/unit/test_predictor.py",),
    ),
)
