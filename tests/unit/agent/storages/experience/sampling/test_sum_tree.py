"""The sum tree, seen through a prioritised buffer: sums, draws and windows with numbers by hand."""

import math

import numpy as np
import pytest

from recollect import keys
from recollect.agent.storages import PERBuffer
from recollect.agent.storages.experience.kernels.ring_layout import ID_MASK, ID_SHIFT
from recollect.agent.storages.experience.store.ring.ring_access import NO_FLOORS
from tests.samples import make_slice, with_done

SIZES = [1, 7, 8, 9, 63, 64, 65, 100, 1000]


def make_memory(
    size: int, num_envs: int = 1, *, alpha: float = 1.0, epsilon: float = 0.0, default_error: float = 1.0
) -> PERBuffer:
    return PERBuffer.standalone(
        size, num_envs=num_envs, seed=1, alpha=alpha, epsilon=epsilon, default_error=default_error
    )


def all_ids(memory: PERBuffer) -> np.ndarray:
    """Ids of all stored steps, lane by lane."""
    newest = int(memory.store.ring.heads[0])
    numbers = np.arange(newest - memory.size, newest)
    return np.concatenate([lane << ID_SHIFT | numbers for lane in range(memory.num_envs)])


def set_errors(memory: PERBuffer, errors: np.ndarray, ids: np.ndarray | None = None) -> None:
    memory.update_priorities({keys.IDXS: all_ids(memory) if ids is None else ids}, errors)


def draw_evenly(memory: PERBuffer, count: int, floors: np.ndarray = NO_FLOORS) -> tuple[np.ndarray, np.ndarray]:
    """Draw at the middle of each of `count` equal shares of all priorities: numbers of steps and weights."""
    drawn = memory.tree.draw(np.full(count, 0.5), 1.0, floors)
    assert drawn is not None
    return drawn[0], drawn[1].ravel()


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("size", SIZES)
def test_the_total_is_exact_for_whole_numbers(size: int, num_envs: int) -> None:
    memory = make_memory(size, num_envs)
    memory.insert_data_slice(make_slice(size, num_envs=num_envs))
    assert memory.tree.total == size * num_envs
    errors = np.random.default_rng(size).permutation(size * num_envs) + 5.0
    set_errors(memory, errors)
    assert memory.tree.total == errors.sum()


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("size", SIZES)
def test_the_total_follows_single_updates_and_overwriting(size: int, num_envs: int) -> None:
    rng = np.random.default_rng(size)
    memory = make_memory(size, num_envs, alpha=0.7, epsilon=0.01, default_error=3.0)
    model: dict[int, float] = {}
    for first in range(0, 3 * size, max(1, size // 3)):
        memory.insert_data_slice(make_slice(max(1, size // 3), num_envs=num_envs, first=first))
        ids = all_ids(memory)
        model = {step: model.get(step, 3.0) for step in ids.tolist()}
        chosen = np.unique(rng.choice(ids, size=min(len(ids), 5)))
        errors = rng.exponential(size=len(chosen)).astype(np.float32)
        set_errors(memory, errors, chosen)
        model |= dict(zip(chosen.tolist(), errors.tolist(), strict=True))
        priorities = [(error + 0.01) ** 0.7 for error in model.values()]
        assert memory.tree.total == pytest.approx(math.fsum(priorities), rel=1e-12)


def test_draws_take_each_steps_share() -> None:
    memory = make_memory(4)
    memory.insert_data_slice(make_slice(4))
    set_errors(memory, np.array([1.0, 2.0, 3.0, 4.0]))
    ids, weights = draw_evenly(memory, 10)
    assert ids.tolist() == [0, 1, 1, 2, 2, 2, 3, 3, 3, 3]
    assert weights == pytest.approx(1 / np.array([1, 2, 2, 3, 3, 3, 4, 4, 4, 4]))


@pytest.mark.parametrize("num_envs", [1, 2])
@pytest.mark.parametrize("size", SIZES)
def test_even_draws_from_whole_numbers_count_exactly(size: int, num_envs: int) -> None:
    memory = make_memory(size, num_envs)
    memory.insert_data_slice(make_slice(size + 3, num_envs=num_envs))
    errors = np.random.default_rng(size).integers(0, 4, size * num_envs).astype(np.float64)
    errors[-1] = 2
    set_errors(memory, errors)
    ids, _ = draw_evenly(memory, int(errors.sum()))
    expected = np.repeat(all_ids(memory), errors.astype(np.int64))
    assert np.array_equal(np.sort(ids), np.sort(expected))


@pytest.mark.parametrize("size", SIZES)
def test_draws_inside_ranges_count_exactly_for_every_floor(size: int) -> None:
    memory = make_memory(size, num_envs=2)
    memory.insert_data_slice(make_slice(size + size // 2, num_envs=2))
    rng = np.random.default_rng(size)
    ids = all_ids(memory)
    errors = rng.integers(0, 4, 2 * size).astype(np.float64)
    errors[[size - 1, 2 * size - 1]] = 1, 3
    set_errors(memory, errors)
    first, head = size // 2, size + size // 2
    for _ in range(20):
        floors = rng.integers(first, head, 2)
        inside = (ids & ID_MASK) >= floors[ids >> ID_SHIFT]
        drawn, weights = draw_evenly(memory, int(errors[inside].sum()), floors)
        expected = np.repeat(ids[inside], errors[inside].astype(np.int64))
        assert np.array_equal(np.sort(drawn), np.sort(expected))
        errors_of = dict(zip(ids.tolist(), errors, strict=True))
        smallest = errors[inside & (errors > 0)].min()
        assert weights == pytest.approx([smallest / errors_of[step] for step in drawn.tolist()])


def test_zero_is_never_drawn() -> None:
    memory = make_memory(9)
    memory.insert_data_slice(make_slice(9))
    set_errors(memory, np.array([0.0, 0, 5, 0, 0, 0, 0, 0, 3]))
    assert memory.tree.total == 8
    ids, weights = draw_evenly(memory, 8)
    assert ids.tolist() == [2] * 5 + [8] * 3
    assert weights == pytest.approx([0.6] * 5 + [1.0] * 3)
    assert draw_evenly(memory, 2, np.array([7]))[0].tolist() == [8, 8]


def test_where_all_is_zero_the_tree_has_nothing_to_draw_and_the_buffer_draws_evenly() -> None:
    memory = make_memory(9)
    memory.insert_data_slice(make_slice(9))
    set_errors(memory, np.zeros(9))
    assert memory.tree.total == 0
    assert memory.tree.draw(np.full(4, 0.5), 1.0, NO_FLOORS) is None
    assert memory.tree.draw(np.full(4, 0.5), 1.0, np.array([4])) is None
    batch = memory.sample(200)
    assert set(batch[keys.IDXS].tolist()) == set(range(9))
    assert (batch[keys.PER_WEIGHTS] == 1).all()


@pytest.mark.parametrize("position", [0, 7, 8, 63, 64, 99])
def test_tiny_next_to_huge_priorities(position: int) -> None:
    memory = make_memory(100)
    memory.insert_data_slice(make_slice(100))
    errors = np.full(100, 1e-12)
    errors[position] = 1e6
    set_errors(memory, errors)
    tiny = float(np.float32(1e-12))
    assert memory.tree.total == pytest.approx(1e6)
    for uniform in (0.0, 0.5, np.nextafter(1.0, 0.0)):
        drawn = memory.tree.draw(np.full(64, uniform), 1.0, NO_FLOORS)
        assert drawn is not None
        inner = drawn[0][1:-1]
        assert set(inner.tolist()) == {position}
        # Weights do not vanish because something else in the store is tiny.
        assert drawn[1].max() == 1.0
        assert set(drawn[0].tolist()) <= set(range(100))
    # The huge one leaves no trace behind.
    set_errors(memory, np.array([1e-12]), np.array([position]))
    assert memory.tree.total == pytest.approx(100 * tiny, rel=1e-12)


@pytest.mark.parametrize("uniform", [0.0, np.nextafter(1.0, 0.0)])
@pytest.mark.parametrize("floors", [NO_FLOORS, np.array([3, 5])])
def test_the_edges_of_a_share_belong_to_positive_steps(uniform: float, floors: np.ndarray) -> None:
    memory = make_memory(10, num_envs=2)
    memory.insert_data_slice(make_slice(10, num_envs=2))
    errors = np.tile([0.0, 0.1, 0.3, 0.0, 0.7, 0.1, 0.0, 0.2, 0.0, 0.0], 2)
    set_errors(memory, errors)
    for count in range(1, 60):
        drawn = memory.tree.draw(np.full(count, uniform), 1.0, floors)
        assert drawn is not None
        numbers, lanes = drawn[0] & ID_MASK, drawn[0] >> ID_SHIFT
        assert (errors[numbers] > 0).all()
        assert (numbers >= (floors if len(floors) else np.zeros(2))[lanes]).all()


def test_the_largest_of_duplicates_wins_and_stale_steps_are_counted() -> None:
    memory = make_memory(4)
    memory.insert_data_slice(make_slice(6))
    info = {keys.ALGORITHM: {keys.ERRORS: np.array([4.0, 9.0, 2.0, 8.0, 8.0])}}
    ids = np.array([3, 3, 3, 1, 6])
    memory.after_gradients({keys.IDXS: ids}, info)
    assert memory.tree.total == 9 + 3
    assert info[keys.STORAGE] == {"stale_priorities": 2}
    assert memory.num_stale == 2


def test_another_alpha_or_epsilon_is_computed_from_the_errors_kept() -> None:
    memory = make_memory(5)
    memory.insert_data_slice(make_slice(3))
    set_errors(memory, np.array([3.0, 8.0, 15.0]))
    memory.update_storage_parameter("epsilon", 1.0)
    assert memory.tree.total == 4 + 9 + 16
    memory.update_storage_parameter("alpha", 0.5)
    assert memory.tree.total == 2 + 3 + 4
    memory.update_storage_parameter("alpha", 0.0)
    assert memory.tree.is_flat
    memory.update_storage_parameter("alpha", 2.0)
    assert memory.tree.total == 16 + 81 + 256


@pytest.mark.parametrize("new_size", [3, 7, 64, 200])
def test_priorities_move_with_their_steps_when_the_store_is_resized(new_size: int) -> None:
    memory = make_memory(9, num_envs=2)
    memory.insert_data_slice(make_slice(13, num_envs=2))
    errors = np.arange(1.0, 19.0)
    set_errors(memory, errors)
    memory.update_storage_parameter("max_size", new_size)
    kept = np.concatenate([errors[:9][-new_size:], errors[9:][-new_size:]])
    assert memory.tree.total == kept.sum()
    ids, _ = draw_evenly(memory, int(kept.sum()))
    assert np.array_equal(np.sort(ids), np.sort(np.repeat(all_ids(memory), kept.astype(np.int64))))


def test_only_starts_of_sequences_have_priorities() -> None:
    memory = PERBuffer.standalone(20, alpha=1.0, default_error=2.0, sequence_length=4, sequence_overlap=1)
    memory.insert_data_slice(with_done(make_slice(9)))
    assert memory.tree.total == 2 * 2  # starts 0 and 3; 6 lacks a step
    memory.insert_data_slice(with_done(make_slice(1, first=9)))
    assert memory.tree.total == 3 * 2
    memory.insert_data_slice(with_done(make_slice(14, first=10)))
    assert memory.tree.total == 5 * 2  # 4 to 23 are stored: 6, 9, 12, 15, 18


def test_reset_takes_all_priorities_away() -> None:
    memory = make_memory(9)
    memory.insert_data_slice(make_slice(9))
    memory.reset()
    assert memory.tree.total == 0
    memory.insert_data_slice(make_slice(2, first=9))
    assert memory.tree.total == 2
    assert set(draw_evenly(memory, 8)[0].tolist()) == {9, 10}


@pytest.mark.parametrize("epsilon", [0.0, 3e38])
def test_the_total_of_the_largest_priorities_is_finite(epsilon: float) -> None:
    memory = make_memory(1000, 2, alpha=0.6, epsilon=epsilon, default_error=1e6)
    memory.insert_data_slice(make_slice(1000, num_envs=2))
    memory.update_storage_parameter("alpha", 100.0)
    assert np.isfinite(memory.tree.total)
    batch = memory.sample(500)
    assert len(np.unique(batch[keys.IDXS])) > 300
    assert (batch[keys.PER_WEIGHTS] == 1).all()
