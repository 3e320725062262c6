"""Faults in schemes: collection, evaluation, gradients, weights, workers that are lost."""

from typing import Final

from tests.mutants.mutant import Mutant

SCHEME: Final = "scheme"
COLLECTION: Final = f"{SCHEME}/collection"
GRADIENTS: Final = f"{SCHEME}/gradients"
TESTS: Final = "tests/unit/scheme"
COLLECTORS: Final = (f"{TESTS}/collection/collectors/test_collector.py",)
C_WORKER: Final = (f"{TESTS}/collection/test_c_worker.py",)
EPISODES: Final = (f"{TESTS}/collection/worker/test_episodes.py",)
EVALUATION: Final = (f"{TESTS}/collection/worker/test_evaluation.py",)
REPORTS: Final = (f"{TESTS}/collection/collectors/test_reports.py",)
FLAT: Final = (f"{TESTS}/gradients/test_flat.py",)
G_WORKER: Final = (f"{TESTS}/gradients/test_g_worker.py",)
NORMALISER_SUMS: Final = (f"{TESTS}/gradients/test_normaliser_sums.py",)
REMOTE_SOURCE: Final = (f"{TESTS}/gradients/test_remote_source.py",)
REPLAY_RATIO: Final = (f"{TESTS}/gradients/test_replay_ratio.py",)
STATUS: Final = (f"{TESTS}/gradients/test_status.py",)
VERSIONED_WEIGHTS: Final = (f"{TESTS}/gradients/test_versioned_weights.py",)
ALL_REDUCE: Final = (f"{TESTS}/updates/test_all_reduce.py",)
SUPERVISION: Final = (f"{TESTS}/base/test_supervision.py",)
WORKER_SET: Final = (f"{TESTS}/base/test_worker_set.py",)

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
        "an episode that ended is heard of again",
        f"{COLLECTION}/worker/episodes.py",
        "new, self._new = self._new, []",
        "new = self._new",
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
        "updates ignore what the ratio has left over",
        f"{SCHEME}/limiter.py",
        "math.floor(allowed + 1e-9) - self._num_updates",
        "math.floor(allowed + 1e-9)",
        (f"{TESTS}/test_limiter.py",),
    ),
    Mutant(
        "a resumed ratio starts without credit",
        f"{SCHEME}/limiter.py",
        "float(state.get(_CREDIT, 0.0)), 0, 0",
        "0.0, 0, 0",
        (f"{TESTS}/test_limiter.py",),
    ),
    Mutant(
        "the first random steps allow for updates",
        f"{GRADIENTS}/g_worker.py",
        "        if counts:\n",
        "        if counts or not counts:\n",
        REPLAY_RATIO,
    ),
    Mutant(
        "learning begins before the first steps are complete",
        f"{GRADIENTS}/g_worker.py",
        "return num_seen * self.num_peers >= int(self.algo.start_steps)",
        "return num_seen * self.num_peers > 0",
        G_WORKER,
    ),
    Mutant(
        "an on-policy stage keeps the steps of the stage before",
        f"{SCHEME}/stages.py",
        "        storage.reset()\n",
        "        pass\n",
        G_WORKER,
    ),
    Mutant(
        "gradients are summed instead of averaged",
        f"{GRADIENTS}/flat.py",
        "(piece / number).reshape(shape) if number else None",
        "piece.reshape(shape) if number else None",
        FLAT,
    ),
    Mutant(
        "workers without a gradient count in its mean",
        f"{GRADIENTS}/flat.py",
        "torch.tensor([gradient is not None for gradient in gradients], dtype=torch.float32)",
        "torch.ones(len(gradients))",
        FLAT,
    ),
    Mutant(
        "what normalisers saw is counted by every worker anew",
        f"{GRADIENTS}/normaliser_sums.py",
        "after[name] - before[name]",
        "after[name]",
        NORMALISER_SUMS,
    ),
    Mutant(
        "the variance of summed normalisers forgets their mean",
        f"{GRADIENTS}/normaliser_sums.py",
        "seconds / count - mean**2",
        "seconds / count",
        NORMALISER_SUMS,
    ),
    Mutant(
        "temperatures do not travel with the weights",
        f"{GRADIENTS}/versioned_weights.py",
        "    algo.multipliers.load_state_dict(unpack_weights(learned.multipliers))\n",
        "",
        VERSIONED_WEIGHTS,
    ),
    Mutant(
        "workers side by side draw the same random numbers",
        f"{GRADIENTS}/versioned_weights.py",
        "    if not with_chance:\n",
        "    if with_chance:\n",
        VERSIONED_WEIGHTS,
    ),
    Mutant(
        "weights that were sent change with those that learn",
        f"{SCHEME}/weights.py",
        "tensor.detach().cpu().numpy().copy()",
        "tensor.detach().cpu().numpy()",
        VERSIONED_WEIGHTS,
    ),
    Mutant(
        "weights that have changed are not published",
        f"{SCHEME}/weights.py",
        "if self._newest is None or num_changes != self._num_changes:",
        "if self._newest is None:",
        (f"{TESTS}/test_weights.py",),
    ),
    Mutant(
        "a gradient may come one update too late",
        f"{GRADIENTS}/async_source.py",
        "num_updates + 1 + place - version <= max_lag",
        "num_updates + place - version <= max_lag",
        (f"{TESTS}/gradients/test_async_order.py",),
    ),
    Mutant(
        "the lag of a gradient is that of the one before",
        f"{GRADIENTS}/async_source.py",
        "self._lags.append(self.algo.num_updates - reply.version)",
        "self._lags.append(self.algo.num_updates - reply.version - 1)",
        REMOTE_SOURCE,
    ),
    Mutant(
        "updates of all workers are counted for each",
        f"{GRADIENTS}/sync_source.py",
        "                    self._limiter.updated()\n",
        "                    [self._limiter.updated() for _ in replies]\n",
        REPLAY_RATIO,
    ),
    Mutant(
        "steps of one worker stand for those of all",
        f"{GRADIENTS}/sync_source.py",
        "limiter.collected(sum(reply.num_counted for reply in replies.values()))",
        "limiter.collected(max((reply.num_counted for reply in replies.values()), default=0))",
        REPLAY_RATIO,
    ),
    Mutant(
        "failures of envs of a lost worker are lost from the count",
        f"{GRADIENTS}/status.py",
        "sum((each.num_env_failures for each in earlier), status.num_env_failures)",
        "status.num_env_failures",
        STATUS,
    ),
    Mutant(
        "a status of several workers has the room of one",
        f"{GRADIENTS}/status.py",
        "sum(status.num_most for status in statuses)",
        "max(status.num_most for status in statuses)",
        STATUS,
    ),
    Mutant(
        "peers update with their own gradients alone",
        f"{SCHEME}/updates/all_reduce.py",
        "mean = flat.mean(self._sum(row))",
        "self._sum(row)\n            mean = flat.mean(row)",
        ALL_REDUCE,
    ),
    Mutant(
        "a peer without data does not count the updates of others",
        f"{SCHEME}/updates/all_reduce.py",
        "            super()._count_update()\n",
        "            if info is not None:\n                super()._count_update()\n",
        REPLAY_RATIO,
    ),
    Mutant(
        "old restarts count for ever",
        f"{SCHEME}/base/supervision.py",
        "now - self._times[0] > self._supervision.window_s",
        "now - self._times[0] > 1e9",
        SUPERVISION,
    ),
    Mutant(
        "one more restart than allowed",
        f"{SCHEME}/base/supervision.py",
        "len(self._times) >= self._supervision.max_restarts",
        "len(self._times) > self._supervision.max_restarts",
        SUPERVISION,
    ),
    Mutant(
        "two incarnations of a worker have the same epoch",
        f"{SCHEME}/base/worker_set.py",
        "        self._num_incarnations[index] += 1\n",
        "",
        WORKER_SET,
    ),
    Mutant(
        "nobody hears of a worker that was lost",
        f"{SCHEME}/base/worker_set.py",
        "            self.on_loss(member.index, member.epoch)\n",
        "            self.on_loss\n",
        (*WORKER_SET, f"{TESTS}/test_losses.py"),
    ),
    Mutant(
        "workers learn nothing of the run's steps and act at random for longer",
        f"{COLLECTION}/collectors/collector.py",
        "return self.worker.num_steps * self._num_parents",
        "return self.worker.num_steps",
        COLLECTORS,
    ),
    Mutant(
        "a piece that comes twice counts twice",
        f"{COLLECTION}/collectors/inbox.py",
        """        if not num_new:
            return
""",
        "",
        (f"{TESTS}/collection/collectors/test_inbox.py", *COLLECTORS),
    ),
    Mutant(
        "what a worker's normalisers saw is added to equal ones up to rounding",
        f"{GRADIENTS}/normaliser_sums.py",
        "if own.tobytes() == before[name].tobytes():",
        "if own is before[name]:",
        (f"{TESTS}/collection/collectors/test_inbox.py",),
    ),
    Mutant(
        "an outbox that takes the place of another begins its streams from 0",
        "agent/storages/experience/store/outbox.py",
        "if before is None else before.num_sent",
        "if before is None else before.num_sent * 0",
        ("tests/unit/agent/storages/experience/store/test_outbox.py",),
    ),
    Mutant(
        "slow workers are never told to stop",
        f"{COLLECTION}/collectors/sync_collector.py",
        "            if len(pieces) >= num_enough:\n",
        "            if len(pieces) > len(told) + num_enough + len(pending):\n",
        COLLECTORS,
    ),
    Mutant(
        "a run depends on which worker is faster",
        f"{COLLECTION}/collectors/sync_collector.py",
        "for index in sorted(pieces):",
        "for index in pieces:",
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
        "workers of a life before count no failures of envs",
        f"{COLLECTION}/collectors/reports.py",
        "self._env_failures = [sum(self._env_failures), 0]",
        "self._env_failures = [0, 0]",
        REPORTS,
    ),
)
