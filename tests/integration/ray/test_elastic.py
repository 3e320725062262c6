"""The same environments give the same run on Ray, bit for bit, however many workers hold them."""

from typing import Any

import pytest

from tests.unit.scheme.test_elastic import check_same, run

NUM_STAGES = 20


@pytest.mark.parametrize(
    ("name", "num_workers"),
    [
        ("ddqn-per", 4),
        ("sac-nstep", 2),
        pytest.param("ddqn-per", 1, marks=pytest.mark.long),
        pytest.param("ddqn-per", 2, marks=pytest.mark.long),
        pytest.param("sac-nstep", 1, marks=pytest.mark.long),
        pytest.param("sac-nstep", 4, marks=pytest.mark.long),
        pytest.param("sac-memory", 4, marks=pytest.mark.long),
        pytest.param("ppo", 1, marks=pytest.mark.long),
        pytest.param("ppo", 2, marks=pytest.mark.long),
        pytest.param("ppo", 4, marks=pytest.mark.long),
    ],
)
def test_the_run_is_that_of_one_process(ray_cluster: Any, name: str, num_workers: int) -> None:
    remote = run(name, num_workers, NUM_STAGES, col_resources={"num_cpus": 0.5})
    alone = run(name, 0, NUM_STAGES)
    assert alone["num_updates"] > 0
    check_same(remote, alone)
