"""Schemes that make no sense are refused with a sentence that says which to use."""

from typing import Any

import pytest

from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.storages import STORAGES
from recollect.errors import ConfigError
from recollect.scheme.config import SchemeConfig
from recollect.scheme.stages import check_compatibility

REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("ppo", "gae", {"num_col_workers": 2, "col_mode": "async"}, "use the storage 'vtrace'"),
    ("ppo", "gae", {"replay_ratio": 1.0}, "leave replay_ratio out"),
    ("ddqn", "replay", {"num_grad_workers": 4, "grad_mode": "async", "max_policy_lag": 2}, "use at least 3"),
]
REFUSED_ALWAYS: list[tuple[dict[str, Any], str]] = [
    ({"col_mode": "async"}, "use num_col_workers"),
    ({"grad_mode": "async"}, "use num_grad_workers"),
    ({"update_mode": "decentralised"}, "at least 2 gradient workers, got 0"),
    ({"update_mode": "decentralised", "num_grad_workers": 1}, "use update_mode 'central'"),
    ({"update_mode": "decentralised", "num_grad_workers": 2, "grad_mode": "async"}, "use grad_mode 'sync'"),
    ({"num_col_worker": 2}, "did you mean 'num_col_workers'"),
]
ACCEPTED: list[tuple[str, str, dict[str, Any]]] = [
    ("ppo", "vtrace", {"num_col_workers": 2, "col_mode": "async"}),
    ("ppo", "gae", {"num_col_workers": 2, "num_grad_workers": 2, "update_mode": "decentralised"}),
    ("ddqn", "replay", {"num_grad_workers": 4, "grad_mode": "async", "max_policy_lag": 3}),
    ("ddqn", "per", {"num_col_workers": 2, "col_mode": "async", "replay_ratio": 0.5}),
]


def check(algo: str, storage: str, options: dict[str, Any], **storage_options: Any) -> None:
    factory = STORAGES[storage].create_factory(100, **storage_options)  # type: ignore[call-arg]
    check_compatibility(SchemeConfig.of("a scheme", options), ALGORITHMS.find(algo).create_factory(), factory)


@pytest.mark.parametrize(("algo", "storage", "options", "advice"), REFUSED)
def test_what_an_algorithm_cannot_learn_in_is_refused(
    algo: str, storage: str, options: dict[str, Any], advice: str
) -> None:
    with pytest.raises(ConfigError, match=advice):
        check(algo, storage, options)


@pytest.mark.parametrize(("options", "advice"), REFUSED_ALWAYS)
def test_what_makes_no_sense_for_any_algorithm_is_refused(options: dict[str, Any], advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        SchemeConfig.of("a scheme", options)


@pytest.mark.parametrize(("algo", "storage", "options"), ACCEPTED)
def test_all_else_is_accepted(algo: str, storage: str, options: dict[str, Any]) -> None:
    check(algo, storage, options)


def test_gradient_workers_do_not_share_a_file() -> None:
    with pytest.raises(ConfigError, match="cannot share one file"):
        check("ddqn", "replay", {"num_grad_workers": 2}, backing="file", path="replay")
