"""Workers ask for what they were given, or for an equal share of what the cluster has."""

from typing import Any

import pytest

from recollect.scheme.base.resources import Demand, default_resources, phrase, share

GIB = 1024**3
LARGE = {"CPU": 16.0, "GPU": 2.0, "memory": 100.0 * GIB, "object_store_memory": 40.0 * GIB}
SMALL = {"CPU": 2.0, "memory": 8.0 * GIB, "object_store_memory": 2.0 * GIB}
DOCUMENTED = {"num_cpus": 1, "num_gpus": 0.2, "memory": 5368709120, "object_store_memory": 2147483648}


def test_the_default_is_the_documented_one_where_there_is_enough() -> None:
    assert default_resources() == DOCUMENTED
    assert share(10, (), [LARGE]) == DOCUMENTED


def test_the_default_is_nobody_elses_dict() -> None:
    default_resources()["num_cpus"] = 99
    assert default_resources()["num_cpus"] == 1


def test_a_small_machine_is_shared() -> None:
    found = share(8, (), [SMALL])
    assert found == {"num_cpus": 0.25, "num_gpus": 0, "memory": GIB, "object_store_memory": GIB // 4}


def test_shares_fit_onto_nodes_whole() -> None:
    # Three workers of 2/3 would fit two single cores together, but not one by one.
    assert share(3, (), [SMALL | {"CPU": 1.0}, SMALL | {"CPU": 1.0}])["num_cpus"] == 0.5


@pytest.mark.parametrize(
    ("beside", "cores", "gpus"),
    [
        (Demand(4, None), 1, 0.2),
        (Demand(28, None), 0.5, 0.0625),
        (Demand(2, {"num_gpus": 1}), 1, 0),
        (Demand(4, {"num_cpus": 3.5}), 0.5, 0.2),
        (Demand(0, {"num_cpus": 16}), 1, 0.2),
    ],
)
def test_other_workers_of_the_training_get_theirs(beside: Demand, cores: float, gpus: float) -> None:
    found = share(4, (beside,), [LARGE])
    assert (found["num_cpus"], found["num_gpus"]) == (cores, gpus)


def test_who_says_what_it_needs_is_placed_where_most_is_left() -> None:
    nodes = [SMALL, SMALL | {"CPU": 4.0}]
    assert share(2, (Demand(1, {"num_cpus": 3}),), nodes)["num_cpus"] == 1
    assert share(4, (Demand(1, {"num_cpus": 3}),), nodes)["num_cpus"] == 0.6666


def test_nothing_is_asked_for_where_nothing_is_left() -> None:
    assert share(2, (Demand(2, {"num_cpus": 1}),), [{"CPU": 2.0}]) == dict.fromkeys(DOCUMENTED, 0)


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ({"num_cpus": 0.5, "num_gpus": 0, "memory": 2 * GIB}, "num_cpus 0.5, memory 2 GiB"),
        ({"CPU": 8.0, "node:10.0.0.1": 1.0, "node:__internal_head__": 1.0}, "CPU 8"),
        ({"label_selector": {"pool": "collect"}}, "label_selector {'pool': 'collect'}"),
        ({}, "nothing"),
    ],
)
def test_resources_as_people_write_them(amounts: dict[str, Any], expected: str) -> None:
    assert phrase(amounts) == expected
