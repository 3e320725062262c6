"""What to start with: normalised scores of all runs on tasks of one kind, by agent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.learn.ablation import ABLATION
from benchmarks.learn.report import Row, score_of
from benchmarks.learn.statistics import Interval, middle_with_interval

STORAGES: Final = "storages, on Pendulum-v1 and LunarLander-v3"
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "finitely many actions": ("CartPole-v1", "Acrobot-v1", "LunarLander-v3"),
    "continuous actions": (
        "Pendulum-v1",
        "MountainCarContinuous-v0",
        "InvertedPendulum-v5",
        "HalfCheetah-v5",
        "Hopper-v5",
        "Walker2d-v5",
        "DMC cheetah-run",
        "DMC walker-walk",
    ),
    "goals": ("FetchReach-v4", "16-bit flip"),
    "rewards that chance hardly finds": ("MountainCar-v0", "chain of 40 rooms"),
    "memory": ("recall after 20 steps",),
}


class Scale(NamedTuple):
    """Scores of a task that count as 0 and as 1."""

    chance: float
    reference: float
    source: str


_SHARE: Final = Scale(0.0, 1.0, "every episode reaches the goal")
SCALES: Final[Mapping[str, Scale]] = {
    "CartPole-v1": Scale(23.7, 500.0, "the most there is"),
    "Acrobot-v1": Scale(-494.2, -77.0, "DQN, SB3 zoo"),
    "LunarLander-v3": Scale(-192.0, 200.0, "counts as solved"),
    "MountainCar-v0": Scale(-200.0, -110.0, "counts as solved"),
    "Pendulum-v1": Scale(-1227.8, -151.0, "TQC, SB3 zoo"),
    "MountainCarContinuous-v0": Scale(-33.1, 95.0, "SAC, SB3 zoo"),
    "InvertedPendulum-v5": Scale(5.2, 1000.0, "the most there is"),
    "HalfCheetah-v5": Scale(-284.0, 6515.0, "SAC after 100,000 steps, Tianshou"),
    "Hopper-v5": Scale(18.2, 2249.0, "MR.Q after 100,000 steps (Fujimoto et al., 2025)"),
    "Walker2d-v5": Scale(1.5, 3127.0, "MR.Q after 100,000 steps (Fujimoto et al., 2025)"),
    "DMC cheetah-run": Scale(7.5, 329.0, "SAC after 50,000 actions (Lee et al., 2024)"),
    "DMC walker-walk": Scale(40.7, 783.0, "SAC after 50,000 actions (Lee et al., 2024)"),
    "FetchReach-v4": _SHARE,
    "16-bit flip": _SHARE,
    "chain of 40 rooms": _SHARE,
    "recall after 20 steps": Scale(0.5, 1.0, "every answer is right"),
}
"""By task. Chance is the mean return of random actions, measured on 2026-11-18 and 19 over 15 to 100 episodes."""


@dataclass(frozen=True)
class Combination:
    """An agent's normalised scores on the tasks of a kind."""

    kind: str
    agent: str
    tasks: tuple[str, ...]
    scores: NDArray[np.float64]
    """One for each run."""
    middle: Interval

    def profile(self, thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share of the runs that score more than each threshold."""
        share: NDArray[np.float64] = (self.scores[:, None] > thresholds).mean(0)
        return share


def combine(rows: Sequence[Row]) -> list[Combination]:
    """Group the runs by kind of task and agent; the best come first in each kind."""
    runs: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for row in rows:
        scores = [(row.cell.task, _normalised(row.cell.task, score_of(row.cell, record))) for record in row.records]
        runs.setdefault(_group_of(row), []).extend(scores)
    found = [_combination(*group, scores) for group, scores in runs.items() if scores]
    order = [*KINDS, STORAGES]
    return sorted(found, key=lambda each: (order.index(each.kind), -each.middle.value))


def table(combinations: Sequence[Combination]) -> list[list[str]]:
    """Return the header and a line for each combination."""
    header = ["kind of task", "agent", "tasks", "runs", "IQM", "95 % interval", "lowest run"]
    return [header, *(_line(each) for each in combinations)]


def markdown(combinations: Sequence[Combination], profiles: str, curves: str, origin: str) -> str:
    """Return figures, table and scales, as Markdown."""
    header, *body = table(combinations)
    lines = _lines([header, ["---"] * 3 + ["---:"] * 4, *body])
    scales = [[task, *(f"{end:,g}".replace("-", "−") for end in x[:2]), x[2]] for task, x in SCALES.items()]
    known = _lines([["task", "0", "1", "what 1 is"], ["---", "---:", "---:", "---"], *scales])
    return (
        f"![Share of runs above each normalised score, by kind of task]({profiles})\n\n{lines}\n\n"
        f"![Learning curves of every cell, by task]({curves})\n\n"
        "Curves are interquartile means over seeds of evaluations over 10 episodes during training, with bands of 95 % "
        f"bootstrap intervals; goal tasks are shown by their return.\n\n{known}\n\n{origin}"
    )


def _lines(cells: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def _group_of(row: Row) -> tuple[str, str]:
    if row.cell in ABLATION:
        return STORAGES, row.cell.agent.partition(", ")[2]
    kind = next(kind for kind, tasks in KINDS.items() if row.cell.task in tasks)
    return kind, row.cell.agent


def _combination(kind: str, agent: str, runs: Sequence[tuple[str, float]]) -> Combination:
    scores = np.array([score for _, score in runs])
    tasks = tuple(dict.fromkeys(task for task, _ in runs))
    return Combination(kind, agent, tasks, scores, middle_with_interval(scores))


def _normalised(task: str, score: float) -> float:
    scale = SCALES[task]
    return (score - scale.chance) / (scale.reference - scale.chance)


def _line(each: Combination) -> list[str]:
    middle, low, high = (
        f"{value:.2f}".replace("-", "−") for value in (each.middle.value, each.middle.low, each.middle.high)
    )
    lowest = f"{each.scores.min():.2f}".replace("-", "−")
    return [each.kind, each.agent, ", ".join(each.tasks), str(len(each.scores)), middle, f"{low} to {high}", lowest]
