"""What Recollect sets out to reach, as ratios of medians within one run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from benchmarks.loops.catalog import COMPETITORS, SB3, SBX
from benchmarks.loops.results import Cell, Results

FASTEST: Final = "the fastest peer"


@dataclass(frozen=True, kw_only=True)
class Target:
    """A figure to reach in one row: a lower limit for speed-ups, an upper one for costs, as a factor or as a share."""

    cell: Cell
    title: str
    limit: float
    at_least: bool
    is_share: bool = False
    measure: Callable[[Results], float | None]

    def met(self, results: Results) -> bool | None:
        """Say whether it is reached; None if it was not measured."""
        value = self.measure(results)
        if value is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit

    def requirement(self) -> str:
        limit = f"{self.limit:.0%}" if self.is_share else f"{self.limit:g}×"
        return f"{'≥' if self.at_least else '≤'} {limit} {self.title}"

    def verdict(self, results: Results) -> str:
        """Say whether the target is reached, and by how much it is missed."""
        value = self.measure(results)
        if value is None:
            return "not measured"
        told = f"{value:.1%}" if self.is_share else f"{value:.2f}×"
        if self.met(results):
            return f"reached ({told})"
        gap = abs(value / self.limit - 1)
        return f"missed ({told}, {gap:.0%} {'short' if self.at_least else 'over'})"


def _as_fast(key: str, cores: int, limit: float, name: str = FASTEST, suffix: str = "") -> Target:
    cell = (key, cores)

    def measure(results: Results) -> float | None:
        peer = results.fastest_peer(cell) if name == FASTEST else name
        return None if peer is None else results.ratio(cell, peer)

    title = (name if name == FASTEST else COMPETITORS[name].title) + suffix
    return Target(cell=cell, title=title, limit=limit, at_least=True, measure=measure)


def _lean_loop(key: str, cores: int, limit: float) -> Target:
    cell = (key, cores)
    return Target(
        cell=cell,
        title="of the loop's time is not the update",
        limit=limit,
        at_least=False,
        is_share=True,
        measure=lambda results: results.lost_to_the_loop(cell),
    )


def _lean_update(key: str, cores: int, limit: float) -> Target:
    cell = (key, cores)
    return Target(
        cell=cell,
        title="the time of the update's own matmuls",
        limit=limit,
        at_least=False,
        measure=lambda results: results.over_matmuls(cell),
    )


def _all() -> tuple[Target, ...]:
    targets: list[Target] = []
    for key in ("sac", "td3"):
        targets += [_as_fast(key, 1, 1.1, SBX), _as_fast(key, 2, 1.25, SBX), _as_fast(key, 2, 2.0, SB3)]
    targets.append(_as_fast("sac", 2, 1.5, SBX, " (moonshot)"))
    for cores in (1, 2):
        targets += [_as_fast(key, cores, 1.7) for key in ("ddqn-small", "ddqn-large")]
        targets += [_as_fast(key, cores, 1.5) for key in ("ppo-cartpole", "ppo-cheetah")]
        targets += [_lean_loop("sac", cores, 0.08), _lean_update("sac", cores, 1.5)]
    return tuple(targets)


TARGETS: Final = _all()


def targets_of(cell: Cell) -> list[Target]:
    """Return the targets that belong to a row."""
    return [target for target in TARGETS if target.cell == cell]
