"""Faults in what is kept of a run: checkpoints, state, metrics, curves."""

from typing import Final

from tests.mutants.mutant import Mutant

RUNS: Final = "runs"
TESTS: Final = "tests/unit/runs"
CHECKPOINTS: Final = (f"{TESTS}/checkpointing/test_checkpoints.py",)
CURVES: Final = (f"{TESTS}/test_curves.py",)
BACKGROUND: Final = (f"{TESTS}/checkpointing/test_background.py",)
SAVING: Final = (f"{TESTS}/checkpointing/test_saving.py",)
STATE_FILES: Final = (f"{TESTS}/checkpointing/test_state_files.py",)
INTERRUPTS: Final = ("tests/unit/test_interrupts.py",)
LOCK: Final = (f"{TESTS}/test_lock.py",)
DISK: Final = ("tests/unit/files/test_disk.py",)
FAULTS: Final = (f"{TESTS}/test_faults.py",)
WRITERS: Final = (f"{TESTS}/test_writers.py",)
RECORDS: Final = ("tests/unit/test_learner.py::test_a_run_directory_holds_it_all",)
ROWS: Final = ("tests/unit/test_learner.py::test_rows_of_steps_that_are_made_again_are_dropped",)

MUTANTS: Final = (
    Mutant(
        "aliases may stand for any number of values",
        "config/files.py",
        "        _check_size(value)\n",
        "",
        ("tests/unit/config/test_files.py::test_aliases_that_stand_for_too_much_are_refused",),
    ),
    Mutant(
        "a file may ask for any number of threads",
        "config/run_config.py",
        "    if num_threads > _MAX_THREADS:\n",
        "    if False:\n",
        ("tests/unit/config/test_run_config.py::test_threads_that_no_machine_has_are_refused",),
    ),
    Mutant(
        "merged mappings may be of any size",
        "config/files.py",
        "            if sum(len(part.value) for part in parts) > _MAX_VALUES:\n",
        "            if False:\n",
        ("tests/unit/config/test_files.py::test_mappings_that_merge_too_much_are_refused_before_they_are_copied",),
    ),
    Mutant(
        "a generator reads where a file says, beyond its table",
        "agent/envs/state/values.py",
        "        as_whole(int((state[entries] if entries else state)[entry]), 0, most)\n",
        "        assert entries or entry or most\n",
        ("tests/unit/agent/envs/test_state.py::test_a_generator_does_not_read_beyond_its_table",),
    ),
    Mutant(
        "an optimiser's state is stretched to fit",
        "agent/algorithms/optimiser.py",
        "found.shape != own.shape or ",
        "",
        ("tests/unit/agent/algorithms/test_optimiser.py",),
    ),
    Mutant(
        "an archive may unpack to more than memory",
        "data/npz.py",
        "if num_bytes > MAX_BYTES:",
        "if num_bytes < 0:",
        ("tests/unit/data/test_data.py",),
    ),
    Mutant(
        "a second row of the same steps is written beside the first",
        f"{RUNS}/writers.py",
        "self._is_whole and not new and row[metrics.STEPS] != self._last_steps, False",
        "self._is_whole and not new, False",
        WRITERS,
    ),
    Mutant(
        "what a killed process was writing stays in the run's folder",
        f"{RUNS}/recorder.py",
        "        self.folder.sweep()\n",
        "",
        FAULTS,
    ),
    Mutant(
        "an agent is saved where another process trains",
        "api.py",
        "        with FolderLock(run.path):\n",
        "        if True:\n",
        (f"{TESTS}/test_lock.py",),
    ),
    Mutant(
        "a run whose output nobody reads ends without a checkpoint",
        "runs/display/progress.py",
        "        with hang_ups():\n            if self.is_live",
        "        if True:\n            if self.is_live",
        ("tests/unit/runs/display/test_progress.py",),
    ),
    Mutant(
        "a run continues from its oldest checkpoint",
        f"{RUNS}/checkpointing/checkpoints.py",
        "for path in reversed(self.paths()):",
        "for path in self.paths():",
        CHECKPOINTS,
    ),
    Mutant(
        "the newest checkpoints are removed",
        f"{RUNS}/checkpointing/checkpoints.py",
        "removed = paths[: -max(1, num_kept)]",
        "removed = paths[max(1, num_kept) :]",
        CHECKPOINTS,
    ),
    Mutant(
        "the record of a checkpoint is written before its files",
        f"{RUNS}/checkpointing/checkpoints.py",
        "            seals = {name: write_file(path / name, content, syncs_folder=False)",
        """            first = {name: seal(content) for name, content in files.items()}
            write_file(path / COMMIT_FILE, Commit(num_steps=num_steps, written_at=0.0, files=first).dump())
            seals = {name: write_file(path / name, content, syncs_folder=False)""",
        CHECKPOINTS,
    ),
    Mutant(
        "checksums of a checkpoint are ignored",
        "files/disk.py",
        "    if digest.hexdigest() != expected.sha256:\n",
        "    if False:\n",
        CHECKPOINTS,
    ),
    Mutant(
        "files are renamed before they are synced",
        "files/disk.py",
        "            _write_all(descriptor, content)\n            os.fsync(descriptor)\n",
        "            _write_all(descriptor, content)\n",
        DISK,
    ),
    Mutant(
        "names of files are not synced",
        "files/disk.py",
        "    if syncs_folder:\n        sync_folder(path.parent)\n",
        "",
        DISK,
    ),
    Mutant(
        "links are followed by who reads",
        "files/disk.py",
        "_READING: Final = os.O_RDONLY | os.O_NOFOLLOW",
        "_READING: Final = os.O_RDONLY",
        DISK,
    ),
    Mutant(
        "pipes and devices are read",
        "files/disk.py",
        "    if not stat.S_ISREG(os.fstat(descriptor).st_mode):\n",
        "    if False:\n",
        DISK,
    ),
    Mutant(
        "files of any size are read",
        "files/disk.py",
        "        if num_bytes > max_bytes:\n",
        "        if False:\n",
        DISK,
    ),
    Mutant(
        "the replay of a checkpoint is not looked at",
        f"{RUNS}/checkpointing/commit.py",
        "            check_sealed(folder / file, expected)\n            check_snapshot(folder / file)\n",
        "            check_snapshot(folder / file)\n",
        FAULTS,
    ),
    Mutant(
        "all checkpoints share one manifest",
        f"{RUNS}/checkpointing/saving.py",
        'name = f"{checkpoints.next_name(num_steps)}-{uuid.uuid4().hex[:8]}"',
        'name = "replay"',
        FAULTS,
    ),
    Mutant(
        "a full disk ends a run",
        f"{RUNS}/recorder.py",
        '            warnings.warn(f"{error}; the run continues, and tries again", RecollectWarning, stacklevel=3)\n',
        "            raise\n",
        FAULTS,
    ),
    Mutant(
        "no checkpoint is written as a run begins",
        f"{RUNS}/recorder.py",
        "        if self.run is not None and not self.run.checkpoints.paths():\n",
        "        if False:\n",
        FAULTS,
    ),
    Mutant(
        "half a row of metrics is a row",
        f"{RUNS}/writers.py",
        'content[: content.rfind(b"\\n") + 1].decode()',
        "content.decode()",
        FAULTS,
    ),
    Mutant(
        "rows after a checkpoint are doubled by a resume",
        f"{RUNS}/recorder.py",
        "        for writer in self._files:\n            writer.go_back",
        "        for writer in self._files[1:]:\n            writer.go_back",
        ROWS,
    ),
    Mutant(
        "the row of an interrupt stays",
        f"{RUNS}/checkpointing/saving.py",
        "            _ROW: None if self.row is None else dict(self.row),\n",
        "            _ROW: None,\n",
        ("tests/unit/runs/test_interrupted_rows.py",),
    ),
    Mutant(
        "a run that a callback has ended trains on once it is resumed",
        "learner.py",
        "            self.stop_reason = restored.stop_reason\n",
        "",
        ("tests/unit/runs/test_interrupted_rows.py",),
    ),
    Mutant(
        "a new column makes the rows before it unreadable",
        f"{RUNS}/writers.py",
        "self._is_whole and not new and row[metrics.STEPS] != self._last_steps, False",
        "self._is_whole and row[metrics.STEPS] != self._last_steps, False",
        WRITERS,
    ),
    Mutant(
        "a resumed run forgets its replay",
        f"{RUNS}/checkpointing/saving.py",
        "    scheme.load_storage(run.storage_folder, commit.replay.name)\n    if",
        "    if",
        SAVING,
    ),
    Mutant(
        "a checkpoint's actor keeps the weights that it had",
        f"{RUNS}/checkpointing/captured_agent.py",
        "    actor.load(path / ACTOR_FILE)\n",
        "",
        CHECKPOINTS,
    ),
    Mutant(
        "infinite weights are saved",
        f"{RUNS}/checkpointing/captured_agent.py",
        "not torch.isfinite(value).all()",
        "torch.isnan(value).any()",
        CHECKPOINTS,
    ),
    Mutant(
        "tensors within a state may be NaN",
        f"{RUNS}/checkpointing/captured_agent.py",
        "            check_finite(owner, value)\n",
        "            continue\n",
        CHECKPOINTS,
    ),
    Mutant(
        "keys that are numbers become strings",
        f"{RUNS}/checkpointing/state_files.py",
        "return dict(pairs) if all(isinstance(key, str) for key in value) else {_ITEMS: pairs}",
        "return {str(key): inner for key, inner in pairs}",
        STATE_FILES,
    ),
    Mutant(
        "tensors of one name in two lists overwrite each other",
        f"{RUNS}/checkpointing/state_files.py",
        "_encode(inner, (*path, str(index)), tensors)",
        "_encode(inner, path, tensors)",
        STATE_FILES,
    ),
    Mutant(
        "the row of the checkpoint itself is dropped",
        f"{RUNS}/writers.py",
        "row for steps, row in rows if steps <= num_steps",
        "row for steps, row in rows if steps < num_steps",
        WRITERS,
    ),
    Mutant(
        "TensorBoard hides the point of the checkpoint",
        f"{RUNS}/writers.py",
        "self._purge_step = 1 + int(",
        "self._purge_step = int(",
        WRITERS,
    ),
    Mutant(
        "an evaluation stands in all rows after it",
        f"{RUNS}/recorder.py",
        "        self._evaluation = learner.last_evaluation\n",
        "",
        RECORDS,
    ),
    Mutant(
        "what callbacks log stands in all rows after it",
        f"{RUNS}/recorder.py",
        "        learner.unwritten.clear()\n",
        "",
        ("tests/unit/callbacks/test_callback.py::test_logged_metrics_stand_in_the_row_that_follows",),
    ),
    Mutant(
        "a checkpoint is written only at the end",
        f"{RUNS}/recorder.py",
        "self._pace.is_due(learner.num_steps) and",
        "False and",
        ROWS,
    ),
    Mutant(
        "a checkpoint is of the moment at which it is written",
        f"{RUNS}/checkpointing/state_files.py",
        "tensor.detach().cpu().clone().contiguous()",
        "tensor.detach().cpu().contiguous()",
        BACKGROUND,
    ),
    Mutant(
        "what a storage keeps beside its steps is not copied",
        "agent/storages/experience/persistence/snapshot.py",
        "deepcopy(dict(extras.state))",
        "extras.state",
        BACKGROUND,
    ),
    Mutant(
        "a process ends in the middle of its last checkpoint",
        f"{RUNS}/checkpointing/background.py",
        'name="checkpoint")',
        'name="checkpoint", daemon=True)',
        BACKGROUND,
    ),
    Mutant(
        "a training is closed while a checkpoint is written",
        f"{RUNS}/recorder.py",
        """        self._writer.wait()
        self._take_written(learner)
""",
        "        self._take_written(learner)\n",
        BACKGROUND,
    ),
    Mutant(
        "a forked process waits for a thread that it has not got",
        f"{RUNS}/checkpointing/saving.py",
        "os.register_at_fork(after_in_child=_WRITING.renew)\n",
        "",
        BACKGROUND,
    ),
    Mutant(
        "a checkpoint that failed is not tried again soon",
        f"{RUNS}/recorder.py",
        "            self._pace.retry(learner.num_steps)\n",
        "            pass\n",
        BACKGROUND,
    ),
    Mutant(
        "time passes and no checkpoint comes",
        f"{RUNS}/checkpointing/pace.py",
        " or self._now() >= self._next_s\n",
        "\n",
        BACKGROUND,
    ),
    Mutant(
        "a resumed run forgets its counters",
        f"{RUNS}/checkpointing/saving.py",
        "        scheme.load_state(state[_SCHEME])\n",
        "        state[_SCHEME]\n",
        ("tests/unit/test_learner.py::test_a_resumed_run_continues_as_if_nothing_had_happened",),
    ),
    Mutant(
        "parameters that were changed change back on resume",
        f"{RUNS}/checkpointing/saving.py",
        "_change_again(scheme, state.get(_CHANGES, {}))",
        "_change_again(scheme, {})",
        SAVING,
    ),
    Mutant(
        "the storage's gamma wins over the algorithm's",
        f"{RUNS}/checkpointing/saving.py",
        """    for name, value in changes.get(_OF_STORAGE, {}).items():
        scheme.update_storage_parameter(name, value)
    for name, value in changes.get(_OF_ALGORITHM, {}).items():
        scheme.update_algorithm_parameter(name, value)
""",
        """    for name, value in changes.get(_OF_ALGORITHM, {}).items():
        scheme.update_algorithm_parameter(name, value)
    for name, value in changes.get(_OF_STORAGE, {}).items():
        scheme.update_storage_parameter(name, value)
""",
        SAVING,
    ),
    Mutant(
        "curves reach as far as the longest run",
        f"{RUNS}/curves.py",
        "last = max(first, min(curve.steps[-1] for curve in curves))",
        "last = max(first, max(curve.steps[-1] for curve in curves))",
        CURVES,
    ),
    Mutant(
        "the interquartile mean keeps the best runs",
        f"{RUNS}/curves.py",
        "[num_cut : len(values) - num_cut]",
        "[num_cut:]",
        CURVES,
    ),
    Mutant(
        "the band is half as wide",
        f"{RUNS}/curves.py",
        "[(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]",
        "[(2 - _LEVEL) / 4, (2 + _LEVEL) / 4]",
        CURVES,
    ),
    Mutant(
        "a run is written over another",
        f"{RUNS}/directory.py",
        "            write_new_file(run.config_file,",
        "            write_file(run.config_file,",
        (f"{TESTS}/test_directory.py",),
    ),
    Mutant(
        "rates are those of the whole run",
        f"{RUNS}/display/rates.py",
        "deque(maxlen=_NUM_MARKS)",
        "deque()",
        (f"{TESTS}/display/test_rates.py",),
    ),
    Mutant(
        "a second Ctrl-C is held back too",
        "interrupts.py",
        "        if self.held is not None:\n            _interrupt(number)\n        self.held",
        "        self.held",
        INTERRUPTS,
    ),
    Mutant(
        "SIGTERM ends a stage halfway",
        "interrupts.py",
        "_Handling(_ALL, _Hold())",
        "_Handling((signal.SIGINT,), _Hold())",
        INTERRUPTS,
    ),
    Mutant(
        "SIGTERM kills a run before it is saved",
        "interrupts.py",
        "    return _Handling(_ENDING, _Raise())\n",
        "    return _Handling((), _Raise())\n",
        INTERRUPTS,
    ),
    Mutant(
        "a process forked while signals are held back cannot be ended",
        "interrupts.py",
        "            signal.signal(number, signal.SIG_DFL)\n            os.kill(os.getpid(), number)\n",
        "            return\n",
        INTERRUPTS,
    ),
    Mutant(
        "steps with actions that there are not are learned from",
        "agent/storages/snapshots.py",
        "        check_steps(storage)\n",
        "",
        ("tests/unit/agent/storages/test_spaces_check.py",),
    ),
    Mutant(
        "the content of a file that is linked from a run's folder is lost",
        "files/lock.py",
        "    if os.fstat(descriptor).st_nlink == 1:\n",
        "    if True:\n",
        LOCK,
    ),
    Mutant(
        "reward scaling starts over where a run is resumed",
        "scheme/collection/worker/acting.py",
        "        self._tell_actor(state.get(_OF_ACTOR, {}))\n",
        "",
        (f"{TESTS}/test_exact_resume.py",),
    ),
    Mutant(
        "two processes write into one run",
        f"{RUNS}/recorder.py",
        "self._lock = None if run is None else FolderLock(run.path)\n",
        "self._lock = None\n",
        LOCK,
    ),
    Mutant(
        "a run's folder is released with the first learner that closes",
        "files/lock.py",
        "        if not self._num_holders[self._path]:\n            os.close",
        "        if self._num_holders[self._path] >= 0:\n            os.close",
        LOCK,
    ),
)
