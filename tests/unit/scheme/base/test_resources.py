"""Workers ask for what they were given, or for what the cluster has; what it can never have is refused."""

from typing import Any

import pytest

from recollect.errors import ConfigError
from recollect.scheme.base.resources import default_resources, resolve

GIB = 1024**3
LARGE = {"CPU": 16.0, "GPU": 2.0, "memory": 100.0 * GIB, "object_store_memory": 40.0 * GIB}
SMALL = {"CPU": 2.0, "memory": 8.0 * GIB, "object_store_memory": 2.0 * GIB}


def total(nodes: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(node.get(name, 0.0) for node in nodes) for name in LARGE}


def resolved(num_workers: int, *nodes: dict[str, float]) -> dict[str, Any]:
    return resolve(None, num_workers, nodes, total(list(nodes)))


def test_the_default_is_the_documented_one_where_there_is_enough() -> None:
    documented = {"num_cpus": 1, "num_gpus": 0.2, "memory": 5368709120, "object_store_memory": 2147483648}
    assert default_resources() == documented
    assert resolved(10, LARGE) == documented


def test_the_default_is_nobody_elses_dict() -> None:
    default_resources()["num_cpus"] = 99
    assert default_resources()["num_cpus"] == 1


def test_a_small_machine_is_shared() -> None:
    found = resolved(8, SMALL)
    assert found == {"num_cpus": 0.25, "num_gpus": 0, "memory": GIB, "object_store_memory": GIB // 4}


def test_shares_fit_onto_nodes_whole() -> None:
    # Three workers of 2/3 would fit two single cores together, but not one by one.
    assert resolved(3, SMALL | {"CPU": 1.0}, SMALL | {"CPU": 1.0})["num_cpus"] == 0.5


def test_only_what_is_free_is_asked_for() -> None:
    found = resolve(None, 2, [LARGE], total([LARGE]) | {"CPU": 1.0, "GPU": 0.0})
    assert (found["num_cpus"], found["num_gpus"]) == (0.5, 0)


def test_what_is_given_is_taken_as_it_is() -> None:
    given = {"num_cpus": 0.5, "resources": {"fast": 1}, "runtime_env": {"pip": []}}
    found = resolve(given, 99, [SMALL, LARGE | {"fast": 4.0}], {})
    assert found == given
    assert found is not given


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"num_cpus": 17}, "CPU 17, but the largest node has 16"),
        ({"num_gpus": 3}, "GPU 3, but the largest node has 2"),
        ({"resources": {"tpu": 1}}, "tpu 1, but the largest node has 0"),
        ({"num_cpus": 10, "resources": {"fast": 1}}, "no single node has together"),
    ],
)
def test_what_no_node_has_is_refused(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        resolve(given, 1, [LARGE, SMALL | {"fast": 1.0}], {})
