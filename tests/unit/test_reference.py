"""The reference model itself, against numbers worked by hand."""

from typing import Any

import numpy as np
import pytest

from recollect import keys
from tests.reference import LANE_SHIFT, ReferenceStore, Rewriting, Settings, flatten, nest


def slice_of(
    states: list[float], rewards: list[float], ends: dict[int, bool] | None = None, cuts: tuple[int, ...] = ()
) -> dict[str, Any]:
    """One environment walking through `states`; `ends` maps a step to whether it terminated."""
    ends = ends or {}
    obs = np.array(states, np.float32).reshape(-1, 1, 1)
    flags = [
        np.array([[[float(t in chosen)]] for t in range(len(rewards))], np.float32)
        for chosen in (ends, [t for t, terminal in ends.items() if terminal], cuts)
    ]
    return {
        keys.OBS: obs[:-1],
        keys.ACTION: np.zeros((len(rewards), 1, 1), np.float32),
        keys.REWARD: np.array(rewards, np.float32).reshape(-1, 1, 1),
        keys.NEXT_OBS: obs[1:],
        keys.NEXT_DONE: flags[0],
        keys.NEXT_TERMINATED: flags[1],
        keys.CUT: flags[2],
    }


def numbers(store: ReferenceStore, lane: int = 0) -> list[int]:
    return [step.number for step in store.lanes[lane].steps]


def test_window_folds_until_an_end() -> None:
    store = ReferenceStore(Settings(gamma=0.5, n_step=3))
    store.insert(slice_of([0, 1, 2, 3, 4, 5], [1, 2, 4, 8, 16], {2: True}))
    row = store.row(0)
    assert row[keys.REWARD].item() == 1 + 0.5 * 2 + 0.25 * 4
    assert (row[keys.DISCOUNT].item(), row[keys.N_STEP].item()) == (0.0, 3)
    assert row[keys.NEXT_OBS].item() == 3
    row = store.row(1)
    assert (row[keys.REWARD].item(), row[keys.N_STEP].item(), row[keys.NEXT_OBS].item()) == (4.0, 2, 3.0)
    row = store.row(3)
    assert (row[keys.REWARD].item(), row[keys.DISCOUNT].item()) == (16.0, 0.25)
    assert row[keys.NEXT_OBS].item() == 5


@pytest.mark.parametrize("how", ["truncation", "flag", "mismatch", "gap"])
def test_every_kind_of_break_bootstraps_from_its_own_next_observation(how: str) -> None:
    store = ReferenceStore(Settings(gamma=0.5, n_step=3))
    ends = {1: False} if how == "truncation" else None
    first = slice_of([0, 1, 2], [1, 2], ends, (1,) if how == "flag" else ())
    states = [7.0, 8.0, 9.0] if how == "mismatch" else [2.0, 8.0, 9.0]
    store.insert(first)
    store.insert(slice_of(states, [4, 8]), first_step=3 if how == "gap" else None)
    row = store.row(0)
    assert (row[keys.REWARD].item(), row[keys.DISCOUNT].item(), row[keys.NEXT_OBS].item()) == (2.0, 0.25, 2.0)
    assert store.segment(3) == [2, 3]
    assert store.num_mismatches == (how == "mismatch")


def test_capacity_keeps_the_newest_and_sources_share_it() -> None:
    store = ReferenceStore(Settings(max_size=4))
    store.insert(slice_of([0, 1, 2, 3, 4, 5], [1] * 5))
    assert numbers(store) == [1, 2, 3, 4]
    store.insert(slice_of([0, 1], [1]), source="other")
    assert numbers(store) == [3, 4]
    assert store.ids() == [3, 4, 1 << LANE_SHIFT]
    store.release_source(0)
    store.insert(slice_of([5, 6], [1]), source="third")
    assert numbers(store) == [4, 5]
    assert store.lanes[0].steps[0].cut


def test_repeated_steps_are_dropped() -> None:
    store = ReferenceStore(Settings())
    store.insert(slice_of([0, 1, 2], [1, 2]))
    store.insert(slice_of([9, 9, 2, 3], [9, 9, 3]), first_step=0)
    store.insert(slice_of([9, 9], [9]), first_step=0)
    assert [step.row[keys.REWARD].item() for step in store.lanes[0].steps] == [1, 2, 3]
    assert store.num_mismatches == 0


def test_priorities_and_weights() -> None:
    store = ReferenceStore(Settings(prioritised=True, alpha=0.5, beta=1.0, epsilon=0.0, default_error=4.0))
    store.insert(slice_of([0, 1, 2, 3, 4], [1] * 4))
    assert store.set_errors([0, 1, 1, 99], [0.0, 1.0, 16.0, 5.0]) == 1
    candidates = store.candidates(store.next_windows())
    assert list(store.probabilities(candidates).values()) == [0.0, 0.5, 0.25, 0.25]
    assert store.weights([1, 2, 3], candidates) == [0.5, 1.0, 1.0]
    assert store.weights([1], candidates) == [1.0]


def test_recent_window_shrinks_within_a_call_and_across_calls() -> None:
    store = ReferenceStore(Settings(max_size=100, recent=True, eta=0.5 ** (1 / 1000), cmin=1))
    store.insert(slice_of([float(i) for i in range(101)], [1] * 100))
    assert [store.next_windows(k, 2) for k in (1, 2)] == [[71], [50]]
    assert store.next_windows() == [100]
    store.next_windows()
    store.insert(slice_of([100, 101], [1], {0: True}))
    assert [store.next_windows() for _ in range(3)] == [[71], [50], [50]]


def test_recent_windows_are_shared_by_lane_size() -> None:
    store = ReferenceStore(Settings(max_size=20, recent=True, eta=0.5, cmin=6))
    store.insert(slice_of([float(i) for i in range(10)], [1] * 9))
    store.insert(slice_of([0, 1, 2, 3], [1] * 3), source=1)
    assert store.next_windows(1, 2) == [5, 2]
    assert store.candidates([2, 1]) == [7, 8, 1 << LANE_SHIFT | 2]


def test_eta_follows_improvement() -> None:
    store = ReferenceStore(Settings(eta=0.9))
    store.update_eta([0.0, 10.0])
    assert store.eta == pytest.approx(0.9)
    store.update_eta(10.0)
    assert store.eta == pytest.approx(0.9 * 0.5 + 0.5)


def goal_slice() -> dict[str, Any]:
    data = slice_of([0, 1, 2, 3], [-1, -1, -1], {2: True})
    for root in (keys.OBS, keys.NEXT_OBS):
        achieved = data[root]
        data[root] = {"achieved_goal": achieved, "desired_goal": np.full_like(achieved, 3)}
    return data


def reached(achieved: np.ndarray, goal: np.ndarray, info: dict[str, Any]) -> np.ndarray:
    return (achieved == goal).all(axis=1)


def reward(achieved: np.ndarray, goal: np.ndarray, info: dict[str, Any]) -> np.ndarray:
    return reached(achieved, goal, info) - 1.0


def test_hindsight_goals_and_rewards() -> None:
    store = ReferenceStore(Settings(gamma=0.5, n_step=3))
    store.insert(goal_slice())
    assert store.goals(1) == [1, 2]
    row = store.relabelled_row(0, 1, Rewriting(reward, reached))
    assert (row[keys.REWARD].item(), row[keys.DISCOUNT].item(), row[keys.N_STEP].item()) == (-1.0, 0.0, 2)
    assert row["NextObservation/achieved_goal"].item() == row["Observation/desired_goal"].item() == 2
    assert row[keys.NEXT_TERMINATED].item() == row[keys.NEXT_DONE].item() == 1
    row = store.relabelled_row(0, 1, Rewriting(reward))
    assert (row[keys.REWARD].item(), row[keys.N_STEP].item()) == (-1.0 - 0.25, 3)
    row = store.relabelled_row(2, 0, Rewriting(reward, reached))
    assert row[keys.DISCOUNT].item() == 0.5
    assert (row[keys.NEXT_DONE].item(), row[keys.NEXT_TERMINATED].item()) == (1, 0)


def test_sequences_lie_on_a_grid_and_repeat_the_newest_step() -> None:
    store = ReferenceStore(Settings(length=3, overlap=1, n_step=2, max_size=6))
    store.insert(slice_of([float(i) for i in range(9)], [float(i) for i in range(8)]))
    assert store.candidates([6]) == [2, 4]
    assert store.candidates([1]) == [4]
    row = store.sequence_row(4)
    assert row[keys.OBS].ravel().tolist() == [4, 5, 6, 7, 7]
    assert row[keys.MASK].ravel().tolist() == [0, 1, 1, 0, 0]
    store.reset()
    assert (len(store), numbers(store)) == (0, [7])
    store.insert(slice_of([8, 9, 10], [8, 9]))
    assert store.candidates([3]) == [7]


def test_flatten_and_nest_are_inverse() -> None:
    tree = {"a": np.zeros(1), "b": {"c": np.ones(2)}}
    flat = flatten({keys.OBS: tree})
    assert list(flat) == ["Observation/a", "Observation/b/c"]
    assert nest(flat, keys.OBS)["b"]["c"].tolist() == [1, 1]
    assert nest(flat, keys.RHS) is None
