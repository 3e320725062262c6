"""Workers ask for what they were given, or for what the cluster has; what it can never have is refused."""

from typing import Any

import pytest

from recollect.errors import ConfigError
from recollect.scheme.base.labels import labels_as_resources
from recollect.scheme.base.resources import Demand, check_room, default_resources, resolve

GIB = 1024**3
LARGE = {"CPU": 16.0, "GPU": 2.0, "memory": 100.0 * GIB, "object_store_memory": 40.0 * GIB}
SMALL = {"CPU": 2.0, "memory": 8.0 * GIB, "object_store_memory": 2.0 * GIB}


def total(nodes: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(node.get(name, 0.0) for node in nodes) for name in LARGE}


def resolved(num_workers: int, *nodes: dict[str, float]) -> dict[str, Any]:
    return resolve(Demand("CWorker", num_workers, None), nodes, total(list(nodes)))


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
    found = resolve(Demand("CWorker", 2, None), [LARGE], total([LARGE]) | {"CPU": 1.0, "GPU": 0.0})
    assert (found["num_cpus"], found["num_gpus"]) == (0.5, 0)


def test_what_is_given_is_taken_as_it_is() -> None:
    given = {"num_cpus": 0.5, "resources": {"fast": 1}, "runtime_env": {"pip": []}}
    found = resolve(Demand("CWorker", 4, given), [SMALL, LARGE | {"fast": 4.0}], {})
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
        resolve(Demand("CWorker", 1, given), [LARGE, SMALL | {"fast": 1.0}], {})


def test_an_accelerator_that_no_node_has_is_refused() -> None:
    given = {"num_cpus": 1, "accelerator_type": "A100"}
    with pytest.raises(ConfigError, match=r"accelerator_type:A100 0\.001, but the largest node has 0"):
        resolve(Demand("CWorker", 1, given), [LARGE], {})
    check_room([Demand("CWorker", 1, given)], [LARGE | {"accelerator_type:A100": 1.0}])


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"pool": "collect"}, None),
        ({"pool": "in(collect, act)"}, None),
        ({"pool": "!learn", "zone": "!in(a, b)"}, None),
        ({"pool": "act"}, "a node with the label pool act, but no node has it"),
        ({"pool": "in(act, learn)"}, "no node has it"),
        ({"pool": "collect", "zone": "a"}, "a node with the label zone a"),
    ],
)
def test_nodes_are_selected_by_their_labels(selector: dict[str, str], expected: str | None) -> None:
    nodes = [LARGE, SMALL | labels_as_resources({"pool": "collect"})]
    demand = Demand("CWorker", 2, CORE | {"label_selector": selector})
    if expected is None:
        check_room([demand], nodes)
        return
    with pytest.raises(ConfigError, match=expected):
        check_room([demand], nodes)


def test_workers_that_select_nodes_have_only_those() -> None:
    nodes = [LARGE, SMALL | labels_as_resources({"pool": "collect"})]
    chosen = CORE | {"label_selector": {"pool": "collect"}}
    with pytest.raises(ConfigError, match=r"3 CWorkers ask for CPU 1, label pool collect each, but.* room for 2"):
        check_room([Demand("CWorker", 3, chosen)], nodes)
    with pytest.raises(ConfigError, match="no single node has together"):
        check_room([Demand("CWorker", 1, chosen | {"num_cpus": 3})], nodes)
    check_room([Demand("CWorker", 2, chosen), Demand("GWorker", 16, CORE)], nodes)


@pytest.mark.parametrize(
    "given",
    [
        {"num_cpus": "1"},
        {"num_cpus": -1},
        {"num_gpus": float("nan")},
        {"num_gpus": True},
        {"memory": "1GB"},
        {"resources": 5},
        {"resources": {"fast": "1"}},
        {"label_selector": "pool"},
    ],
)
def test_amounts_that_are_none_are_refused(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(ConfigError, match=f"{'fast' if given[name] == {'fast': '1'} else name} "):
        check_room([Demand("CWorker", 1, given)], [LARGE])


CORE = {"num_cpus": 1}
GRAD = {"num_cpus": 2, "num_gpus": 1}


@pytest.mark.parametrize(
    ("kinds", "nodes", "expected"),
    [
        (
            [Demand("CWorker", 3, CORE)],
            [SMALL],
            "3 CWorkers ask for CPU 1 each, but the cluster has room for 2; "
            "use at most 2, ask for at most CPU 0.6666 each",
        ),
        (
            [Demand("CWorker", 3, {"num_cpus": 1.5})],
            [SMALL, SMALL],
            "room for 2; use at most 2, ask for at most CPU 1 ",
        ),
        ([Demand("CWorker", 5, {"resources": {"fast": 1}})], [LARGE | {"fast": 4.0}], "room for 4"),
        ([Demand("GWorker", 1, GRAD), Demand("CWorker", 15, CORE)], [LARGE], "room for 14 beside 1 GWorkers"),
        ([Demand("GWorker", 2, {"num_cpus": 1}), Demand("CWorker", 1, {"num_cpus": 2})], [SMALL], "room for 0 beside"),
        ([Demand("CWorker", 1, None), Demand("GWorker", 3, CORE)], [SMALL], "3 GWorkers ask"),
    ],
)
def test_what_the_nodes_never_hold_together_is_refused(
    kinds: list[Demand], nodes: list[dict[str, float]], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        resolve(kinds[0], nodes, total(nodes), kinds[1:])


@pytest.mark.parametrize(
    ("kinds", "nodes"),
    [
        ([Demand("CWorker", 20, {"num_cpus": 0.1})], [SMALL]),
        ([Demand("CWorker", 99, {"num_cpus": 0})], [SMALL]),
        ([Demand("CWorker", 0, {"num_cpus": 50})], [SMALL]),
        # Those that need no GPU leave it to those that do, whatever the order of nodes and workers.
        ([Demand("CWorker", 2, CORE), Demand("GWorker", 2, {"num_cpus": 8, "num_gpus": 1})], [LARGE, SMALL]),
        ([Demand("GWorker", 2, {"num_cpus": 8, "num_gpus": 1}), Demand("CWorker", 2, CORE)], [SMALL, LARGE]),
    ],
)
def test_what_fits_is_not_refused(kinds: list[Demand], nodes: list[dict[str, float]]) -> None:
    check_room(kinds, nodes)


def test_the_default_leaves_room_for_those_whose_resources_are_given() -> None:
    grad = resolve(Demand("GWorker", 1, None), [SMALL], total([SMALL]), [Demand("CWorker", 2, {"num_cpus": 0.75})])
    assert grad["num_cpus"] == 0.5
