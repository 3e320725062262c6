"""Rows marked `Skip` are no steps: they are left out, lane by lane, as if they had never come."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect import keys
from recollect.agent.storages import PERBuffer, ReplayBuffer
from recollect.errors import SchemaError, StorageError
from tests.programs import Export, Program, covering_rows, programs
from tests.reference import Lane, ReferenceStore, Row
from tests.running import Comparison, Run
from tests.simulated import SourceStream, StreamKind

ROWS = covering_rows()
FLAGS = (keys.DONE, keys.NEXT_DONE, keys.NEXT_TERMINATED, keys.CUT)


class SkippingStore(ReferenceStore):
    """The model, extended by the one sentence above; a break that is announced there comes before the row."""

    def _append(self, lane: Lane, row: Row) -> None:
        if not row.pop(keys.SKIP, np.zeros(1)).item():
            super()._append(lane, row)
        elif row.get(keys.CUT, np.zeros(1)).item():
            self._cut([lane])


class SkippingStream(SourceStream):
    """Environments some of which only begin an episode, or fail, while the others step."""

    def __init__(self, kind: StreamKind, num_envs: int, seed: list[int], states: Iterator[int]) -> None:
        super().__init__(kind, num_envs, seed, states)
        self.kind = kind
        self.rng = np.random.default_rng([*seed, 1])
        self.garbage = SourceStream(kind, num_envs, [*seed, 2], states)
        self.probability = float(self.rng.choice([0.1, 0.5, 0.9]))

    def take(self, num_steps: int) -> Row:
        rows = [[self._row(env) for env in range(len(self.envs))] for _ in range(num_steps)]
        return {path: np.array([[row[path] for row in step] for step in rows]) for path in rows[0][0]}

    def _row(self, env: int) -> Row:
        is_skipped = bool(self.rng.random() < self.probability)
        row = (self.garbage if is_skipped else self).envs[env].step()
        if is_skipped:
            is_cut = bool(self.rng.integers(2))
            row |= {key: np.full_like(row[key], key == keys.CUT and is_cut) for key in FLAGS if key in row}
        return row | {keys.SKIP: np.full(1, is_skipped, self.kind.flag_dtype)}


class SkippingPair(Comparison):
    """A buffer and the extended model."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.reference = SkippingStore(replace(config.settings))

    def check_sizes(self) -> None:
        assert len(self.buffer) == len(self.reference)
        assert self.buffer.size == len(self.reference) // self.settings.num_envs


class SkippingRun(Run):
    """A program over streams with rows to skip."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.pair = SkippingPair(program.config)
        self.reference, self.buffer = self.pair.reference, self.pair.buffer

    def _stream(self, slot: int) -> SourceStream:
        seed = [self.program.data_seed, 3, slot, int(self.rng.integers(2**31))]
        return SkippingStream(self.config.stream, self.config.settings.num_envs, seed, self.states)

    def _garbage(self, num_steps: int) -> Row:
        seed = [self.program.data_seed, 4, int(self.rng.integers(2**31))]
        return SkippingStream(self.config.stream, self.config.settings.num_envs, seed, self.states).take(num_steps)

    def _given(self, data: Row) -> dict[str, Any]:
        """The key is optional where no row is skipped."""
        if not data[keys.SKIP].any() and self.rng.integers(2):
            data = {path: values for path, values in data.items() if path != keys.SKIP}
        return super()._given(data)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_against_the_model(data: st.DataObject) -> None:
    program = data.draw(st.sampled_from(ROWS).flatmap(programs))
    # TimeMajorSteps of different lengths cannot be exported.
    operations = tuple(each for each in program.operations if not isinstance(each, Export))
    SkippingRun(replace(program, operations=operations)).run()


def make_sample(obs: list[float], skip: list[int] | None = None, cut: list[int] | None = None) -> dict[str, Any]:
    """One step of each env that leads from `obs` to the next number."""
    values = np.array(obs, np.float32)[:, None]
    flags = np.zeros(values.shape, np.bool_)
    sample = {
        keys.OBS: values,
        keys.NEXT_OBS: values + 1,
        keys.ACTION: values,
        keys.REWARD: values,
        keys.DONE: flags,
        keys.NEXT_DONE: flags,
    }
    sample |= {} if skip is None else {keys.SKIP: np.array(skip)[:, None]}
    return sample | ({} if cut is None else {keys.CUT: np.array(cut)[:, None]})


def drawn(memory: ReplayBuffer) -> set[float]:
    """What a large batch holds."""
    return set(memory.sample(200)[keys.OBS].flatten().tolist())


def test_rows_that_are_skipped_are_never_drawn() -> None:
    memory = ReplayBuffer.standalone(10, num_envs=3, seed=0)
    memory.insert_transition(make_sample([1, 10, 100]))
    memory.insert_transition(make_sample([2, 666, 101], skip=[0, 1, 0]))
    memory.insert_transition(make_sample([3, 11, 666], skip=[0, 0, 1]))
    assert drawn(memory) == {1, 2, 3, 10, 11, 100, 101}
    assert len(memory) == 7
    assert memory.num_cuts == 0


def test_first_sample_may_be_skipped_altogether() -> None:
    memory = PERBuffer.standalone(10, num_envs=2, alpha=0.6, seed=0)
    memory.insert_transition(make_sample([666, 666], skip=[1, 1]))
    assert len(memory) == 0
    with pytest.raises(StorageError, match="empty"):
        memory.sample(1)
    memory.insert_transition(make_sample([1, 666], skip=[0, 1]))
    assert drawn(memory) == {1}


def test_break_at_a_skipped_row_ends_windows_before_it() -> None:
    """The env began again, by chance with the very observation that the last step led to."""
    memory = PERBuffer.standalone(10, num_envs=1, n_step=3, gamma=1.0, seed=0)
    memory.insert_transition(make_sample([1]))
    memory.insert_transition(make_sample([666], skip=[1], cut=[1]))
    memory.insert_transition(make_sample([2]))
    batch = memory.sample(50)
    is_first = batch[keys.OBS] == 1
    assert is_first.any()
    assert (batch[keys.NEXT_OBS][is_first] == 2).all()
    assert (batch[keys.N_STEP][is_first] == 1).all()


def test_slice_with_skipped_rows() -> None:
    steps = [make_sample([1, 10], [0, 0]), make_sample([2, 666], [0, 1]), make_sample([3, 11], [0, 0])]
    data = {key: np.stack([step[key] for step in steps]) for key in steps[0]}
    memory = ReplayBuffer.standalone(10, num_envs=2, seed=0)
    memory.insert_data_slice(data, first_step=0)
    memory.insert_data_slice(data, first_step=0)
    assert drawn(memory) == {1, 2, 3, 10, 11}
    assert len(memory) == 5


def test_export_of_streams_of_different_lengths_is_refused() -> None:
    memory = ReplayBuffer.standalone(2, num_envs=2, seed=0)
    memory.insert_transition(make_sample([1, 10]))
    memory.insert_transition(make_sample([2, 666], skip=[0, 1]))
    with pytest.raises(StorageError, match="1 to 2 stored steps"):
        memory.get_all_buffer_data()
    memory.insert_transition(make_sample([3, 11]))
    exported = memory.get_all_buffer_data()[keys.OBS]
    assert torch.equal(exported[..., 0], torch.tensor([[2.0, 10.0], [3.0, 11.0]]))


def test_column_is_written_ahead_of_each_lane() -> None:
    memory = ReplayBuffer.standalone(4, num_envs=2, seed=0)
    memory.insert_transition(make_sample([1, 10]))
    memory.insert_transition(make_sample([2, 666], skip=[0, 1]))
    ahead = np.array([[[7.0], [70.0]]], np.float32)
    assert memory.insert_single_tensor_slice(memory.data, keys.ACTION, ahead) == 1
    actions = memory.data[keys.ACTION]
    assert (actions[0, 2, 0], actions[1, 1, 0]) == (7, 70)


@pytest.mark.parametrize("skip", [[[1]], [[1], [2]], [1, 0]])
def test_bad_marks_change_nothing(skip: list[Any]) -> None:
    memory = ReplayBuffer.standalone(4, num_envs=2, seed=0)
    memory.insert_transition(make_sample([1, 10]))
    with pytest.raises(SchemaError, match=keys.SKIP):
        memory.insert_transition(make_sample([2, 11]) | {keys.SKIP: np.array(skip)})
    assert len(memory) == 2


def test_states_of_lanes_whose_sequences_start_at_different_steps() -> None:
    """At the reset the lanes had got differently far, later they are level again."""
    memory = ReplayBuffer.standalone(20, num_envs=2, seed=0, sequence_length=3)
    skips = [[0, 1], None, [1, 0], *[[0, 0]] * 8]
    for step, skip in enumerate(skips):
        if skip is None:
            memory.reset()
        else:
            sample = make_sample([step, 100 + step], skip)
            memory.insert_transition(sample | {keys.RHS: sample[keys.OBS] + 0.5})
    batch = memory.sample(300)
    assert set(batch[keys.OBS][:, 0, 0].tolist()) == {3, 6, 102, 105, 108}
    assert torch.equal(batch[keys.RHS], batch[keys.OBS][:, 0] + 0.5)
