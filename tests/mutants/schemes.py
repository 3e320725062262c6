"""Faults in schemes: gradients, weights, replay ratio, workers that are lost."""

from typing import Final

from tests.mutants.mutant import Mutant

SCHEME: Final = "scheme"
GRADIENTS: Final = f"{SCHEME}/gradients"
TESTS: Final = "tests/unit/scheme"
FLAT: Final = (f"{TESTS}/gradients/test_flat.py",)
G_WORKER: Final = (f"{TESTS}/gradients/test_g_worker.py",)
NORMALISER_SUMS: Final = (f"{TESTS}/gradients/test_normaliser_sums.py",)
REMOTE_SOURCE: Final = (f"{TESTS}/gradients/test_remote_source.py",)
REPLAY_RATIO: Final = (f"{TESTS}/gradients/test_replay_ratio.py",)
STATUS: Final = (f"{TESTS}/gradients/test_status.py",)
VERSIONED_WEIGHTS: Final = (f"{TESTS}/test_versioned_weights.py",)
ALL_REDUCE: Final = (f"{TESTS}/updates/test_all_reduce.py",)
OVERLAP: Final = (f"{TESTS}/test_overlap.py",)
SUPERVISION: Final = (f"{TESTS}/base/test_supervision.py",)
WORKER_SET: Final = (f"{TESTS}/base/test_worker_set.py",)

MUTANTS: Final = (
    Mutant(
        "updates draw what the present stage collects",
        f"{SCHEME}/collection/worker/aside.py",
        "            self._taken.append(self._acting.take_step(self._policy))\n",
        "            self._acting.store(self._acting.take_step(self._policy), self._components.storage)\n",
        OVERLAP,
    ),
    Mutant(
        "actions are those of weights that change meanwhile",
        f"{SCHEME}/collection/worker/aside.py",
        "            self._policy = self._copied_policy(self._policy)\n",
        "            self._copied_policy(self._policy)\n",
        OVERLAP,
    ),
    Mutant(
        "the copy of the weights is made once",
        f"{SCHEME}/collection/worker/aside.py",
        "        self._copy.refresh()\n",
        "",
        OVERLAP,
    ),
    Mutant(
        "the only action of a stage is chosen beside its update",
        f"{SCHEME}/collection/worker/aside.py",
        "            self._acting.choose_ahead()  # one",
        "            pass  # one",
        OVERLAP,
    ),
    Mutant(
        "exploration does not fall where envs step beside updates",
        f"{SCHEME}/collection/worker/aside.py",
        "        self._components.algo.num_acted = self._policy.num_acted\n",
        "",
        OVERLAP,
    ),
    Mutant(
        "an error of an env that steps beside updates is lost",
        f"{SCHEME}/overlap.py",
        "            if error is not None:\n                raise error\n",
        "",
        OVERLAP,
    ),
    Mutant(
        "steps are lost when an update fails beside them",
        f"{SCHEME}/overlap.py",
        "            error = self._wait()\n            aside.store()\n",
        "            error = self._wait()\n",
        OVERLAP,
    ),
    Mutant(
        "envs that fail in another thread are tried there again",
        f"{SCHEME}/overlap.py",
        "is_beside and aside.num_failures > num_failures:\n            self._choice = False\n",
        "is_beside and aside.num_failures > num_failures:\n            self._choice = None\n",
        OVERLAP,
    ),
    Mutant(
        "learning begins one stage late",
        f"{GRADIENTS}/g_worker.py",
        "        aside = self.col_workers.collector.aside() if self._learns_from_before() else None\n",
        "        aside = self.col_workers.collector.aside() if self._may_learn() else None\n",
        OVERLAP,
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
        "        storage.max_size\n",
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
        f"{SCHEME}/weights.py",
        "    algo.multipliers.load_state_dict(unpack_weights(learned.multipliers))\n",
        "",
        VERSIONED_WEIGHTS,
    ),
    Mutant(
        "workers side by side draw the same random numbers",
        f"{SCHEME}/weights.py",
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
        "                self._limiter.updated()\n",
        "                [self._limiter.updated() for _ in replies]\n",
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
        "the room of a storage is that of one of its collectors",
        f"{GRADIENTS}/g_worker.py",
        "            storage.capacity,\n",
        "            storage.max_size * self.col_worker.envs_train.num_envs,\n",
        (f"{TESTS}/test_scheme.py",),
    ),
    Mutant(
        "a signal to all processes of a run ends Ray before the driver",
        f"{SCHEME}/base/engine.py",
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP})",
        "signal.pthread_sigmask(signal.SIG_BLOCK, set())",
        (f"{TESTS}/base/test_engine.py",),
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
        "            self._limiter.updated()\n",
        "            if info is not None:\n                self._limiter.updated()\n",
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
        "a restarted worker has the epoch of the one before",
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
        "a restarted gradient worker begins with nothing",
        f"{GRADIENTS}/remote_source.py",
        "resume_point = self._resume_point(index) if index in self._lost else None",
        "resume_point = None",
        REMOTE_SOURCE,
    ),
    Mutant(
        "gradient workers go on with the weights that they had",
        f"{GRADIENTS}/remote_source.py",
        "if self._published is None or self._published[0] != self.algo.num_updates:",
        "if self._published is None:",
        REMOTE_SOURCE,
    ),
    Mutant(
        "normalisers of gradient workers are not put together",
        f"{GRADIENTS}/remote_source.py",
        "        if reply.gains:\n",
        "        if not reply.gains:\n",
        REMOTE_SOURCE,
    ),
    Mutant(
        "what is stored by a lost worker is shown as if it were there",
        f"{GRADIENTS}/remote_source.py",
        "replace(status, num_stored=0, num_bytes=0, reports=reports)",
        "replace(status, reports=reports)",
        (*REMOTE_SOURCE, f"{TESTS}/test_losses.py"),
    ),
    Mutant(
        "a journal of an older storage is read",
        f"{GRADIENTS}/worker_journal.py",
        "StorageJournal(self._folder / str(number))",
        "StorageJournal(self._folder)",
        REMOTE_SOURCE,
    ),
    Mutant(
        "a restarted worker is not told of earlier changes",
        f"{SCHEME}/base/worker_set.py",
        "        self._commands[command.key] = command\n",
        "",
        WORKER_SET,
    ),
    Mutant(
        "an older change wins over a newer one",
        f"{SCHEME}/base/worker_set.py",
        "        self._commands.pop(command.key, None)\n        self._commands[command.key] = command\n",
        "        self._commands.setdefault(command.key, command)\n",
        WORKER_SET,
    ),
    Mutant(
        "gradients of a stage that was abandoned are applied",
        f"{SCHEME}/base/commands.py",
        "        worker.abandon_stage()\n",
        "",
        (*G_WORKER, *REMOTE_SOURCE),
    ),
    Mutant(
        "an update changes weights and no version",
        f"{SCHEME}/updates/u_worker.py",
        "                gradients.col_worker.counts.actor_version += 1\n",
        "",
        (f"{TESTS}/updates/test_u_worker.py",),
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
)
