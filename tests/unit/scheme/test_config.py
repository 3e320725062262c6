"""Cells of the table of schemes that make no sense are refused with what to use instead."""

from typing import Any

import pytest

from recollect.errors import ConfigError
from recollect.scheme.config import SchemeConfig


def test_by_default_all_is_local() -> None:
    assert not SchemeConfig().is_remote
    assert SchemeConfig(num_col_workers=1).is_remote
    assert SchemeConfig(num_grad_workers=1).is_remote


def test_supervision_is_taken_from_the_options() -> None:
    found = SchemeConfig(worker_timeout_s=5, max_restarts=0, restart_window_s=7).supervision
    assert (found.timeout_s, found.max_restarts, found.window_s) == (5, 0, 7)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"col_mode": "async"}, "num_col_workers, or col_mode 'sync'"),
        ({"grad_mode": "async"}, "num_grad_workers, or grad_mode 'sync'"),
        ({"update_mode": "decentralised", "num_grad_workers": 1}, "at least 2 gradient workers, got 1"),
        ({"update_mode": "decentralised", "num_grad_workers": 2, "grad_mode": "async"}, "use grad_mode 'sync'"),
        ({"col_mode": "fast"}, "'sync', 'async'"),
        ({"fraction_workers": 0.0}, "above 0"),
        ({"fraction_samples": 1.5}, "at most 1"),
        ({"max_policy_lag": 0}, "at least 1"),
        ({"replay_ratio": 0.0}, "above 0"),
        ({"placement": "PACK"}, "'DEFAULT', 'SPREAD'"),
        ({"col_resources": 3}, "must be a dict"),
        ({"num_col_workers": -1}, "at least 0"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        SchemeConfig(**options)


def test_resources_are_copied() -> None:
    given = {"num_cpus": 1}
    config = SchemeConfig(col_resources=given)
    given["num_cpus"] = 2
    assert config.col_resources == {"num_cpus": 1}
