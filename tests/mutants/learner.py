"""Faults in the learner: when it ends, tests, saves, and what it reports."""

from typing import Final

from tests.mutants.mutant import Mutant

LEARNER: Final = "learner.py"
TESTS: Final = "tests/unit/test_learner.py"
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
        "return self.num_steps >= self.target_steps",
        "return self.num_steps > self.target_steps",
        (f"{TESTS}::test_a_learner_trains_to_its_target_and_writes_nothing",),
    ),
    Mutant(
        "evaluations come at every stage",
        LEARNER,
        "            self._next_test = self._following_test()\n        if self._recorder is not None:",
        "        if self._recorder is not None:",
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
        LEARNER,
        "float(np.mean(numbers))",
        "float(numbers[-1])",
        METRICS,
    ),
    Mutant(
        "an evaluation's return is its best episode's",
        LEARNER,
        "metrics.EVAL_RETURN: evaluation.mean,",
        "metrics.EVAL_RETURN: max(evaluation.returns),",
        METRICS,
    ),
    Mutant(
        "a resumed run's clock starts at zero",
        LEARNER,
        "self.elapsed_s = self._recording().restore(scheme)",
        "self._recording().restore(scheme)",
        (f"{TESTS}::test_a_resumed_run_continues_as_if_nothing_had_happened",),
    ),
    Mutant(
        "the batch of a loss that is not finite is lost",
        LEARNER,
        "if isinstance(error, NotFiniteError) else None",
        "if isinstance(error, StorageError) else None",
        NOT_FINITE,
    ),
    Mutant(
        "a run that fails is not saved",
        LEARNER,
        "            if self._recorder is not None:\n                message",
        "            if self._recorder is None:\n                message",
        NOT_FINITE,
    ),
    Mutant(
        "a storage that cannot be saved takes the weights along",
        LEARNER,
        "except (StorageError, WorkerError):\n            return recorder.save(self, with_storage=False)",
        "except WorkerError:\n            return recorder.save(self, with_storage=False)",
        (f"{TESTS}::test_a_storage_that_cannot_be_saved_does_not_keep_the_rest_from_it",),
    ),
    Mutant(
        "Ctrl-C ends a stage halfway",
        LEARNER,
        "            with held_back():\n                self.scheme.update_worker.step()\n",
        "            self.scheme.update_worker.step()\n",
        (f"{TESTS}::test_an_interrupted_run_can_be_saved_resumed_and_gone_on_with",),
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
        "        with self.algo.aside():\n            _, action",
        "        if deterministic in (True, False):\n            _, action",
        ("tests/unit/test_predictor.py",),
    ),
)
