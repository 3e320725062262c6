"""A storage that was written and read again holds the same, draws the same, and continues the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import EREBuffer, HERBuffer, NStepReplayBuffer, PERBuffer, ReplayBuffer
from recollect.agent.storages.experience.persistence.snapshot_content import Extras
from recollect.agent.storages.snapshots import StorageJournal, StorageSnapshot, cut_streams, load_storage, save_storage
from recollect.errors import StorageError
from tests.reference import flatten, same_bits
from tests.samples import make_slice, one_step, reward_if_reached, row_of, with_goals

NUM_ENVS = 2
PRIORITISED = {"n_step": 3, "alpha": 0.7, "epsilon": 0.01}
KINDS: dict[str, tuple[type[ReplayBuffer], dict[str, Any]]] = {
    "replay": (ReplayBuffer, {}),
    "nstep": (NStepReplayBuffer, {"n_step": 3}),
    "per": (PERBuffer, PRIORITISED),
    "ere": (EREBuffer, {**PRIORITISED, "eta": 0.99, "cmin": 4}),
    "her": (HERBuffer, {**PRIORITISED, "eta": 0.99, "cmin": 4, "compute_reward": reward_if_reached}),
    "sequences": (PERBuffer, {**PRIORITISED, "sequence_length": 4, "sequence_overlap": 1}),
}


def build(kind: str, size: int = 30, seed: int = 5, **options: Any) -> Any:
    cls, own = KINDS[kind]
    return cls.standalone(size, num_envs=NUM_ENVS, gamma=0.9, seed=seed, **{**own, **options})


def fill(storages: list[Any], first: int, num_steps: int) -> None:
    """Insert the same steps into each, learn from some batches, and tell of a training return."""
    steps = make_slice(num_steps, num_envs=NUM_ENVS, first=first, terminated={0: [7, 40]}, truncated={1: [11, 33]})
    steps[keys.DONE] = np.zeros_like(steps[keys.NEXT_DONE])
    for storage in storages:
        data = with_goals(steps) if isinstance(storage, HERBuffer) else steps
        for position in range(num_steps):
            storage.insert_transition(one_step(data, position))
        for _ in range(3):
            batch = storage.sample(12)
            errors = torch.linspace(0, 3, len(batch[keys.IDXS]))
            storage.after_gradients(
                batch,
                {keys.ALGORITHM: {keys.ERRORS: errors}, keys.EPISODES: {keys.TRAIN_REWARD: [float(first), 1.0]}},
            )


def assert_alike(left: Any, right: Any) -> None:
    assert (len(left), left.step, left.num_cuts) == (len(right), right.step, right.num_cuts)
    assert getattr(left, "eta", None) == getattr(right, "eta", None)
    for _ in range(3):
        one, other = (flatten(each.sample(16)) for each in (left, right))
        assert set(one) == set(other)
        for path, values in one.items():
            assert same_bits(values, other[path]), path


@pytest.mark.parametrize("num_steps", [14, 50], ids=["part", "wrapped"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_storage_gives_the_same_batches_now_and_later(kind: str, num_steps: int, tmp_path: Path) -> None:
    storage, other = build(kind), build(kind, seed=6)
    fill([storage], 0, 5)
    storage.reset()
    fill([storage], 0, num_steps)
    save_storage(storage, tmp_path)
    load_storage(other, tmp_path)
    assert_alike(storage, other)
    fill([storage, other], num_steps, 9)
    assert_alike(storage, other)


def fill_unevenly(storages: list[Any], first: int, num_steps: int) -> None:
    """Insert the same steps into each, some of them of one env only."""
    steps = make_slice(num_steps, num_envs=NUM_ENVS, first=first, terminated={0: [first + 2]})
    steps[keys.DONE] = np.zeros_like(steps[keys.NEXT_DONE])
    for storage in storages:
        data = with_goals(steps) if isinstance(storage, HERBuffer) else steps
        for position in range(num_steps):
            skip = np.array([[position % 3 == 1], [position % 7 == 2]])
            storage.insert_transition({**one_step(data, position), keys.SKIP: skip})
        batch = storage.sample(12)
        storage.update_priorities(batch, np.linspace(0, 3, len(batch[keys.IDXS])))


@pytest.mark.parametrize("num_steps", [14, 60], ids=["part", "wrapped"])
@pytest.mark.parametrize("kind", KINDS)
def test_lanes_of_different_lengths_come_back(kind: str, num_steps: int, tmp_path: Path) -> None:
    storage, other = build(kind), build(kind, seed=6)
    snapshot = StorageSnapshot(tmp_path)
    fill([storage], 0, 6)
    snapshot.save(storage)
    fill_unevenly([storage], 6, num_steps)
    snapshot.save(storage)
    load_storage(other, tmp_path)
    assert_alike(storage, other)
    fill_unevenly([storage, other], 6 + num_steps, 9)
    assert_alike(storage, other)


def test_priorities_are_those_that_were_learned(tmp_path: Path) -> None:
    storage = build("per", alpha=1.0, epsilon=0.0)
    fill([storage], 0, 10)
    batch = storage.sample(20)
    storage.update_priorities(batch, np.arange(1.0, 21.0))
    save_storage(storage, tmp_path)
    other = build("per", alpha=1.0, epsilon=0.0)
    load_storage(other, tmp_path)
    assert other.tree.total == storage.tree.total


def test_parameters_stay_those_of_the_storage_that_reads(tmp_path: Path) -> None:
    storage = build("per")
    fill([storage], 0, 20)
    save_storage(storage, tmp_path)
    other = build("per", alpha=0.3, n_step=2)
    load_storage(other, tmp_path)
    expected = build("per")
    load_storage(expected, tmp_path)
    expected.update_storage_parameter("alpha", 0.3)
    expected.update_storage_parameter("n_step", 2)
    assert_alike(expected, other)


@pytest.mark.parametrize("num_returns", [0, 3])
def test_eta_continues_from_the_value_of_the_storage_that_reads(num_returns: int, tmp_path: Path) -> None:
    storage, expected = build("ere", eta=0.99), build("ere", eta=0.5)
    for each in (storage, expected):
        each.insert_data_slice(make_slice(9, num_envs=NUM_ENVS))
        for value in [0.0, 2.0, 3.0][:num_returns]:
            each.update_eta({keys.EPISODES: {keys.TRAIN_REWARD: value}})
    save_storage(storage, tmp_path)
    other = build("ere", eta=0.5)
    load_storage(other, tmp_path)
    assert other.eta == expected.eta != storage.eta
    for each in (other, expected):
        each.update_eta({keys.EPISODES: {keys.TRAIN_REWARD: [7.0, 8.0]}})
    assert other.eta == expected.eta


def test_what_is_written_again_refers_to_what_is_there(tmp_path: Path) -> None:
    storage, snapshot = build("per", size=300_000), StorageSnapshot(tmp_path)
    assert not snapshot.exists()
    fill([storage], 0, 5)
    storage.insert_data_slice(make_done(make_slice(200_000, num_envs=NUM_ENVS, first=5)))
    snapshot.save(storage)
    assert snapshot.exists()
    before = {path.name for path in tmp_path.iterdir()}
    fill([storage], 200_005, 5)
    snapshot.save(storage)
    kept = before & {path.name for path in tmp_path.iterdir()} - {"manifest.json"}
    assert kept
    other = build("per", size=300_000)
    load_storage(other, tmp_path)
    assert_alike(storage, other)


def make_done(steps: dict[str, Any]) -> dict[str, Any]:
    return steps | {keys.DONE: np.zeros_like(steps[keys.NEXT_DONE])}


def test_an_empty_storage_is_not_written(tmp_path: Path) -> None:
    save_storage(build("per"), tmp_path / "storage")
    assert not StorageSnapshot(tmp_path / "storage").exists()
    with pytest.raises(StorageError, match="no snapshot"):
        load_storage(build("per"), tmp_path / "storage")


@pytest.mark.parametrize(("written", "reads"), [("nstep", "per"), ("per", "ere")])
@pytest.mark.parametrize("form", ["snapshot", "journal"])
def test_another_kind_of_storage_is_refused_and_stays_as_it_was(
    written: str, reads: str, form: str, tmp_path: Path
) -> None:
    storage, other, twin = build(written), build(reads), build(reads)
    fill([storage], 0, 10)
    fill([other, twin], 20, 5)
    StorageJournal(tmp_path / "journal").note(storage, {})
    save_storage(storage, tmp_path / "snapshot")
    load = StorageJournal(tmp_path / form).load if form == "journal" else StorageSnapshot(tmp_path / form).load
    for reader in (other, empty := build(reads)):
        with pytest.raises(StorageError, match=f"another kind of storage than {type(reader).__name__}"):
            load(reader)
    assert len(empty) == 0
    assert_alike(other, twin)
    fill([other, twin], 25, 5)
    assert_alike(other, twin)


class _Counting(PERBuffer):
    """A buffer that someone adds: it has one number, and a number for each slot, of its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.count, self.marks = 0, np.empty(0)

    def state(self) -> Extras:
        return super().state() | Extras({"count": self.count}, {"marks": self.marks})

    def load_state(self, extras: Extras) -> None:
        super().load_state(extras)
        self.count, self.marks = extras.state["count"], extras.slot_arrays["marks"]


@pytest.mark.parametrize("kind", ["snapshot", "journal"])
def test_a_new_buffer_adds_its_own_state(kind: str, tmp_path: Path) -> None:
    storage, other = (_Counting.standalone(30, num_envs=NUM_ENVS, seed=seed, **PRIORITISED) for seed in (1, 2))
    fill([storage], 0, 14)
    storage.count, storage.marks = 7, np.arange(storage.store.ring.num_lanes * storage.store.ring.num_slots)
    if kind == "snapshot":
        save_storage(storage, tmp_path)
        load_storage(other, tmp_path)
    else:
        StorageJournal(tmp_path).note(storage, {"stage": 3})
        assert StorageJournal(tmp_path).load(other) == {"stage": 3}
    stored = storage.store.starts.slots(storage.store.ring)
    assert other.count == 7
    assert (other.marks[stored] == storage.marks[stored]).all()
    assert_alike(storage, other)


def test_after_a_cut_windows_do_not_reach_into_what_comes_later() -> None:
    storages = [build("nstep"), build("nstep")]
    for storage in storages:
        for position in range(4):
            storage.insert_transition(one_step(make_slice(4, num_envs=NUM_ENVS), position))
    cut_streams(storages[1])
    rewards = []
    for storage in storages:
        storage.insert_transition(one_step(make_slice(1, num_envs=NUM_ENVS, first=4), 0))
        batch = storage.sample(200)
        rewards.append(float(batch[keys.REWARD][row_of(batch, 3)]))
    assert rewards[0] == pytest.approx(3 + 0.9 * 4)
    assert rewards[1] == pytest.approx(3)


def test_cutting_an_empty_storage_does_nothing() -> None:
    storage = build("replay")
    cut_streams(storage)
    assert len(storage) == 0
