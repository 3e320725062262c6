"""Statuses of several workers are put together without counting anything twice."""

from dataclasses import replace
from typing import Any

from recollect.scheme.gradients.status import GradientStatus, add_incarnations, merge


def make_status(returns: list[float], num_steps: int, num_stored: int = 5) -> GradientStatus:
    collection: dict[str, Any] = {
        "num_steps": num_steps,
        "num_steps_lost": 1,
        "iter": 2,
        "actor_version": 3,
        "episodes": {
            "num_episodes": len(returns) + 100,
            "recent": [[0, total_reward, 10, None] for total_reward in returns],
            "new": [],
        },
    }
    return GradientStatus(collection, num_stored, 50, 7, 1, (num_steps,))


def test_numbers_are_added() -> None:
    merged = merge([make_status([1.0], 10), make_status([3.0, 5.0], 30, 6)])
    assert (merged.num_steps, merged.num_stored, merged.capacity, merged.num_bytes) == (40, 11, 100, 14)
    assert merged.num_env_failures == 2
    assert merged.reports == (10, 30)
    assert merged.collection["num_steps_lost"] == 2


def test_recent_episodes_are_those_of_all_workers() -> None:
    merged = merge([make_status([float(n) for n in range(20)], 10), make_status([100.0] * 20, 30)])
    assert merged.episodes.num_episodes == 240
    # The newest ten of each.
    assert merged.episodes.mean_return == (sum(range(10, 20)) + 1000) / 20


def test_one_status_stays_as_it_is() -> None:
    status = make_status([1.0, 2.0], 10)
    assert merge([status]) == status


def test_failures_of_a_workers_earlier_lives_count() -> None:
    status, earlier = replace(make_status([1.0], 10), reports=()), make_status([2.0], 20)
    found = add_incarnations(status, [earlier, earlier])
    assert (found.num_env_failures, found.num_steps) == (3, 10)
