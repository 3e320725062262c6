"""What remote workers ask the cluster for, and whether it can ever be had."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from recollect.errors import ConfigError

NUM_CPUS: Final = "num_cpus"
NUM_GPUS: Final = "num_gpus"
MEMORY: Final = "memory"
OBJECT_STORE_MEMORY: Final = "object_store_memory"
CUSTOM: Final = "resources"

# How the cluster calls what workers ask for.
_CLUSTER_NAMES: Final = {
    NUM_CPUS: "CPU",
    NUM_GPUS: "GPU",
    MEMORY: "memory",
    OBJECT_STORE_MEMORY: "object_store_memory",
}
_WISHES: Final = {NUM_CPUS: 1, NUM_GPUS: 0.2, MEMORY: 5 * 1024**3, OBJECT_STORE_MEMORY: 2 * 1024**3}
# Ray counts resources in units of a ten-thousandth.
_UNIT: Final = 1e-4


def default_resources() -> dict[str, Any]:
    """What a worker asks for where nothing is said: a core, some of a GPU, and memory; a new dict each time."""
    return dict(_WISHES)


def resolve(
    given: Mapping[str, Any] | None,
    num_workers: int,
    nodes: Sequence[Mapping[str, float]],
    free: Mapping[str, float],
) -> dict[str, Any]:
    """Decide what each of the workers asks for.

    What is given is taken as it is, and refused at once if no node can ever satisfy it. Where nothing is
    given, the default comes down to what the cluster has for so many workers.

    Parameters
    ----------
    given : mapping or None
        Ray's resource options of one worker.
    num_workers : int
        Workers that are to share the cluster.
    nodes : sequence of mappings
        Resources of each node, by the cluster's names.
    free : mapping
        What nobody holds now, of all nodes together.
    """
    if given is not None:
        found = dict(given)
        check_feasible(found, nodes)
        return found
    return {name: _affordable(name, num_workers, nodes, free) for name in _WISHES}


def check_feasible(resources: Mapping[str, Any], nodes: Sequence[Mapping[str, float]]) -> None:
    """Refuse resources of one worker that no single node has, were it empty."""
    asked = _by_cluster_name(resources)
    if any(all(node.get(name, 0.0) >= amount for name, amount in asked.items()) for node in nodes):
        return
    for name, amount in asked.items():
        largest = max((node.get(name, 0.0) for node in nodes), default=0.0)
        if largest < amount:
            raise ConfigError(
                f"a worker asks for {name} {amount:g}, but the largest node has {largest:g}; "
                f"ask for less, or join a cluster that has it"
            )
    raise ConfigError(
        f"a worker asks for {_phrase(asked)}, which no single node has together; "
        f"the {len(nodes)} nodes have {'; '.join(_phrase({n: node.get(n, 0.0) for n in asked}) for node in nodes)}. "
        "Ask for less, or join a cluster that has it"
    )


def _affordable(name: str, num_workers: int, nodes: Sequence[Mapping[str, float]], free: Mapping[str, float]) -> float:
    """The most that all workers can have at the same time, whatever the nodes' sizes, but at most the default."""
    amounts = [node.get(_CLUSTER_NAMES[name], 0.0) for node in nodes]
    most = min(_WISHES[name], free.get(_CLUSTER_NAMES[name], 0.0) / num_workers)
    shares = {amount / count for amount in amounts for count in range(1, num_workers + 1)} | {most}
    share = max(
        (each for each in shares if 0 < each <= most and _num_fitting(amounts, each) >= num_workers), default=0.0
    )
    if name in (MEMORY, OBJECT_STORE_MEMORY):
        return int(share)
    return int(share) if share >= 1 else math.floor(share / _UNIT) * _UNIT


def _num_fitting(amounts: Sequence[float], share: float) -> int:
    """Workers of one share each that nodes with these amounts hold."""
    return sum(int(amount / share * (1 + 1e-9)) for amount in amounts)


def _by_cluster_name(resources: Mapping[str, Any]) -> dict[str, float]:
    """Amounts by the cluster's names; what is no resource, such as a runtime environment, is left out."""
    asked = {_CLUSTER_NAMES[name]: float(resources[name]) for name in _CLUSTER_NAMES if resources.get(name)}
    return asked | {name: float(amount) for name, amount in (resources.get(CUSTOM) or {}).items()}


def _phrase(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in amounts.items())
