"""How far back recent experience reaches, and how eta follows learning, with numbers by hand."""

from typing import Any

import numpy as np
import pytest

from recollect import keys
from recollect.agent.storages import EREBuffer
from recollect.agent.storages.experience.kernels.ring_layout import ID_MASK, ID_SHIFT
from recollect.agent.storages.experience.sampling.recent_window import LearningPace, RecentWindow
from recollect.errors import StorageError
from tests.samples import make_slice, numbers_of, with_done


def make_memory(size: int, **options: Any) -> EREBuffer:
    return EREBuffer.standalone(size, seed=1, **options)


def reward_info(returns: Any) -> dict[str, Any]:
    return {keys.EPISODES: {keys.TRAIN_REWARD: returns}}


@pytest.mark.parametrize(
    ("eta", "cmin", "num_steps", "progress", "expected"),
    [
        (1.0, 10, 1000, 1.0, 1000),
        (0.999, 10, 10_000, 0.5, 6063.7899),  # 10,000 * 0.999 ** 500
        (0.999, 10, 10_000, 1.0, 3676.9543),  # 10,000 * 0.999 ** 1000
        (0.999, 5000, 10_000, 1.0, 5000),
        (0.5, 1, 1024, 0.003, 128),  # 1,024 * 0.5 ** 3
        (0.5, 200, 1024, 0.003, 200),
        (0.5, 5000, 1024, 0.003, 1024),  # never more than there are
    ],
)
def test_reach_is_the_papers_formula_between_cmin_and_all(
    eta: float, cmin: int, num_steps: int, progress: float, expected: float
) -> None:
    assert RecentWindow(eta, cmin).reach(num_steps, progress) == pytest.approx(expected, rel=1e-6)


def test_a_call_for_several_batches_has_its_own_k() -> None:
    window = RecentWindow(0.9, 1)
    assert [window.progress(k, 4, 0) for k in (1, 2, 3, 4)] == [0.25, 0.5, 0.75, 1.0]


def test_calls_for_one_batch_count_since_the_last_end_and_expect_the_span_before() -> None:
    window = RecentWindow(0.9, 1)
    first_span = [window.progress(1, 1, 0) for _ in range(4)]
    assert first_span == [0.001, 0.002, 0.003, 0.004]
    assert [window.progress(1, 1, 1) for _ in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    # A span without a draw does not count: ends 2 and 3 lie between two draws.
    assert [window.progress(1, 1, 3) for _ in range(2)] == [1 / 6, 2 / 6]
    # A call for several batches neither counts nor ends a span.
    assert window.progress(1, 2, 4) == 0.5
    assert window.progress(1, 1, 4) == 0.5


def test_the_window_continues_from_its_state() -> None:
    window, other = RecentWindow(0.9, 1), RecentWindow(0.9, 1)
    for _ in range(3):
        window.progress(1, 1, 0)
    window.progress(1, 1, 1)
    window.adapt(0.5)
    other.load_state(window.state(), ratio=None)
    assert other.eta == window.eta != other.initial_eta
    assert [other.progress(1, 1, 1) for _ in range(2)] == [window.progress(1, 1, 1) for _ in range(2)]


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_batches_of_one_call_reach_less_and_less_far_back(alpha: float) -> None:
    memory = make_memory(1024, alpha=alpha, eta=0.5**0.004, cmin=3)
    memory.insert_data_slice(make_slice(1500))
    # eta ** (1000 k / K) is 0.5 ** k for K = 4.
    for k, batch in enumerate(memory.generate_batches(2, 3000, num_epochs=2), start=1):
        reach = 1024 // 2**k
        assert set(batch[keys.CK].ravel().tolist()) == {reach}
        assert numbers_of(batch).min() >= 1500 - reach
        assert len(numbers_of(batch).unique()) > 0.7 * reach


def test_lanes_share_the_window_in_proportion_to_their_sizes() -> None:
    memory = make_memory(100, eta=0.5, cmin=11)
    memory.insert_data_slice(make_slice(40), source="much")
    memory.insert_data_slice(make_slice(10), source="little")
    # Of 11 newest steps, 11 * 40 / 50 and 11 * 10 / 50 rounded up: 9 and 3.
    *_, batch = memory.generate_batches(2, 500)
    ids = batch[keys.IDXS].numpy()
    assert set(batch[keys.CK].ravel().tolist()) == {12}
    assert set((ids[ids >> ID_SHIFT == 0] & ID_MASK).tolist()) == set(range(31, 40))
    assert set((ids[ids >> ID_SHIFT == 1] & ID_MASK).tolist()) == {7, 8, 9}


def test_priorities_and_weights_count_inside_the_window_only() -> None:
    memory = make_memory(10, alpha=1.0, eta=0.5, cmin=3, default_error=1.0)
    memory.insert_data_slice(make_slice(10))
    errors = np.array([0.001, 5, 5, 5, 5, 5, 5, 2, 4, 6])
    memory.update_priorities({keys.IDXS: np.arange(10)}, errors)
    *_, batch = memory.generate_batches(2, 1200)
    numbers = numbers_of(batch)
    counts = np.bincount(numbers, minlength=10)
    assert counts == pytest.approx([0] * 7 + [200, 400, 600], abs=1)
    weights = {int(number): float(w) for number, w in zip(numbers, batch[keys.PER_WEIGHTS], strict=True)}
    assert weights == {7: 1.0, 8: pytest.approx(0.5), 9: pytest.approx(1 / 3)}


def test_a_window_of_sequences_holds_at_least_the_newest_complete_one() -> None:
    memory = make_memory(40, eta=0.5, cmin=1, sequence_length=4)
    memory.insert_data_slice(with_done(make_slice(31)))
    *_, batch = memory.generate_batches(2, 40)
    # Starts are 0, 4, …, 24; the one at 28 lacks a step.
    assert set(batch[keys.IDXS].tolist()) == {24}


def test_an_empty_store_does_not_count_draws() -> None:
    memory = make_memory(10, eta=0.5, cmin=1)
    memory.insert_data_slice(make_slice(3))
    memory.reset()
    before = memory.state().state
    with pytest.raises(StorageError):
        memory.sample(4)
    assert memory.state().state == before


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        ([], None),
        ([5.0], None),
        ([0.0, 10.0], 1.0),  # slope 10 is the fastest so far
        ([0.0, 10.0, 10.0], 0.5),  # slope (10 - 0) / 2
        ([0.0, 10.0, 10.0, 10.0], 1 / 3),
        ([0.0, 10.0, -5.0], 0.0),  # worse than at first
        ([10.0, 5.0, 0.0], 0.0),  # never improved
        ([0.0, 10.0, 40.0], 1.0),  # slope 20 is the new fastest
    ],
)
def test_pace_is_the_slope_over_the_fastest_slope(returns: list[float], expected: float | None) -> None:
    together, singly = LearningPace(), LearningPace()
    together.add(returns)
    for value in returns:
        singly.add(value)
    assert together.ratio() == singly.ratio()
    assert together.ratio() == (expected if expected is None else pytest.approx(expected))


def test_pace_looks_at_the_last_twenty_returns() -> None:
    pace = LearningPace()
    pace.add([0.0, 19.0] + [19.0] * 18)
    assert pace.ratio() == pytest.approx(1 / 19)  # from 0 to 19 in 19 steps; the fastest was 19
    pace.add(19.0)
    assert pace.ratio() == 0.0  # the 0 is forgotten


def test_eta_goes_from_its_first_value_to_one_as_learning_slows() -> None:
    memory = make_memory(10, eta=0.9)
    seen = []
    for value in (0.0, 10.0, 10.0, -5.0, [20.0, 80.0]):
        memory.update_eta(reward_info(value))
        seen.append(memory.eta)
    # After 0, 10, 10, -5, 20, 80 the slope is 16, faster than the 10 before.
    assert seen == pytest.approx([0.9, 0.9, 0.95, 1.0, 0.9])


def test_an_eta_of_one_stays_one() -> None:
    memory = make_memory(10)
    memory.update_eta(reward_info([0.0, 1.0, 5.0]))
    assert memory.eta == 1.0


def test_after_gradients_follows_training_returns_where_they_come() -> None:
    memory = make_memory(10, eta=0.9)
    memory.insert_data_slice(make_slice(3))
    batch = memory.sample(4)
    for value in (0.0, 10.0, 10.0):
        memory.after_gradients(batch, reward_info(value))
    assert memory.eta == pytest.approx(0.95)
    memory.after_gradients(batch, {})
    assert memory.eta == pytest.approx(0.95)
    memory.update_storage_parameter("eta", 0.5)
    assert memory.eta == 0.5
    memory.update_eta(reward_info(10.0))
    assert memory.eta == pytest.approx(0.5 / 3 + 2 / 3)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_returns_that_are_not_finite_say_nothing_of_the_pace(odd: float) -> None:
    memory, other = (make_memory(100, eta=0.9) for _ in range(2))
    for number in (1.0, 2.0, 4.0, 5.0):
        memory.update_eta(reward_info([number, odd]))
        memory.update_eta(reward_info(odd))
        other.update_eta(reward_info(number))
        assert memory.eta == other.eta
    assert memory.eta < 1.0


@pytest.mark.parametrize("name", ["drawn", "span", "num_ends", "eta"])
@pytest.mark.parametrize("value", [None, [1], "1", -1, float("nan"), 10**30])
def test_a_window_is_not_what_a_file_makes_of_it(name: str, value: object) -> None:
    window = RecentWindow(0.9, 1)
    before = window.state()
    with pytest.raises((ValueError, OverflowError)):
        window.load_state({**before, name: value}, ratio=None)
    assert window.state() == before


def test_an_empty_span_is_refused_before_anything_is_divided_by_it() -> None:
    window = RecentWindow(0.9, 1)
    with pytest.raises(ValueError, match="whole number from 1"):
        window.load_state({**window.state(), "span": 0}, ratio=None)
