"""What a cell's score is held against, and how the outcome is said."""

from dataclasses import dataclass
from typing import Protocol

from benchmarks.learn.statistics import Estimate


class Goal(Protocol):
    """A bound on the mean over seeds."""

    @property
    def peer(self) -> str | None:
        """The cell that the bound comes from, if it is not a number."""

    def text(self, unit: str) -> str:
        """Say the bound, with scores in `unit`."""

    def shortfall(self, score: Estimate, peer: Estimate | None) -> float | None:
        """Return by how much the bound is missed: 0 where it is met, None where the peer has no score."""


@dataclass(frozen=True)
class AtLeast:
    """The mean reaches a score."""

    score: float
    peer: None = None

    def text(self, unit: str) -> str:
        return f"≥ {format_score(self.score, unit)}"

    def shortfall(self, score: Estimate, peer: Estimate | None) -> float | None:
        return max(self.score - score.mean, 0.0)


@dataclass(frozen=True)
class Below:
    """The mean stays below a score: what the ingredient under test is needed for."""

    score: float
    peer: None = None

    def text(self, unit: str) -> str:
        return f"< {format_score(self.score, unit)}"

    def shortfall(self, score: Estimate, peer: Estimate | None) -> float | None:
        return max(score.mean - self.score, 0.0)


@dataclass(frozen=True)
class AsGoodAs:
    """The mean is not below a peer's mean minus one standard error of it."""

    peer: str

    def text(self, unit: str) -> str:
        return "≥ the peer's mean − 1 standard error"

    def shortfall(self, score: Estimate, peer: Estimate | None) -> float | None:
        return None if peer is None else max(peer.mean - peer.error - score.mean, 0.0)


@dataclass(frozen=True)
class BetterThan:
    """The mean is above another cell's mean plus one standard error of it."""

    peer: str

    def text(self, unit: str) -> str:
        return f"> {self.peer} + 1 standard error"

    def shortfall(self, score: Estimate, peer: Estimate | None) -> float | None:
        return None if peer is None else max(peer.mean + peer.error - score.mean, 0.0)


def format_score(score: float, unit: str) -> str:
    """Write a return with as many decimals as it deserves, or a rate in per cent."""
    if unit == "success":
        return f"{100 * score:.0f} %"
    digits = 1 if abs(score) < 1_000 else 0
    text = f"{score:,.{digits}f}"
    return (text.removesuffix(".0") if digits else text).replace("-", "−")
