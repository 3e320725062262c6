"""The resources that remote workers request. Ray alone decides where and when they start."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from recollect.errors import ConfigError

OBJECT_STORE_MEMORY: Final = "object_store_memory"

DEFAULT: Final = "DEFAULT"
SPREAD: Final = "SPREAD"
PLACEMENTS: Final = (DEFAULT, SPREAD)
"""Ray's strategies for where workers go: it fills a node by half before it prefers emptier ones, or it spreads.

Ray packs only what it has reserved as a group, which outlives a gradient worker that dies, so packing is not offered.
"""

Resources = Mapping[str, Any]
"""Ray's resource options of one worker: `num_cpus`, `num_gpus`, `memory`, `resources`, `label_selector`, ..."""

_DEFAULTS: Final = {"num_cpus": 1, "num_gpus": 0.2, "memory": 5 * 1024**3, OBJECT_STORE_MEMORY: 2 * 1024**3}
# What the cluster calls them, where the name differs.
_CLUSTER_NAMES: Final = {"num_cpus": "CPU", "num_gpus": "GPU"}
# Units of Ray in one core, GPU or other resource: it does not count finer ones.
_UNITS: Final = 10_000


class Demand(NamedTuple):
    """Workers of one kind, and what each asks for; None shares what the cluster has."""

    num_workers: int
    resources: Resources | None


def default_resources() -> dict[str, Any]:
    """What a worker asks for where nothing is said: a core, some of a GPU, and memory; a new dict each time."""
    return dict(_DEFAULTS)


def check_placement(placement: str) -> str:
    """Return a strategy for where workers go, or refuse it."""
    if placement not in PLACEMENTS:
        raise ConfigError(f"placement must be one of {', '.join(map(repr, PLACEMENTS))}, got {placement!r}")
    return placement


def share(num_workers: int, beside: Sequence[Demand], nodes: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """The default request of each worker, or less on a small cluster.

    Parameters
    ----------
    num_workers : int
        Workers that share.
    beside : sequence of Demand
        Other workers of the training, which get theirs too.
    nodes : sequence of mappings
        Resources of each node, by the cluster's names.
    """
    num_sharing = num_workers + sum(kind.num_workers for kind in beside if kind.resources is None)
    found = {name: _equal_share(_left(name, beside, nodes), num_sharing, most) for name, most in _DEFAULTS.items()}
    return {name: int(amount) if amount >= 1 else amount for name, amount in found.items()}


def phrase(amounts: Mapping[str, Any]) -> str:
    """Resources as people write them, without those of which there is nothing, and Ray's own marks of nodes."""
    texts = [f"{name} {_short(name, amount)}" for name, amount in amounts.items() if amount and "node:" not in name]
    return ", ".join(texts) or "nothing"


def _left(name: str, beside: Iterable[Demand], nodes: Sequence[Mapping[str, float]]) -> list[float]:
    """What workers that say what they need leave of each node, if each goes where most is left."""
    left = [node.get(_CLUSTER_NAMES.get(name, name), 0.0) for node in nodes]
    for kind in beside:
        amount = (kind.resources or {}).get(name) or 0.0
        for _ in range(kind.num_workers if amount else 0):
            left[left.index(max(left))] -= amount
    return left


def _equal_share(amounts: Sequence[float], num_workers: int, most: float) -> float:
    """The largest share, up to `most`, of which nodes with these amounts hold `num_workers`; in units of Ray's."""
    shares = {amount / count for amount in amounts for count in range(1, num_workers + 1)} | {most}
    fitting = [each for each in shares if 0 < each <= most and _num_fitting(amounts, each) >= num_workers]
    largest = max(fitting, default=0.0)
    return largest if largest >= 1 else math.floor(largest * _UNITS) / _UNITS


def _num_fitting(amounts: Sequence[float], share: float) -> int:
    """Workers of one share each that nodes with these amounts hold."""
    return sum(int(max(amount, 0.0) / share * (1 + 1e-9)) for amount in amounts)


def _short(name: str, amount: object) -> str:
    if not isinstance(amount, (int, float)):
        return str(amount)
    return f"{amount / 1024**3:.3g} GiB" if name.endswith("memory") else f"{amount:g}"
