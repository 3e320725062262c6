"""What Recollect sets out to reach, as ratios within one run and bytes per transition."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.harness import Times, Timing
from benchmarks.worker import Failure
from benchmarks.workloads import OURS, PEERS

NODES = "nodes_visited"
LIBRARIES = tuple(name for name in PEERS if name != "rlox")
"""Peers that the targets are about: those that store what they are given, whatever its dtype."""

Footprints = dict[str, dict[str, float | Failure]]


@dataclass(frozen=True)
class Results:
    """What a run measured."""

    times: Times
    footprints: Footprints

    def timing(self, workload: str, name: str) -> Timing | None:
        outcome = self.times.get(workload, {}).get(name)
        return outcome if isinstance(outcome, Timing) else None

    def best_us(self, workload: str, name: str) -> float | None:
        """Return the best block's µs per call, if the competitor ran."""
        timing = self.timing(workload, name)
        return timing.min_us if timing else None

    def fastest_peer(self, workload: str, names: Sequence[str] = PEERS) -> tuple[str, float] | None:
        """Return the fastest peer's name and µs per call, if one ran."""
        ran = [(us, name) for name in names if (us := self.best_us(workload, name)) is not None]
        return (min(ran)[1], min(ran)[0]) if ran else None

    def speed_up(self, workload: str, names: Sequence[str] = PEERS) -> float | None:
        """Return how many times faster ours is than the fastest peer."""
        ours, peer = self.best_us(workload, OURS), self.fastest_peer(workload, names)
        return peer[1] / ours if ours and peer else None

    def bytes_per_transition(self, key: str, name: str = OURS) -> float | None:
        size = self.footprints.get(key, {}).get(name)
        return None if size is None or isinstance(size, Failure) else size


@dataclass(frozen=True, kw_only=True)
class Target:
    """A figure to reach: a lower limit for speed-ups, an upper one for costs."""

    workload: str
    """The row of the table that it belongs to: a workload or a footprint."""
    title: str
    limit: float
    at_least: bool
    unit: str
    measure: Callable[[Results], float | None]

    def met(self, results: Results) -> bool | None:
        value = self.measure(results)
        if value is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit

    def requirement(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {_number(self.limit)}{self.unit} {self.title}".strip()

    def verdict(self, results: Results) -> str:
        """Say whether the target is met, and by how much it is missed."""
        value = self.measure(results)
        if value is None:
            return "not measured"
        if self.met(results):
            return f"met ({_number(value)}{self.unit})"
        gap = abs(value / self.limit - 1)
        return f"missed ({_number(value)}{self.unit}, {gap:.0%} {'short' if self.at_least else 'over'})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _faster(
    workload: str, limit: float, names: Sequence[str] = LIBRARIES, than: str = "as fast as the fastest peer but rlox"
) -> Target:
    return Target(
        workload=workload,
        title=than,
        limit=limit,
        at_least=True,
        unit="×",
        measure=lambda results: results.speed_up(workload, names),
    )


def _cost(workload: str, limit: float, other: str, name: str, of: str) -> Target:
    def measure(results: Results) -> float | None:
        ours, reference = results.best_us(workload, OURS), results.best_us(other, name)
        return ours / reference if ours and reference else None

    return Target(workload=workload, title=of, limit=limit, at_least=False, unit="×", measure=measure)


def _nodes(workload: str, limit: float, other: str) -> Target:
    def measure(results: Results) -> float | None:
        many, few = results.timing(workload, OURS), results.timing(other, OURS)
        if not many or not few:
            return None
        visited, reference = many.per_call(NODES), few.per_call(NODES)
        return visited / reference if visited and reference else None

    title = "the tree nodes of a tenth of the steps (log N: 1.17×)"
    return Target(workload=workload, title=title, limit=limit, at_least=False, unit="×", measure=measure)


def _size(key: str, limit: float) -> Target:
    return Target(
        workload=key,
        title="",
        limit=limit,
        at_least=False,
        unit=" B",
        measure=lambda results: results.bytes_per_transition(key),
    )


TARGETS = (
    _faster("uniform", 3),
    _faster("nstep", 2),
    _faster("per", 4),
    _cost("ere-16", 1.5, "per-16", OURS, "the time of our PER"),
    _faster("her", 6, ("torchrl", "sb3"), "as fast as TorchRL and SB3"),
    _cost("her", 1.2, "her", "cpprb", "the time of cpprb, which relabels on insert"),
    _faster("insert-per", 2),
    _cost("insert-16-torch", 2, "insert-16", "sb3", "the time of SB3"),
    _cost("insert-16", 1.2, "insert-16", "sb3", "the time of SB3"),
    _faster("frames-32", 1.2),
    _faster("frames-256", 2),
    _cost("uniform-many", 2, "uniform", OURS, "the time for a tenth of the steps"),
    _cost("per-many", 2, "per", OURS, "the time for a tenth of the steps"),
    _nodes("per-many", 1.3, "per"),
    _cost("small-uniform-32", 1, "small-uniform-32", "sb3", "the time of SB3"),
    _cost("small-uniform-128", 1, "small-uniform-128", "sb3", "the time of SB3"),
    _cost("small-per-32", 1.5, "small-uniform-32", "sb3", "the time of SB3 without priorities"),
    _cost("small-per-128", 1.5, "small-uniform-128", "sb3", "the time of SB3 without priorities"),
    _size("plain", 110),
    _size("priorities", 135),
    _size("frames", 7_200),
)


def targets_of(workload: str) -> list[Target]:
    """Return the targets that belong to a row."""
    return [target for target in TARGETS if target.workload == workload]
