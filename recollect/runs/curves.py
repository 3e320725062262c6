"""Learning curves of runs: read, brought to the same steps, and summed up over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from recollect.errors import ConfigError, closest
from recollect.runs import metrics
from recollect.runs.directory import RunDirectory
from recollect.runs.writers import number_in, read_rows

NUM_POINTS: Final = 200
_NUM_RESAMPLES: Final = 2000
_LEVEL: Final = 0.95
_NAME: Final = "name"


class Points(NamedTuple):
    """One metric of one run: env steps and values, both `[points]`."""

    steps: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed only: env steps `[points]`, values `[runs, points]`."""

    label: str
    steps: np.ndarray
    values: np.ndarray


def read_points(run: RunDirectory, metric: str) -> Points:
    """Read a metric of a run; rows without it are left out."""
    rows = [row for row in read_rows(run.metrics_file) if row.get(metric)]
    numbers = [[number_in(row, name, run.metrics_file) for row in rows] for name in (metrics.STEPS, metric)]
    return Points(*np.array(numbers, np.float64))


def read_returns(run: RunDirectory) -> Points:
    """Read the returns of evaluations, or those of training where there were fewer than two evaluations."""
    evaluations = read_points(run, metrics.EVAL_RETURN)
    return evaluations if len(evaluations.steps) > 1 else read_points(run, metrics.TRAIN_RETURN)


def make_group(label: str, curves: Sequence[Points]) -> Group:
    """Bring the curves of several seeds to common steps: those that all of them reached."""
    if any(len(curve.steps) == 0 for curve in curves):
        raise ConfigError(f"a run of {label!r} has nothing to plot yet: train it longer")
    first = max(curve.steps[0] for curve in curves)
    last = max(first, min(curve.steps[-1] for curve in curves))
    steps = curves[0].steps
    if any(not np.array_equal(steps, curve.steps) for curve in curves):
        steps = np.linspace(first, last, NUM_POINTS)
    return Group(label, steps, np.stack([np.interp(steps, curve.steps, curve.values) for curve in curves]))


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """Mean of the middle half along the first axis, as in Agarwal et al. (2021), arXiv 2108.13264."""
    num_cut = len(values) // 4
    middle: np.ndarray = np.sort(values, axis=0)[num_cut : len(values) - num_cut]
    return np.asarray(middle.mean(axis=0))


def bootstrap_band(values: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Limits `[points]` of the 95 % confidence interval of the interquartile mean over runs `[runs, points]`."""
    picks = rng.integers(len(values), size=(len(values), _NUM_RESAMPLES))
    means = np.stack([interquartile_mean(column[picks]) for column in values.T], axis=-1)  # [resamples, points]
    low, high = np.quantile(means, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    return low, high


def label_of(run: RunDirectory, by: str | None) -> str:
    """What a curve is called: its algorithm and storage, or the config's value `by`, such as `storage.alpha`."""
    config = run.config
    if by is None:
        return (
            " · ".join(str(_look_up(config, part)) for part in ("algo", "storage") if part in config) or run.path.name
        )
    part, _, name = by.partition(".")
    if part not in config:
        raise ConfigError(f"the config of {run.path} has no {part!r}; {closest(part, config)}")
    options = config[part] if isinstance(config[part], dict) else {}
    if name and name not in options:
        raise ConfigError(f"the {part} of {run.path} has no {name!r}; {closest(name, options)}")
    value = str(_look_up(config, by))
    return f"{by} {value}" if name else value


def env_of(run: RunDirectory) -> str:
    """Name of a run's environment."""
    return str(_look_up(run.config, "env") or run.path.name)


def open_runs(paths: Sequence[Path]) -> list[RunDirectory]:
    """Open the runs at some paths."""
    if not paths:
        raise ConfigError("there is no run to plot; name at least one folder")
    return [RunDirectory.open(path) for path in paths]


def _look_up(config: dict[str, Any], path: str) -> Any:
    """Value of a dotted path; a part stands for its name."""
    value: Any = config
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value.get(_NAME) if isinstance(value, dict) else value
