"""Learning curves of runs: read, interpolated to common steps, and aggregated over seeds."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from recollect import metrics
from recollect.agent.registry import NAME, STORAGES
from recollect.config.parts import ALGO, ENV, PARTS, STORAGE, options_of, registry
from recollect.errors import ConfigError, RecollectWarning, closest
from recollect.runs.directory import RunDirectory
from recollect.runs.writers import number_in, read_rows

NUM_POINTS: Final = 200
_NUM_RESAMPLES: Final = 2000
_LEVEL: Final = 0.95


class Points(NamedTuple):
    """One metric: env steps `[points]` and values, `[points]` of one run or `[runs, points]` of several."""

    steps: np.ndarray
    values: np.ndarray


class Returns(NamedTuple):
    """Returns of one run, and the metric that they are: of training, or of evaluations."""

    points: Points
    metric: str


def read_points(run: RunDirectory, metric: str) -> Points:
    """Read a metric of a run; rows without it are left out."""
    rows = [row for row in read_rows(run.metrics_file) if row.get(metric)]
    numbers = [[number_in(row, name, run.metrics_file) for row in rows] for name in (metrics.STEPS, metric)]
    return Points(*np.array(numbers, np.float64))


def read_returns(run: RunDirectory) -> Returns:
    """Read the returns of evaluations, or those of training, if there are any, where an evaluation was the only one."""
    evaluations, training = read_points(run, metrics.EVAL_RETURN), read_points(run, metrics.TRAIN_RETURN)
    if len(evaluations.steps) > 1 or not len(training.steps):
        return Returns(evaluations, metrics.EVAL_RETURN)
    return Returns(training, metrics.TRAIN_RETURN)


def whole_curves(curves: Sequence[Points]) -> list[Points]:
    """Curves without those that are a single point so far, unless all of them are: one would leave no common steps."""
    return [curve for curve in curves if len(curve.steps) > 1] or list(curves)


def make_group(curves: Sequence[Points]) -> Points:
    """Bring the curves of several seeds, none of them empty, to common steps: those that all of them reached."""
    first = max(curve.steps[0] for curve in curves)
    last = max(first, min(curve.steps[-1] for curve in curves))
    steps = curves[0].steps
    if any(not np.array_equal(steps, curve.steps) for curve in curves):
        steps = np.linspace(first, last, NUM_POINTS if last > first else 1)
    return Points(steps, np.stack([np.interp(steps, curve.steps, curve.values) for curve in curves]))


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


def labels_of(runs: Sequence[RunDirectory], by: str | None) -> list[str]:
    """What the curves of some runs are called, see `label_of`; an entry that none of them has is refused."""
    if by is not None:
        _check_entry([run.config for run in runs], by)
    return [label_of(run, by) for run in runs]


def label_of(run: RunDirectory, by: str | None) -> str:
    """What a curve is called, in words: its algorithm and storage, or the config's value `by`, such as `storage.alpha`.

    A run whose config does not say has the default of that option; one that has no such option says so.
    """
    config = run.config
    if by is None:
        parts = [title_of(part, str(_look_up(config, part))) for part in (ALGO, STORAGE) if part in config]
        return " with ".join(parts) or run.path.name
    part, _, name = by.partition(".")
    value = _look_up(config, by)
    if name and name not in _options(config, part):
        value = _defaults(config, part).get(name)
    if not name and part in PARTS:
        return title_of(part, str(value))
    words = (name or part).replace("_", " ")
    return f"no {words}" if value is None else f"{words} {value}"


def title_of(part: str, name: str) -> str:
    """What people call an algorithm, a storage or an environment."""
    if part == ALGO and name in registry(ALGO):
        return str(registry(ALGO)[name].__name__)
    return STORAGES[name].title if part == STORAGE and name in STORAGES.built_in else name


def _check_entry(configs: Sequence[dict[str, Any]], by: str) -> None:
    """Refuse an entry that no config has, and no part of theirs has an option for."""
    part, _, name = by.partition(".")
    parts = {*PARTS, *(entry for config in configs for entry in config)}
    if part not in parts:
        raise ConfigError(f"no run has {part!r} in its config; {closest(part, parts)}")
    options = {option for config in configs for option in (*_options(config, part), *_defaults(config, part))}
    if name and name not in options:
        raise ConfigError(f"no run has {name!r} in its {part}; {closest(name, options)}")


def _options(config: dict[str, Any], part: str) -> dict[str, Any]:
    """What a config says of a part."""
    found = config.get(part)
    return found if isinstance(found, dict) else {}


def _defaults(config: dict[str, Any], part: str) -> dict[str, Any]:
    """Defaults of a part's options, as files have them; none where the part is not one of ours."""
    name = str(_look_up(config, part))
    if part not in PARTS or (part in (ALGO, STORAGE) and name not in registry(part)):
        return {}
    values = {option.name: option.default for option in options_of(part, name).values()}
    return {option: list(value) if isinstance(value, tuple) else value for option, value in values.items()}


def env_of(run: RunDirectory) -> str:
    """Name of a run's environment."""
    return str(_look_up(run.config, ENV) or run.path.name)


def open_runs(paths: Sequence[Path]) -> dict[RunDirectory, Returns]:
    """Open the runs at some paths and read their returns.

    A pattern such as `runs/*` finds more than was meant, so that folders without a run, and runs without a point yet,
    are left out with a warning as long as there is another one to draw.
    """
    if not paths:
        raise ConfigError("there is no run to plot; name at least one folder")
    found = {run: read_returns(run) for run in map(_open_any, paths)}
    reasons = {run: _reason_to_leave_out(run, returns.points) for run, returns in found.items()}
    left_out = [f"{run.path} {reason}" for run, reason in reasons.items() if reason]
    if len(left_out) == len(found):
        raise ConfigError(f"there is no run to plot: {', '.join(left_out)}")
    if left_out:
        warnings.warn(f"left out of the plot: {', '.join(left_out)}", RecollectWarning, stacklevel=3)
    return {run: returns for run, returns in found.items() if not reasons[run]}


def _open_any(path: Path) -> RunDirectory:
    """Take a folder, whether it holds a run or not; one that is not there is a mistake."""
    return RunDirectory(path) if path.is_dir() else RunDirectory.open(path)


def _reason_to_leave_out(run: RunDirectory, points: Points) -> str:
    if not run.exists:
        return f"holds no run: it has no {run.config_file.name}"
    return "" if len(points.steps) else "has nothing to plot yet: train it longer"


def _look_up(config: dict[str, Any], path: str) -> Any:
    """Value of a dotted path; a part stands for its name."""
    value: Any = config
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value.get(NAME) if isinstance(value, dict) else value
