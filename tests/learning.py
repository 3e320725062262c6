"""Learning checks: what an agent must reach in little training, or must not reach where an ingredient is missing.

One short run hangs on its seed, and, since rounding differs, on the number of threads and on the processor. So a check
has three attempts, with a seed each, and fails only if all of them fail: usually it costs one run. Thresholds lie far
above what an agent reaches that does not learn, and were set from trials under other seeds, numbers of threads and
instruction sets: `python -m tests.calibrate_learning` repeats them, `learning_trials.jsonl` has their scores.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from recollect.config import build, resolve
from recollect.learner import Learner

SEEDS: Final = (1, 2, 3)
MAX_FALSE_ALARMS: Final = 1e-4
TRIALS: Final = Path(__file__).with_name("learning_trials.jsonl")


@dataclass(frozen=True, kw_only=True)
class Check:
    """A training run and the score that it must reach.

    Attributes
    ----------
    train : callable
        Trains with the seed that it is given and returns the score.
    threshold : float
        Scores must be higher; lower if `learns` is false.
    learns : bool
        Whether the agent has all that it needs to learn.
    trials : str
        What the trials gave, as `summary` says it.
    """

    train: Callable[[int], float]
    threshold: float
    learns: bool = True
    trials: str = ""

    def is_passed(self, score: float) -> bool:
        """Whether a score is on the right side of the threshold."""
        return score > self.threshold if self.learns else score < self.threshold

    def judge(self) -> None:
        """Raise an AssertionError if every attempt fails."""
        scores: list[float] = []
        for seed in SEEDS:
            scores.append(self.train(seed))
            if self.is_passed(scores[-1]):
                return
        side = "above" if self.learns else "below"
        raise AssertionError(f"none of the scores {scores} of seeds {SEEDS} is {side} {self.threshold}")

    def false_alarm(self, scores: Sequence[float]) -> float:
        """Estimate the chance that a sound agent fails all attempts, by Laplace's rule of succession."""
        return ((self._num_failed(scores) + 1) / (len(scores) + 2)) ** len(SEEDS)

    def summary(self, scores: Sequence[float]) -> str:
        """Say what trials gave, in a line."""
        worst = min(scores) if self.learns else max(scores)
        return (
            f"{self._num_failed(scores)} of {len(scores)} failed; worst {worst:.4g}, median {median(scores):.4g}; "
            f"chance of a false alarm {self.false_alarm(scores):.0e}"
        )

    def _num_failed(self, scores: Sequence[float]) -> int:
        return sum(not self.is_passed(score) for score in scores)


@dataclass(frozen=True)
class Preset:
    """Trains a preset's agent for some steps; its score is the mean return, or the success rate."""

    name: str
    steps: int
    overrides: Mapping[str, Any] = field(default_factory=dict)
    num_episodes: int = 50
    by_success: bool = False

    def __call__(self, seed: int) -> float:
        config = resolve(preset=self.name, overrides={"seed": seed, "test_every": 0, **self.overrides})
        learner = Learner(build(config), self.steps)
        while not learner.done():
            learner.step()
        evaluation = learner.evaluate(self.num_episodes)
        learner.stop()
        score = evaluation.success_rate if self.by_success else evaluation.mean
        assert score is not None
        return score


def read_trials() -> list[dict[str, Any]]:
    """All trials that were recorded, oldest first."""
    return [json.loads(line) for line in TRIALS.read_text().splitlines()] if TRIALS.exists() else []


def scores_of(name: str, trials: Sequence[Mapping[str, Any]]) -> list[float]:
    """The scores of one check."""
    return [trial["score"] for trial in trials if trial["check"] == name]
