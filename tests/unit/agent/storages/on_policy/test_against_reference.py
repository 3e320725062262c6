"""On-policy storages against sums written out, over random rollouts with ends, breaks, gaps and several sources."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect import keys
from recollect.agent.storages import GAEBuffer, VTraceBuffer
from tests.unit.agent.storages.on_policy.rollouts import (
    Critic,
    Sample,
    Step,
    World,
    as_slice,
    at,
    continues,
    expected_gae,
    expected_vtrace,
    make_actor,
    rows_by_obs,
    value_of,
)

pytestmark = pytest.mark.filterwarnings("ignore::recollect.errors.RecollectWarning")
PROPERTY = settings(max_examples=40)


class Rollout:
    """A storage that was fed by several sources in slices of several lengths, and what it must hold."""

    def __init__(self, storage: Any, num_envs: int, seed: int, *, with_skips: bool = False) -> None:
        self.storage = storage
        self.rng = np.random.default_rng(seed)
        self.num_sources = int(self.rng.integers(1, 4))
        self.with_skips = with_skips
        self.worlds = [World(num_envs, self.rng, first_obs=1000.0 * source) for source in range(self.num_sources)]
        self.begin()

    def begin(self) -> None:
        for world in self.worlds:
            world.lanes = [[] for _ in world.lanes]

    @property
    def lanes(self) -> list[list[Step]]:
        return [lane for world in self.worlds for lane in world.lanes]

    def fill(self) -> None:
        for source in self.rng.permutation(self.num_sources).tolist():
            for _ in range(int(self.rng.integers(1, 3))):
                self.insert(source, self.worlds[source].take(int(self.rng.integers(1, 6))))

    def insert(self, source: int, steps: Sample) -> None:
        if source == 0:
            for position in range(len(steps[keys.REWARD])):
                self.storage.insert_transition(self._maybe_skip(at(steps, position), position))
        else:
            self.storage.insert_data_slice(steps, source=source)

    def _maybe_skip(self, sample: Sample, position: int) -> Sample:
        if not self.with_skips:
            return sample
        skip = self.rng.random(sample[keys.REWARD].shape) < 0.3
        for env, lane in enumerate(self.worlds[0].lanes):
            if skip[env, 0]:
                lane[:] = [step for step in lane if step.obs != sample[keys.OBS][env, 0]]
        return sample | {keys.SKIP: skip}


def make(storage_class: Any, num_envs: int, *, is_recurrent: bool = False, overlap: int = 0, **options: Any) -> Any:
    factory = storage_class.create_factory(12, seed=0, **options)
    actor = make_actor(is_recurrent=is_recurrent, overlap=overlap)
    return factory("cpu", actor, Critic(), SimpleNamespace(num_envs=num_envs))


@pytest.mark.parametrize("with_skips", [False, True])
@PROPERTY
@given(seed=st.integers(0, 2**31), num_envs=st.integers(1, 3), gae_lambda=st.sampled_from([0.0, 0.8, 1.0]))
def test_gae(with_skips: bool, seed: int, num_envs: int, gae_lambda: float) -> None:
    storage = make(GAEBuffer, num_envs, gae_lambda=gae_lambda)
    rollout = Rollout(storage, num_envs, seed, with_skips=with_skips)
    for _ in range(2):
        rollout.fill()
        if not len(storage):
            return
        storage.before_gradients()
        rows = rows_by_obs(list(storage.generate_batches(3, 1)))
        assert sorted(rows) == sorted(step.obs for lane in rollout.lanes for step in lane)
        for lane in rollout.lanes:
            for index, step in enumerate(lane):
                (row,) = rows[step.obs]
                advantage = expected_gae(lane, index, gae_lambda)
                assert row[keys.ADVANTAGE] == pytest.approx(advantage, rel=1e-4, abs=1e-4)
                assert row[keys.RETURN] == pytest.approx(advantage + value_of(step.obs), rel=1e-4, abs=1e-4)
                assert row[keys.LOG_PROB] == pytest.approx(step.log_prob)
        storage.reset()
        rollout.begin()


@PROPERTY
@given(seed=st.integers(0, 2**31), num_envs=st.integers(1, 3), bars=st.sampled_from([(1.0, 1.0), (2.0, 0.5)]))
def test_vtrace(seed: int, num_envs: int, bars: tuple[float, float]) -> None:
    storage = make(VTraceBuffer, num_envs, rho_bar=bars[0], c_bar=bars[1])
    rollout = Rollout(storage, num_envs, seed)
    rollout.fill()
    storage.before_gradients()
    rows = rows_by_obs(list(storage.generate_batches(2, 1)))
    for lane in rollout.lanes:
        for index, step in enumerate(lane):
            (row,) = rows[step.obs]
            target, advantage = expected_vtrace(lane, index, *bars)
            assert row[keys.RETURN] == pytest.approx(target, rel=1e-4, abs=1e-4)
            assert row[keys.ADVANTAGE] == pytest.approx(advantage, rel=1e-4, abs=1e-4)
            assert row[keys.VALUE] == pytest.approx(value_of(step.obs), rel=1e-4)
            assert row[keys.LOG_PROB] == pytest.approx(step.log_prob)


@PROPERTY
@given(
    seed=st.integers(0, 2**31),
    num_envs=st.integers(1, 3),
    shape=st.sampled_from([(1, 0), (3, 0), (None, 0), (3, 1), (None, 2), (4, 3)]),
)
def test_sequences_hold_every_step_once_in_order(seed: int, num_envs: int, shape: tuple[int | None, int]) -> None:
    length, overlap = shape
    storage = make(GAEBuffer, num_envs, is_recurrent=True, overlap=overlap, sequence_length=length)
    rollout = Rollout(storage, num_envs, seed)
    rollout.fill()
    storage.before_gradients()
    batches = list(storage.generate_batches(2, 1))
    assert sorted(rows_by_obs(batches)) == sorted(step.obs for lane in rollout.lanes for step in lane)
    assert all(len(rows) == 1 for rows in rows_by_obs(batches).values())
    places = {step.obs: (lane, index) for lane in rollout.lanes for index, step in enumerate(lane)}
    for batch in batches:
        for row in range(len(batch[keys.MASK])):
            check_sequence(batch, row, places, length or 4, overlap)


def check_sequence(batch: Sample, row: int, places: dict[float, Any], max_steps: int, overlap: int) -> None:
    mask = batch[keys.MASK][row, :, 0]
    num_trained, num_warm = int(mask.sum()), int(mask.argmax())
    num_steps = num_warm + num_trained
    assert 1 <= num_trained <= max_steps - overlap
    assert mask.tolist() == [0.0] * num_warm + [1.0] * num_trained + [0.0] * (len(mask) - num_steps)
    seen = batch[keys.OBS][row, :num_steps, 0].tolist()
    lane, begin = places[seen[0]]
    assert seen == [step.obs for step in lane[begin : begin + num_steps]]
    torch.testing.assert_close(batch[keys.RHS][row], torch.tensor([seen[0], -seen[0]]))
    for index in range(begin, begin + num_steps - 1):
        assert can_continue(lane, index)
    # There is less to warm up with only where the memory cannot be carried further back.
    assert num_warm == overlap or begin == 0 or not can_continue(lane, begin - 1)
    dones = batch[keys.DONE][row, :num_steps, 0].tolist()
    assert dones == [float(step.begins) for step in lane[begin : begin + num_steps]]


def can_continue(lane: list[Step], index: int) -> bool:
    """Whether the memory may be carried on: within a stream, and over an episode's end, where it is reset."""
    return continues(lane, index) or lane[index + 1].begins


def test_a_gap_in_the_slices_of_a_source_bootstraps_before_it() -> None:
    storage = make(GAEBuffer, 1)
    world = World(1, np.random.default_rng(1))
    steps = [Step(n, n + 1.0, 1.0, 0.0, 0.0, n == 0.0) for n in (0.0, 1.0, 2.0, 3.0)]
    storage.insert_data_slice(as_slice([[steps[0]], [steps[1]]]), source="a", first_step=0)
    storage.insert_data_slice(as_slice([[steps[3]]]), source="a", first_step=3)
    storage.before_gradients()
    rows = rows_by_obs(list(storage.generate_batches(1, 1)))
    world.lanes = [[steps[0], steps[1]], [steps[3]]]
    for lane in world.lanes:
        for index, step in enumerate(lane):
            assert rows[step.obs][0][keys.ADVANTAGE] == pytest.approx(expected_gae(lane, index, 0.95), abs=1e-4)
    assert sorted(storage.algorithm.asked) == [2.0, 4.0]
