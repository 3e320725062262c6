"""Figures over seeds: mean and standard error, interquartile mean with its bootstrap interval."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect.runs.curves import bootstrap_band, interquartile_mean

Scores = Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its standard error."""

    mean: float
    error: float
    """0 with a single seed: nothing is known of the spread."""


@dataclass(frozen=True)
class Interval:
    """An interquartile mean over seeds with its 95 % confidence interval."""

    value: float
    low: float
    high: float


def mean_and_error(scores: Scores) -> Estimate:
    """Return the mean of the seeds' scores and its standard error."""
    values = np.asarray(scores, np.float64)
    if values.size == 0:
        raise ValueError("a mean needs at least one score, got none")
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else 0.0
    return Estimate(float(values.mean()), float(error))


def middle_with_interval(scores: Scores) -> Interval:
    """Return the interquartile mean of the seeds' scores with its bootstrap interval, the same at every call."""
    values = np.asarray(scores, np.float64)
    if values.size == 0:
        raise ValueError("an interquartile mean needs at least one score, got none")
    (low,), (high,) = bootstrap_band(values[:, None], np.random.default_rng(0))
    return Interval(float(interquartile_mean(values)), float(low), float(high))
