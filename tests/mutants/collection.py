"""Faults in collection: steps as they are stored, episodes, evaluation, pieces of remote workers."""

from typing import Final

from tests.mutants.mutant import Mutant

SCHEME: Final = "scheme"
COLLECTION: Final = f"{SCHEME}/collection"
TESTS: Final = "tests/unit/scheme"
COLLECTORS: Final = (f"{TESTS}/collection/collectors/test_collector.py",)
C_WORKER: Final = (f"{TESTS}/collection/test_c_worker.py",)
EPISODES: Final = (f"{TESTS}/collection/worker/test_episodes.py",)
EVALUATION: Final = (f"{TESTS}/collection/worker/test_evaluation.py",)
REPORTS: Final = (f"{TESTS}/collection/collectors/test_reports.py",)
INBOX: Final = (f"{TESTS}/collection/collectors/test_inbox.py",)

MUTANTS: Final = (
    Mutant(
        "evaluation takes whichever episodes end first",
        f"{COLLECTION}/worker/evaluation.py",
        "while any(len(episodes) < quota for episodes, quota in zip(finished, quotas, strict=True)):",
        "while sum(map(len, finished)) < num_episodes:",
        EVALUATION,
    ),
    Mutant(
        "evaluation counts more episodes than it was asked for",
        f"{COLLECTION}/worker/evaluation.py",
        "for episode in episodes[:quota]])",
        "for episode in episodes])",
        EVALUATION,
    ),
    Mutant(
        "evaluation explores",
        f"{COLLECTION}/worker/evaluation.py",
        "algo.acting_step(obs, rhs, done, deterministic=True)",
        "algo.acting_step(obs, rhs, done, deterministic=False)",
        C_WORKER,
    ),
    Mutant(
        "the standard error is the deviation",
        f"{COLLECTION}/worker/evaluation.py",
        "np.std(self.returns, ddof=1) / math.sqrt(len(self.returns))",
        "np.std(self.returns, ddof=1)",
        EVALUATION,
    ),
    Mutant(
        "an episode that was cut counts on into the next",
        f"{COLLECTION}/worker/episodes.py",
        "self._forget((ended | step.cut)[:, 0])",
        "self._forget(ended[:, 0])",
        EPISODES,
    ),
    Mutant(
        "an episode that ended is reported again",
        f"{COLLECTION}/worker/episodes.py",
        "new, self._new = self._new, []",
        "new = self._new",
        EPISODES,
    ),
    Mutant(
        "a checkpoint forgets returns that storages were not told of",
        f"{COLLECTION}/worker/episodes.py",
        "            _NEW: [list(episode) for episode in self._new],\n",
        "            _NEW: [],\n",
        EPISODES,
    ),
    Mutant(
        "shares of a count lose the rest",
        f"{COLLECTION}/worker/episodes.py",
        "share + (index < rest)",
        "share",
        EVALUATION,
    ),
    Mutant(
        "workers learn nothing of the run's steps and act at random for longer",
        f"{COLLECTION}/collectors/collector.py",
        "return self.worker.num_steps * self._num_parents",
        "return self.worker.num_steps",
        COLLECTORS,
    ),
    Mutant(
        "slow workers are never told to stop",
        f"{COLLECTION}/collectors/sync_collector.py",
        "            if len(self._pieces) >= num_enough:\n",
        "            if len(self._pieces) > len(told) + num_enough + len(self._pending):\n",
        COLLECTORS,
    ),
    Mutant(
        "a run depends on which worker is faster",
        f"{COLLECTION}/collectors/sync_collector.py",
        "for index in sorted(self._pieces):",
        "for index in list(self._pieces):",
        COLLECTORS,
    ),
    Mutant(
        "steps of an older policy than allowed are learned from",
        f"{COLLECTION}/collectors/async_collector.py",
        "version.number + 1 - number > self._max_lag",
        "version.number - number > self._max_lag",
        COLLECTORS,
    ),
    Mutant(
        "failures of envs before a restart do not count",
        f"{COLLECTION}/collectors/reports.py",
        "self._env_failures = [sum(self._env_failures), 0]",
        "self._env_failures = [0, 0]",
        REPORTS,
    ),
    Mutant(
        "a step is stored with the observation that came after it",
        f"{COLLECTION}/worker/acting.py",
        "keys.OBS: taken.obs,",
        "keys.OBS: step.next_obs,",
        C_WORKER,
    ),
    Mutant(
        "a truncation is stored as a termination",
        f"{COLLECTION}/worker/acting.py",
        "keys.NEXT_TERMINATED: step.terminated,",
        "keys.NEXT_TERMINATED: ended,",
        C_WORKER,
    ),
    Mutant(
        "the next observation of an end is where the next episode begins",
        f"{COLLECTION}/worker/acting.py",
        "keys.NEXT_OBS: step.next_obs,",
        "keys.NEXT_OBS: step.obs,",
        C_WORKER,
    ),
    Mutant(
        "clipped actions are stored instead of the policy's",
        f"{COLLECTION}/worker/acting.py",
        "keys.ACTION: taken.action,",
        "keys.ACTION: taken.clipped_action,",
        C_WORKER,
    ),
    Mutant(
        "hidden states are those after the step",
        f"{COLLECTION}/worker/acting.py",
        "        self._chosen = None\n        step = ",
        "        self._chosen = None\n        self.rhs = rhs\n        step = ",
        C_WORKER,
    ),
    Mutant(
        "each worker takes all of the random steps",
        f"{COLLECTION}/worker/acting.py",
        "if self._counts.num_steps + self.num_steps_elsewhere >= algo.start_steps:",
        "if self._counts.num_steps >= algo.start_steps:",
        COLLECTORS,
    ),
    Mutant(
        "exploration falls with the steps of each worker alone",
        f"{COLLECTION}/worker/acting.py",
        "            self._components.algo.num_acted += after - before\n",
        "            self._components.algo.num_acted += 0\n",
        C_WORKER,
    ),
    Mutant(
        "rows that are no transition count as steps",
        f"{COLLECTION}/worker/acting.py",
        "num_steps = len(ended) if step.skip is None else len(ended) - int(np.count_nonzero(step.skip))",
        "num_steps = len(ended)",
        C_WORKER,
    ),
    Mutant(
        "a stop that came too late ends the next stage",
        f"{COLLECTION}/worker/acting.py",
        "            self.store(self.take_step(self._components.algo), into)\n        self._signals.clear()\n",
        "            self.store(self.take_step(self._components.algo), into)\n",
        C_WORKER,
    ),
    Mutant(
        "a stopped worker has too few steps",
        f"{COLLECTION}/worker/acting.py",
        "if self._signals and number >= fraction * num_steps and",
        "if self._signals and",
        C_WORKER,
    ),
    Mutant(
        "a checkpoint forgets how often data were collected",
        f"{COLLECTION}/worker/counts.py",
        "vars(self).keys() - {EPISODES}",
        'vars(self).keys() - {EPISODES, "iter"}',
        C_WORKER,
    ),
    Mutant(
        "pieces that come twice are counted twice",
        f"{COLLECTION}/collectors/inbox.py",
        "        if not num_new:\n            return\n",
        "",
        (*COLLECTORS, *INBOX),
    ),
    Mutant(
        "steps of one env stand for those of all",
        f"{COLLECTION}/collectors/inbox.py",
        "worker.counts.num_steps += num_new",
        "worker.counts.num_steps += new.num_steps",
        (*COLLECTORS, *INBOX),
    ),
    Mutant(
        "a restarted worker continues with the steps of the one before",
        f"{COLLECTION}/collectors/inbox.py",
        "incarnation = (*new.source, new.epoch)",
        "incarnation = (*new.source, 0)",
        (*COLLECTORS, *INBOX),
    ),
    Mutant(
        "normalisers of the learner see nothing of what workers saw",
        f"{COLLECTION}/collectors/inbox.py",
        "        if any(new.seen):\n",
        "        if not any(new.seen):\n",
        (*COLLECTORS, *INBOX),
    ),
    Mutant(
        "lanes of workers that left are never free again",
        f"{COLLECTION}/collectors/remote_collector.py",
        "                self._inbox.forget(incarnation)\n",
        "                self._inbox.has_room\n",
        COLLECTORS,
    ),
    Mutant(
        "an asynchronous on-policy stage learns from the first that comes",
        f"{SCHEME}/stages.py",
        "        return num_workers\n",
        "        return 1\n",
        COLLECTORS,
    ),
    Mutant(
        "an on-policy storage takes in more than it holds",
        f"{SCHEME}/stages.py",
        "return num_stored == 0 or num_stored + num_more <= storage.max_size",
        "return True or num_stored == 0",
        COLLECTORS,
    ),
)
