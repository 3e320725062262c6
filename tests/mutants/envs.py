"""Faults in environments: episodes that end, envs that fail, seeds, actions."""

from typing import Final

from tests.mutants.mutant import Mutant

ENVS: Final = "agent/envs"
TESTS: Final = "tests/unit/agent/envs"
CONFORMANCE: Final = (f"{TESTS}/vectors/test_autoreset.py", f"{TESTS}/test_conformance.py")
PROCESSES: Final = (f"{TESTS}/vectors/test_processes.py",)
PROCESS_ENDS: Final = (f"{TESTS}/test_process_ends.py",)
FAILURES: Final = (f"{TESTS}/test_failures.py",)
FACTORY: Final = (f"{TESTS}/test_factory.py",)
SPACES: Final = (f"{TESTS}/test_spaces.py",)
TASKS: Final = (f"{TESTS}/test_tasks.py",)
MASKS: Final = (f"{TESTS}/test_masks.py",)
STATE: Final = (f"{TESTS}/test_state.py",)
RESUME: Final = ("tests/unit/runs/test_exact_resume.py",)

MUTANTS: Final = (
    Mutant(
        "an interrupt may come in the middle of a fork",
        "agent/envs/vectors/processes.py",
        "        with held_back():\n            super().__init__(",
        "        if True:\n            super().__init__(",
        PROCESS_ENDS,
    ),
    Mutant(
        "a saved time limit forgets how far the episode came",
        f"{ENVS}/state/attributes.py",
        '("_elapsed_steps",)',
        "()",
        STATE,
    ),
    Mutant(
        "a saved env forgets its generator",
        f"{ENVS}/state/attributes.py",
        "else (*names, *_GENERATOR)",
        "else tuple(names)",
        STATE,
    ),
    Mutant(
        "physics are restored without what envs read before they step",
        f"{ENVS}/state/simulators.py",
        "        getattr(data, name)[...] = array\n",
        "        pass\n",
        STATE,
    ),
    Mutant(
        "a class that was derived from a known one is taken for it",
        f"{ENVS}/state/attributes.py",
        "    names = vars(kind).get(OWN_LIST, _BY_CLASS.get(class_name(layer)))",
        "    names = getattr(kind, OWN_LIST, next((_BY_CLASS[f'{each.__module__}.{each.__qualname__}'] for each in"
        " kind.__mro__ if f'{each.__module__}.{each.__qualname__}' in _BY_CLASS), None))",
        STATE,
    ),
    Mutant(
        "envs that were never reset lose the seeds of their first one",
        f"{ENVS}/vec_env.py",
        "            self._seeds = list(state[_SEEDS])",
        "            pass",
        STATE,
    ),
    Mutant(
        "a run that continues its episodes cuts its streams",
        "scheme/gradients/kept_storage.py",
        "            if not self._col_worker.continues_episodes:\n",
        "            if True:\n",
        RESUME,
    ),
    Mutant(
        "a truncation is reported as a termination",
        f"{ENVS}/vectors/autoreset.py",
        "return Step(next_obs, rewards, terminated[:, None], truncated",
        "return Step(next_obs, rewards, (terminated | truncated)[:, None], truncated",
        CONFORMANCE,
    ),
    Mutant(
        "the final observation is the next episode's first",
        f"{ENVS}/vectors/autoreset.py",
        "put_rows(next_obs, env, _of_env(finals, env))",
        "put_rows(next_obs, env, _of_env(obs, env))",
        CONFORMANCE,
    ),
    Mutant(
        "envs that take turns begin the next episode before the last observation is kept",
        f"{ENVS}/vectors/autoreset.py",
        "        return self._make_step(next_obs, obs, reward[:, 0], flags[0], flags[1], merged)",
        "        return self._make_step(obs, obs, reward[:, 0], flags[0], flags[1], merged)",
        CONFORMANCE,
    ),
    Mutant(
        "infos of envs that take turns are those of the first env",
        f"{ENVS}/vectors/autoreset.py",
        "merged = self._vector._add_info(merged, info, index)",
        "merged = self._vector._add_info(merged, self._infos[0], index)",
        CONFORMANCE,
    ),
    Mutant(
        "failed resets of envs that take turns are not counted",
        f"{ENVS}/vectors/autoreset.py",
        "            self.failures.read(_Infos(self.vector, new_infos))\n",
        "            pass\n",
        CONFORMANCE,
    ),
    Mutant(
        "observations of any shape are put together",
        f"{ENVS}/vectors/stacking.py",
        "or row.dtype != dtype or row.shape != shape:",
        "or row.dtype != dtype:",
        (f"{TESTS}/vectors/test_stacking.py",),
    ),
    Mutant(
        "one end resets all envs",
        f"{ENVS}/vectors/autoreset.py",
        "self.vector.reset(options={keys.RESET_MASK: ended})",
        "self.vector.reset(options={keys.RESET_MASK: np.ones_like(ended)})",
        CONFORMANCE,
    ),
    Mutant(
        "an ended env continues with its last observation",
        f"{ENVS}/vectors/autoreset.py",
        "obs, lost_after = copy_arrays(obs), self.failures.read(reset_infos)",
        "obs, lost_after = next_obs, self.failures.read(reset_infos)",
        CONFORMANCE,
    ),
    Mutant(
        "a row that only resets counts as a transition",
        f"{ENVS}/vectors/autoreset.py",
        "skip = cut | resets[:, None]",
        "skip = cut",
        CONFORMANCE,
    ),
    Mutant(
        "what ended before a reset is skipped after it",
        f"{ENVS}/vectors/autoreset.py",
        "        self._ended = np.zeros(self.vector.num_envs, np.bool_)\n        return super().reset(seed)",
        "        return super().reset(seed)",
        CONFORMANCE,
    ),
    Mutant(
        "observations share the memory of the vector env",
        f"{ENVS}/step.py",
        "    return obs.copy()",
        "    return obs",
        CONFORMANCE,
    ),
    Mutant(
        "infos of an end are those of the reset after it",
        f"{ENVS}/vectors/autoreset.py",
        "            infos = _with_final_infos(infos)\n",
        "",
        (*CONFORMANCE, "tests/unit/scheme/collection/worker/test_episodes.py"),
    ),
    Mutant(
        "a memory does not start over when an env failed",
        f"{ENVS}/step.py",
        "= self.terminated | self.truncated | self.cut",
        "= self.terminated | self.truncated",
        FAILURES,
    ),
    Mutant(
        "failures count as consecutive with good steps in between",
        f"{ENVS}/failures.py",
        "        self._rebuilding.num_consecutive = 0\n",
        "",
        FAILURES,
    ),
    Mutant(
        "every rebuilt env repeats the same episodes",
        f"{ENVS}/failures.py",
        "derive_seeds([self._seed, self._num_built], 1)[0]",
        "derive_seeds([self._seed], 1)[0]",
        FAILURES,
    ),
    Mutant(
        "a failed step is a transition into the next episode",
        f"{ENVS}/failures.py",
        "{keys.EPISODE_LOST: True}",
        "{keys.EPISODE_LOST: False}",
        FAILURES,
    ),
    Mutant(
        "several failures of one step count once",
        f"{ENVS}/failures.py",
        "self.num_failures += int(counts[env])",
        "self.num_failures += 1",
        FAILURES,
    ),
    Mutant(
        "a signal to all processes of a run ends its envs before their parent",
        f"{ENVS}/vectors/kinds.py",
        "            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n",
        "",
        PROCESS_ENDS,
    ),
    Mutant(
        "processes of envs that hang outlive their parent",
        f"{ENVS}/vectors/kinds.py",
        "            threading.Thread(target=_end_with_parent, daemon=True).start()\n",
        "",
        PROCESS_ENDS,
    ),
    Mutant(
        "every failure shows its traceback",
        f"{ENVS}/failures.py",
        "        self._reported.add(place)\n",
        "",
        (*FAILURES, "tests/unit/agent/envs/test_conformance.py"),
    ),
    Mutant(
        "each env shows the traceback of a failure that another has shown",
        f"{ENVS}/failures.py",
        "            self.shown.add(code_path(text))\n",
        "",
        FAILURES,
    ),
    Mutant(
        "a failure in training is shown once more in evaluations",
        f"{ENVS}/vec_env.py",
        "self._driver.failures.shown = other._driver.failures.shown",
        "pass",
        ("tests/unit/test_api.py::test_a_failure_in_training_and_in_evaluations_is_shown_once",),
    ),
    Mutant(
        "a run ends without the traceback of the env",
        f"{ENVS}/failures.py",
        'if text else ""',
        'if not text else ""',
        FAILURES,
    ),
    Mutant(
        "the limit of failures in a config is forgotten",
        "config/build.py",
        "        max_consecutive_failures=config.max_consecutive_failures,\n",
        "",
        ("tests/unit/config/test_build.py",),
    ),
    Mutant(
        "a failure of a native vector env counts once for each env",
        f"{ENVS}/vectors/native_vector.py",
        "counts[0] = infos[keys.NUM_FAILURES]",
        "counts[:] = infos[keys.NUM_FAILURES]",
        FAILURES,
    ),
    Mutant(
        "every reset repeats the first episode",
        f"{ENVS}/vec_env.py",
        "seeds, self._seeds = self._seeds, None",
        "seeds = self._seeds",
        FACTORY,
    ),
    Mutant(
        "a resumed run repeats the episodes of its beginning",
        f"{ENVS}/vec_env.py",
        "derive_seeds([seed, number], 1)[0]",
        "derive_seeds([seed], 1)[0]",
        FACTORY,
    ),
    Mutant(
        "all workers see the same episodes",
        f"{ENVS}/factory.py",
        "        first = index_worker * self.vec_env_size\n",
        "        first = 0\n",
        FACTORY,
    ),
    Mutant(
        "evaluation sees the episodes of training",
        f"{ENVS}/factory.py",
        "[self.seed, index_parent, 0, _MODES.index(mode)]",
        "[self.seed, index_parent, 0]",
        FACTORY,
    ),
    Mutant(
        "evaluation scores clipped rewards",
        f"{ENVS}/catalog.py",
        "else {**options, self.clip: False, self.life: False}",
        "else {self.clip: True, **options}",
        (f"{TESTS}/test_catalog.py",),
    ),
    Mutant(
        "whole numbers are cut off instead of rounded",
        f"{ENVS}/spaces.py",
        "            array = np.rint(array)\n",
        "            array = array.astype(np.int64)\n",
        SPACES,
    ),
    Mutant(
        "actions leave bounds that float32 does not know",
        f"{ENVS}/spaces.py",
        "            array = np.clip(array, *self._bounds)\n",
        "            array = array.copy()\n",
        SPACES,
    ),
    Mutant(
        "a mask that allows nothing is taken",
        f"{ENVS}/masks.py",
        "        if len(bad):\n",
        "        if len(bad) > len(rows):\n",
        MASKS,
    ),
    Mutant(
        "the mask of a truncation is not looked at",
        f"{ENVS}/masks.py",
        "np.ones(self._shape, np.int8) if terminated else",
        "np.ones(self._shape, np.int8) if terminated or truncated else",
        MASKS,
    ),
    Mutant(
        "bits that are solved in the last step are truncated too",
        f"{ENVS}/tasks.py",
        "truncated = self._num_steps >= self.n and not solved",
        "truncated = self._num_steps >= self.n",
        TASKS,
    ),
    Mutant(
        "the answer is asked for one step early",
        f"{ENVS}/tasks.py",
        "is_answer = self._num_steps == self.delay",
        "is_answer = self._num_steps + 1 == self.delay",
        TASKS,
    ),
)
