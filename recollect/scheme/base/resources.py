"""What remote workers ask the cluster for, and whether it can ever be had."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from recollect.errors import ConfigError
from recollect.scheme.base.labels import is_label, offered, selector_as_resources

NUM_CPUS: Final = "num_cpus"
NUM_GPUS: Final = "num_gpus"
MEMORY: Final = "memory"
OBJECT_STORE_MEMORY: Final = "object_store_memory"
CUSTOM: Final = "resources"
ACCELERATOR_TYPE: Final = "accelerator_type"
LABEL_SELECTOR: Final = "label_selector"

DEFAULT: Final = "DEFAULT"
SPREAD: Final = "SPREAD"
PLACEMENTS: Final = (DEFAULT, SPREAD)
"""Ray's strategies for where workers go: it fills a node by half before it prefers emptier ones, or it spreads.

Ray packs only what it has reserved as a group, which outlives a gradient worker that dies, so packing is not offered.
"""

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
# What Ray asks for where a type of accelerator is given, so that many workers may share one.
_OF_ACCELERATOR: Final = 1e-3


def default_resources() -> dict[str, Any]:
    """What a worker asks for where nothing is said: a core, some of a GPU, and memory; a new dict each time."""
    return dict(_WISHES)


def check_placement(placement: str) -> str:
    """Return a strategy for where workers go, or refuse it."""
    if placement not in PLACEMENTS:
        raise ConfigError(f"placement must be one of {', '.join(map(repr, PLACEMENTS))}, got {placement!r}")
    return placement


class Demand(NamedTuple):
    """Workers of one kind that the cluster has to hold at the same time.

    Attributes
    ----------
    name : str
        What they are called.
    num_workers : int
        How many.
    resources : mapping or None
        Ray's resource options of each; None asks for what the cluster has.
    """

    name: str
    num_workers: int
    resources: Mapping[str, Any] | None


def resolve(
    demand: Demand,
    nodes: Sequence[Mapping[str, float]],
    free: Mapping[str, float],
    beside: Sequence[Demand] = (),
) -> dict[str, Any]:
    """Decide what each of the workers asks for.

    What is given is taken as it is, and refused at once if the nodes can never hold all of it. Where nothing is
    given, the default comes down to what the cluster has for so many workers.

    Parameters
    ----------
    demand : Demand
        The workers.
    nodes : sequence of mappings
        Resources of each node, by the cluster's names.
    free : mapping
        What nobody holds now, of all nodes together.
    beside : sequence of Demand
        Other workers of the training, which must have their place too.
    """
    kinds = [demand, *beside]
    left = check_room(kinds, nodes)
    if demand.resources is not None:
        return dict(demand.resources)
    num_sharing = sum(kind.num_workers for kind in kinds if kind.resources is None)
    return {name: _affordable(name, num_sharing, left, free) for name in _WISHES}


def resolve_successor(
    had: Mapping[str, Any], beside: Sequence[Demand], nodes: Sequence[Mapping[str, float]], free: Mapping[str, float]
) -> dict[str, Any]:
    """Decide what a worker asks for that takes the place of another, where nothing is given.

    It is what the other had, because that is free, or will be in a moment: what the cluster says of it comes too late
    when several are replaced at once. Only if the nodes cannot hold all workers any more, because one of them is
    gone, is it what is left, maybe nothing.

    Parameters
    ----------
    had : mapping
        What the other worker had.
    beside : sequence of Demand
        All other workers of the training.
    nodes, free
        As in `resolve`.
    """
    others = [kind._replace(resources=had) if kind.resources is None else kind for kind in beside]
    try:
        check_room([Demand("worker", 1, had), *others], nodes)
    except ConfigError:
        left = {name: min(free.get(name, 0.0), amount) for name, amount in _left_by(others, nodes).items()}
        return {name: min(amount, _affordable(name, 1, nodes, left)) for name, amount in had.items()}
    return dict(had)


def _left_by(kinds: Iterable[Demand], nodes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """What workers leave of all nodes together, by the cluster's names; less than nothing if they ask for more."""
    left = {name: sum(_amounts(name, nodes)) for name in _CLUSTER_NAMES.values()}
    for kind in kinds:
        for name, amount in _by_cluster_name(kind.resources or {}).items():
            left[name] = left.get(name, 0.0) - kind.num_workers * amount
    return left


def check_room(kinds: Iterable[Demand], nodes: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Refuse workers that the nodes could not hold together, were they empty; returns what would be left of each.

    A cluster that grows by itself counts as it is now: Ray does not say how large it may become.
    """
    given = [(kind, _by_cluster_name(kind.resources)) for kind in kinds if kind.num_workers and kind.resources]
    names = {name for _, asked in given for name in asked}
    nodes = [{**node, **offered(node, names)} for node in nodes]
    for _, asked in given:
        _check_one(asked, nodes)
    # The largest first, because small ones fit in between.
    given.sort(key=lambda one: _size(one[1], nodes), reverse=True)
    left = [dict(node) for node in nodes]
    for place, (kind, asked) in enumerate(given):
        before = [dict(node) for node in left]
        num_placed = _place(asked, kind.num_workers, left)
        if num_placed < kind.num_workers:
            raise ConfigError(_refusal(kind, asked, num_placed, before, [other for other, _ in given[:place]]))
    return left


def _check_one(asked: Mapping[str, float], nodes: Sequence[Mapping[str, float]]) -> None:
    """Refuse resources of one worker that no single node has, were it empty."""
    if any(_capacity(asked, node) for node in nodes):
        return
    for name, amount in asked.items():
        largest = max((node.get(name, 0.0) for node in nodes), default=0.0)
        if largest < amount and is_label(name):
            raise ConfigError(
                f"a worker asks for a node with the {name}, but no node has it; label nodes with `ray start --labels`, "
                "or select others"
            )
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


def _place(asked: Mapping[str, float], num_workers: int, left: Sequence[dict[str, float]]) -> int:
    """Take workers off what is left of the nodes, first of those with the least that they do not need."""
    num_placed = 0
    for node in sorted(left, key=lambda node: sum(name not in asked for name in node)):
        num_here = min(num_workers - num_placed, _capacity(asked, node))
        node.update({name: node.get(name, 0.0) - num_here * amount for name, amount in asked.items()})
        num_placed += num_here
    return num_placed


def _capacity(asked: Mapping[str, float], node: Mapping[str, float]) -> int:
    """Workers that a node holds; any number of those that ask for nothing."""
    return min((_num_fitting([node.get(name, 0.0)], amount) for name, amount in asked.items()), default=sys.maxsize)


def _size(asked: Mapping[str, float], nodes: Sequence[Mapping[str, float]]) -> float:
    """How much of the largest node a worker takes."""
    return max((amount / max(node.get(name, 0.0) for node in nodes) for name, amount in asked.items()), default=0.0)


def _refusal(
    kind: Demand,
    asked: Mapping[str, float],
    num_placed: int,
    nodes: Sequence[Mapping[str, float]],
    others: Sequence[Demand],
) -> str:
    """Why workers cannot all be placed, and what would fit."""
    fitting = {name: _fitting_share(_amounts(name, nodes), kind.num_workers, most) for name, most in asked.items()}
    beside = " and ".join(f"{other.num_workers} {other.name}s" for other in others)
    room = " ".join(("the cluster has room for", str(num_placed), *(("beside", beside) if others else ())))
    smaller = f"ask for at most {_phrase(fitting)} each" if all(fitting.values()) else "ask for less"
    fewer = f"use at most {num_placed}, " if num_placed else ""
    return (
        f"{kind.num_workers} {kind.name}s ask for {_phrase(asked)} each, but {room}; {fewer}{smaller}, or join a "
        "larger cluster (one that grows by itself must have grown before)"
    )


def _affordable(name: str, num_workers: int, nodes: Sequence[Mapping[str, float]], free: Mapping[str, float]) -> float:
    """The most that all workers can have at the same time, whatever the nodes' sizes, but at most the default."""
    cluster_name = _CLUSTER_NAMES[name]
    most = min(_WISHES[name], free.get(cluster_name, 0.0) / num_workers)
    share = _fitting_share(_amounts(cluster_name, nodes), num_workers, most)
    return int(share) if name in (MEMORY, OBJECT_STORE_MEMORY) else share


def _amounts(name: str, nodes: Sequence[Mapping[str, float]]) -> list[float]:
    return [node.get(name, 0.0) for node in nodes]


def _fitting_share(amounts: Sequence[float], num_workers: int, most: float) -> float:
    """The largest share, up to `most`, of which nodes with these amounts hold `num_workers`, in units of Ray's."""
    shares = {amount / count for amount in amounts for count in range(1, num_workers + 1)} | {most}
    share = max(
        (each for each in shares if 0 < each <= most and _num_fitting(amounts, each) >= num_workers), default=0.0
    )
    return int(share) if share >= 1 else math.floor(share / _UNIT) * _UNIT


def _num_fitting(amounts: Sequence[float], share: float) -> int:
    """Workers of one share each that nodes with these amounts hold."""
    return sum(int(amount / share * (1 + 1e-9)) for amount in amounts)


def _by_cluster_name(resources: Mapping[str, Any]) -> dict[str, float]:
    """Amounts by the cluster's names that are really asked for; what is no resource is left out."""
    amounts = {name: _amount(name, resources.get(name)) for name in _CLUSTER_NAMES}
    asked = {_CLUSTER_NAMES[name]: amount for name, amount in amounts.items() if amount and name != OBJECT_STORE_MEMORY}
    asked |= {name: _amount(name, amount) for name, amount in _mapping(CUSTOM, resources).items()}
    if resources.get(ACCELERATOR_TYPE) is not None:
        asked[f"{ACCELERATOR_TYPE}:{resources[ACCELERATOR_TYPE]}"] = _OF_ACCELERATOR
    return asked | selector_as_resources(_mapping(LABEL_SELECTOR, resources))


def _amount(name: str, value: Any) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ConfigError(f"a worker can ask for {name} as a number of at least 0, got {value!r}")
    return float(value)


def _mapping(name: str, resources: Mapping[str, Any]) -> Mapping[str, Any]:
    value = resources.get(name) or {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} of a worker must be a dict by name, got {value!r}")
    return value


def _phrase(amounts: Mapping[str, float]) -> str:
    """Amounts as people write them; a label is there or not."""
    return ", ".join(
        name if is_label(name) else f"{name} {amount:g}"
        for name, amount in amounts.items()
        if amount or not is_label(name)
    )
