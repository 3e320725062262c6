"""Runs a program on a buffer and on the reference model, and compares them after every operation."""

from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial, singledispatchmethod
from math import ceil, floor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import OFF_POLICY_STORAGES, HERBuffer, MixedBuffer, NStepReplayBuffer
from recollect.errors import StorageError
from tests import programs
from tests.programs import PART_NAMES, SOURCE_NAMES, Config, Program
from tests.reference import LANE_SHIFT, ReferenceStore, Rewriting, Row, flatten, same_bits, stack, under
from tests.simulated import SourceStream, as_sample, spoil, state_numbers

ACCUMULATED = (keys.REWARD, keys.IREWARD, keys.DISCOUNT)
GARBAGE_SEED = 7
NUM_REMEMBERED = 4


class CountedCalls:
    """A function that counts how often it is called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.num_calls = 0

    def __call__(self, *arguments: Any) -> Any:
        self.num_calls += 1
        return self.function(*arguments)


def counted(rewriting: Rewriting) -> Rewriting:
    """Count the calls of every function in a rewriting."""
    names = ("compute_reward", "compute_terminated", "her_function")
    return Rewriting(*(function and CountedCalls(function) for function in (getattr(rewriting, n) for n in names)))


def build(config: Config, rewriting: Rewriting) -> Any:
    """Build the buffer of a configuration, its arguments from the places that a user may choose."""
    settings, buffer = config.settings, OFF_POLICY_STORAGES[config.features["buffer"]]
    actor, algorithm = None, SimpleNamespace(gamma=settings.gamma)
    algorithm.update_algorithm_parameter = partial(setattr, algorithm)
    envs = SimpleNamespace(num_envs=settings.num_envs)
    options: dict[str, Any] = {
        "seed": config.seed,
        "frame_stack": config.stream.observation.frame_stack_option(),
    }
    if settings.length and (config.seed % 2 or keys.RHS not in config.stream.optional):
        options |= {"sequence_length": settings.length, "sequence_overlap": settings.overlap}
    elif settings.length:
        actor = SimpleNamespace(is_recurrent=True, sequence_overlap=settings.overlap)
        algorithm.update_every = settings.length
    if issubclass(buffer, NStepReplayBuffer):
        options["n_step"] = settings.n_step
    if settings.prioritised:
        options |= {name: getattr(settings, name) for name in ("epsilon", "alpha", "beta", "default_error")}
    if settings.recent:
        options |= {"eta": settings.eta, "cmin": settings.cmin}
    if issubclass(buffer, MixedBuffer):
        options |= {"data_share": settings.shares, "joint_priorities": settings.joint}
    if issubclass(buffer, HERBuffer):
        options |= _hindsight_options(config, rewriting, envs)
    return buffer(settings.max_size, torch.device("cpu"), actor, algorithm, envs, **options)


def _hindsight_options(config: Config, rewriting: Rewriting, envs: SimpleNamespace) -> dict[str, Any]:
    options = {
        "strategy": config.settings.strategy,
        "share": config.share,
        "her_function": rewriting.her_function,
    }
    if rewriting.compute_reward is not None and config.seed % 3 == 0:
        envs.compute_reward = rewriting.compute_reward
        if rewriting.compute_terminated is not None:
            envs.compute_terminated = rewriting.compute_terminated
        return options
    given = {"compute_reward": rewriting.compute_reward, "compute_terminated": rewriting.compute_terminated}
    return options | given


def assert_rows(actual: Row, expected: Row) -> None:
    """Compare a batch with what it must hold: same keys, dtypes, shapes and bits; sums up to rounding."""
    assert set(actual) == set(expected)
    for path, values in expected.items():
        found = actual[path]
        assert found.dtype == values.dtype, f"{path}: {found.dtype} instead of {values.dtype}"
        assert found.shape == values.shape, f"{path}: {found.shape} instead of {values.shape}"
        if path in ACCUMULATED:
            np.testing.assert_allclose(found, values, rtol=1e-6, atol=1e-7, err_msg=path)
        else:
            assert same_bits(found, values), f"{path}:\n{found}\ninstead of\n{values}"


class Comparison:
    """A buffer and the reference model, side by side.

    Parameters
    ----------
    config : Config
        What to build.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.reference = ReferenceStore(replace(config.settings))
        self.rewriting = counted(config.rewriting)
        self.buffer = build(config, self.rewriting)

    @property
    def settings(self) -> Any:
        """The parameters as they are now."""
        return self.reference.settings

    def check_sizes(self) -> None:
        """Compare everything that counts steps."""
        reference = self.reference
        assert len(self.buffer) == len(reference)
        assert self.buffer.max_size == self.settings.max_size
        if len(reference.groups) == 1:
            lane = reference.lanes[0]
            assert self.buffer.size == len(lane.steps) - lane.context

    def check_batches(self, num_batches: int, batch_size: int, num_epochs: int, after: Callable[[Any], None]) -> None:
        """Draw batches and compare each, calling `after` with it."""
        total = num_batches * num_epochs
        drawn = iter(self.buffer.generate_batches(num_batches, batch_size, num_epochs))
        if total == 1 and batch_size % 2:
            drawn = (self.buffer.sample(batch_size) for _ in range(total))
        for number in range(1, total + 1):
            if self.is_empty():
                with pytest.raises(StorageError):
                    next(drawn)
                return
            windows = self.reference.next_windows(number, total)
            batch = next(drawn)
            self.check_batch(batch, batch_size, windows)
            after(batch)
        assert next(drawn, None) is None

    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not self.reference.candidates([len(lane.steps) for lane in self.reference.lanes])

    def check_batch(self, batch: dict[str, Any], batch_size: int, windows: list[int]) -> None:
        """Compare one batch, drawn from these windows of the lanes."""
        actual = flatten(batch)
        ids = actual.pop(keys.IDXS)
        num_rows = max(1, batch_size // self.settings.length) if self.settings.length else batch_size
        assert (str(ids.dtype), ids.shape) == ("int64", (num_rows,))
        candidates = self.reference.candidates(windows)
        self._check_choice(ids.tolist(), candidates)
        expected = stack(self._expected_rows(ids.tolist(), actual))
        if self.settings.recent:
            expected[keys.CK] = np.full((num_rows, 1), self.reference.num_recent(windows), np.int64)
        if self.settings.prioritised:
            self._check_weights(actual.pop(keys.PER_WEIGHTS), ids.tolist(), candidates)
        assert_rows(actual, expected)

    def _check_choice(self, ids: list[int], candidates: list[int]) -> None:
        probabilities = self.reference.probabilities(candidates)
        for step_id in ids:
            assert step_id in probabilities, f"{step_id >> LANE_SHIFT}:{step_id % (1 << LANE_SHIFT)} not drawable"
            assert probabilities[step_id] > 0
        for _, part in self.reference.parts(candidates):
            inside = [step_id for step_id in ids if step_id in set(part)]
            wanted = sum(probabilities[step_id] for step_id in part) * len(ids)
            assert floor(wanted - 1e-6) <= len(inside) <= ceil(wanted + 1e-6), "a part has not its share"
            self._check_strata(inside, part)

    def _check_strata(self, ids: list[int], candidates: list[int]) -> None:
        """Draws by priority are spread evenly over all of it."""
        if not self.settings.alpha or not any(self.reference.priority(step_id) for step_id in candidates):
            return
        values, counts = self.reference.priorities(candidates), Counter(ids)
        for step_id, value in values.items():
            share = value / sum(values.values()) * len(ids)
            assert floor(share - 1e-6) - 1 <= counts[step_id] <= ceil(share + 1e-6) + 1, "draws are not stratified"

    def _check_weights(self, weights: np.ndarray, ids: list[int], candidates: list[int]) -> None:
        expected = self.reference.weights(ids, candidates)
        assert (str(weights.dtype), weights.shape) == ("float32", (len(ids), 1))
        np.testing.assert_allclose(weights[:, 0], expected, rtol=1e-5)

    def _rows(self, ids: list[int]) -> list[Row]:
        row = self.reference.sequence_row if self.settings.length else self.reference.row
        return [row(step_id) for step_id in ids]

    def _expected_rows(self, ids: list[int], actual: Row) -> list[Row]:
        """The rows of a batch, those that `actual` shows to be relabelled towards their goals."""
        if self.config.features["strategy"] == "absent":
            return self._rows(ids)
        wanted = self._desired(actual)
        reached = self._outcomes()
        is_relabelled = wanted > 0
        if self.settings.length:
            assert (is_relabelled.all(axis=1) == is_relabelled.any(axis=1)).all()
            is_relabelled = is_relabelled[:, 0]
        assert is_relabelled.sum() == round(self.config.share * len(ids))
        self._check_calls(bool(is_relabelled.any()))
        expected = self._rows(ids)
        for place in np.flatnonzero(is_relabelled):
            relabelled = self._relabelled_sequence if self.settings.length else self._relabelled_row
            expected[place] = relabelled(ids[place], wanted[place], reached)
        return expected

    def _check_calls(self, is_any_relabelled: bool) -> None:
        for function in (self.rewriting.compute_reward, self.rewriting.compute_terminated):
            if isinstance(function, CountedCalls):
                assert int(is_any_relabelled) <= function.num_calls <= 1
                function.num_calls = 0

    def _desired(self, actual: Row) -> np.ndarray:
        if self.config.stream.observation.goal_columns:
            return actual[keys.OBS][..., -1]
        return actual[f"{keys.OBS}/{keys.DESIRED_GOAL}"][..., 0]

    def _outcomes(self) -> dict[float, int]:
        columns = self.config.stream.observation.goal_columns
        path = keys.NEXT_OBS if columns else f"{keys.NEXT_OBS}/{keys.ACHIEVED_GOAL}"
        return {
            float(self.reference.step(step_id).row[path][-2 if columns else 0]): step_id
            for step_id in self.reference.ids()
        }

    def _relabelled_row(self, step_id: int, wanted: float, reached: dict[float, int]) -> Row:
        goal_id = reached[float(wanted)]
        assert goal_id in self.reference.goals(step_id), "a goal that the strategy does not allow"
        return self.reference.relabelled_row(step_id, goal_id, self.config.rewriting)

    def _relabelled_sequence(self, start_id: int, wanted: np.ndarray, reached: dict[float, int]) -> Row:
        first_of: dict[int, tuple[int, int]] = {}
        rows = []
        for step_id, goal in zip(self.reference.sequence_ids(start_id), wanted, strict=True):
            goal_id = reached[float(goal)]
            segment = self.reference.segment(step_id)[0]
            first, first_goal = first_of.setdefault(segment, (step_id, goal_id))
            assert goal_id == first_goal, "two goals in one stretch of an episode"
            assert goal_id in self.reference.goals(first), "a goal that the strategy does not allow"
            rows.append(self.reference.relabelled_row(step_id, goal_id, self.config.rewriting))
        sequence = self.reference.sequence_row(start_id, rows)
        return sequence | {path: np.zeros_like(v) for path, v in under(sequence, [keys.RHS]).items()}

    def check_export(self, source: Hashable) -> Row:
        """Compare all data of a source, and a part of them."""
        expected = self.reference.all_data(source)
        actual = flatten(self.buffer.get_all_buffer_data(data_to_cpu=True, source=source))
        self._check_data(actual, expected)
        num_steps = len(expected[keys.REWARD])
        start, end = num_steps // 3, num_steps - num_steps // 4
        part = {path: values[start:end] for path, values in expected.items()}
        if keys.CUT in part and not part[keys.CUT].any():
            del part[keys.CUT]
        self._check_data(flatten(self.buffer.get_data_slice(start, end, source=source)), part)
        return actual

    def _check_data(self, actual: Row, expected: Row) -> None:
        if keys.CUT in expected:
            actual = actual | {keys.CUT: actual[keys.CUT].astype(bool)}
        assert_rows(actual, expected)


class Run:
    """A program being run.

    Parameters
    ----------
    program : Program
        What to do.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.config = program.config
        self.pair = Comparison(program.config)
        self.reference, self.buffer = self.pair.reference, self.pair.buffer
        self.rng = np.random.default_rng([program.data_seed, 2])
        self.states = state_numbers()
        names = (SOURCE_NAMES[0], *PART_NAMES) if self.config.settings.shares else SOURCE_NAMES
        self.names: list[Hashable] = list(names[: self.config.num_sources])
        self.streams = [self._stream(slot) for slot in range(self.config.num_sources)]
        self.rejoined: set[int] = set()
        self.batches: deque[tuple[dict[str, Any], Row]] = deque(maxlen=NUM_REMEMBERED)
        self.views: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=3 * NUM_REMEMBERED)
        self.has_gaps = False
        self.was_resized = False

    def run(self) -> None:
        """Do everything and check after each operation."""
        for operation in self.program.operations:
            self.do(operation)
            self.pair.check_sizes()
            # The break before a step that at once overwrites the one before it need not be noticed.
            self.has_gaps |= self.reference.capacity == 1
        self._check_held()
        if not self.has_gaps:
            assert self.buffer.num_cuts == self.reference.num_mismatches

    def _check_held(self) -> None:
        """What a caller still holds of earlier batches is as it was."""
        for batch, copy in self.batches:
            assert all(same_bits(values, copy[path]) for path, values in flatten(batch).items())
        for view, values in self.views:
            assert same_bits(view, values)

    @singledispatchmethod
    def do(self, operation: Any) -> None:
        """Do one operation."""
        raise TypeError(f"no program has the operation {operation!r}")

    @do.register
    def _(self, operation: programs.Insert) -> None:
        if operation.one_by_one:
            for _ in range(operation.num_steps):
                self._insert_one()
            return
        name, stream = self.names[operation.source], self.streams[operation.source]
        known = self.reference.sources.get(name)
        expected = known.received if known else 0
        shift = None if operation.source in self.rejoined else operation.shift
        if shift is not None and shift > 0:
            self.has_gaps = True
            if operation.is_lost:
                stream.take(shift)
        num_repeated = min(expected, max(0, -(shift or 0)))
        parts = [self._garbage(num_repeated)] if num_repeated else []
        if not (num_repeated and operation.is_lost):
            parts.append(stream.take(operation.num_steps))
        data = {path: np.concatenate([part[path] for part in parts]) for path in parts[0]}
        first_step = None if shift is None else expected + max(shift, -num_repeated)
        self._insert_slice(data, name, first_step)

    @do.register
    def _(self, operation: programs.Sample) -> None:
        size = (operation.num_batches, operation.batch_size, operation.num_epochs)

        def after(batch: dict[str, Any]) -> None:
            arrays = flatten(batch)
            self.batches.append((batch, {path: values.copy() for path, values in arrays.items()}))
            view = arrays[str(self.rng.choice(sorted(arrays)))]
            self.views.append((view, view.copy()))
            if operation.is_trained:
                self._prioritise(batch, ())
            if operation.is_fed:
                self._feed()

        self.pair.check_batches(*size, after)

    @do.register
    def _(self, operation: programs.Prioritise) -> None:
        if operation.age < len(self.batches):
            self._prioritise(self.batches[operation.age][0], operation.returns)

    @do.register
    def _(self, operation: programs.Change) -> None:
        name, value = operation.name, operation.value
        self.was_resized |= name == "max_size"
        if name == "shares":
            shares = dict.fromkeys(self.config.settings.shares, value / len(self.config.settings.shares))
            self.buffer.update_storage_parameter("data_share", shares)
            self.reference.settings.shares = shares
            return
        self.buffer.update_storage_parameter(name, value)
        self.reference.update(name, value)

    @do.register
    def _(self, operation: programs.Reset) -> None:
        self.buffer.reset()
        self.reference.reset()

    @do.register
    def _(self, operation: programs.Release) -> None:
        slot = operation.source
        if self.reference.free or self.names[slot] not in self.reference.sources:
            return
        self.has_gaps = True
        self.buffer.release_source(self.names[slot])
        self.reference.release_source(self.names[slot])
        if operation.is_renamed and slot > 0:
            self.names[slot] = (self.names[slot], "again")
            self.streams[slot] = self._stream(slot)
        else:
            self.rejoined.add(slot)

    @do.register
    def _(self, operation: programs.Export) -> None:
        name = self.names[operation.source]
        if name not in self.reference.sources or not self.reference.all_data(name):
            return
        self.pair.check_export(name)
        self._check_round_trip(name)

    def _check_round_trip(self, name: Hashable) -> None:
        data = self.buffer.get_all_buffer_data(source=name)
        other = Comparison(replace(self.config, settings=replace(self.reference.settings)))
        other.buffer.insert_data_slice(data)
        other.reference.insert(data)
        other.check_sizes()
        if len(self.reference.groups) == 1:
            assert len(other.buffer) == len(self.buffer)
        other.check_export(0)
        other.check_batches(1, 8, 1, lambda batch: None)

    def realised(self) -> dict[str, str]:
        """The features that the program really had."""
        found = dict(self.config.features)
        found["ring"] = "wraps" if self.reference.num_overwritten else "has_room"
        found["sources"] = "several" if len(self.reference.groups) > 1 else "one"
        found["resize"] = "sometimes" if self.was_resized else "never"
        return found

    def _stream(self, slot: int) -> SourceStream:
        seed = [self.program.data_seed, 3, slot, int(self.rng.integers(2**31))]
        return SourceStream(self.config.stream, self.config.settings.num_envs, seed, self.states)

    def _garbage(self, num_steps: int) -> Row:
        seed = [self.program.data_seed, GARBAGE_SEED, int(self.rng.integers(2**31))]
        stream = SourceStream(self.config.stream, self.config.settings.num_envs, seed, self.states)
        return stream.take(num_steps)

    def _given(self, data: Row) -> dict[str, Any]:
        return as_sample(data, str(self.rng.choice(self.config.given)))

    def _insert_one(self) -> None:
        data = {path: values[0] for path, values in self.streams[0].take(1).items()}
        self.reference.insert_transition(data)
        sample = self._given(data)
        self.buffer.insert_transition(sample)
        spoil(sample)

    def _insert_slice(self, data: Row, name: Hashable, first_step: int | None) -> None:
        self.reference.insert(data, name, first_step)
        sample = self._given(data)
        options: dict[str, Any] = {} if name == 0 and self.rng.integers(2) else {"source": name}
        if first_step is not None:
            options["first_step"] = first_step
        self.buffer.insert_data_slice(sample, **options)
        spoil(sample)

    def _feed(self) -> None:
        if self.config.features["inserts"] == "slices":
            self._insert_slice(self.streams[0].take(2), self.names[0], None)
        else:
            self._insert_one()

    def _prioritise(self, batch: dict[str, Any], returns: tuple[float, ...]) -> None:
        ids = flatten(batch)[keys.IDXS].tolist()
        per_row = self._errors(len(ids))
        info: dict[str, Any] = {keys.ALGORITHM: {keys.ERRORS: self._errors_as_given(per_row)}}
        if returns:
            info[keys.EPISODES] = {keys.TRAIN_REWARD: returns[0] if len(returns) == 1 else list(returns)}
            self.reference.update_eta(list(returns))
        if not self.config.settings.prioritised:
            assert self.buffer.after_gradients(batch, info) is not None
            return
        num_stale = self.reference.set_errors(ids, _mixed(per_row).tolist())
        answer = self.buffer.after_gradients(batch, info)
        assert answer[keys.STORAGE]["stale_priorities"] == num_stale

    def _errors(self, num_rows: int) -> np.ndarray:
        num_times = 0
        if self.config.settings.length and self.rng.integers(2):
            num_times = int(self.rng.integers(1, 4))
        shape = (num_rows, num_times) if num_times else (num_rows,)
        errors = self.rng.choice([0.0, 0.0, 1e-3, 0.5, 1.0, 7.0, 50.0], shape)
        return errors * self.rng.choice([1.0, self.rng.random()])

    def _errors_as_given(self, errors: np.ndarray) -> Any:
        if self.rng.integers(2):
            errors = errors[..., None]
        if self.rng.integers(2):
            errors = errors.astype(np.float32)
        return torch.from_numpy(errors) if self.rng.integers(2) else errors


def _mixed(errors: np.ndarray) -> np.ndarray:
    """Mix the errors of a sequence over time: mostly the largest, a little the mean."""
    if errors.ndim == 1:
        return errors
    return 0.9 * errors.max(axis=1) + 0.1 * errors.mean(axis=1)


def run(program: Program) -> Run:
    """Run a program to its end."""
    running = Run(program)
    running.run()
    return running
