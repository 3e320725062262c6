"""The display of a tuning: a table of its trials, and a picture of the study."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np
from rich.console import Console

from recollect.cli.tuning.study import Tuning, plain
from recollect.interrupts import hang_ups
from recollect.options import Search
from recollect.runs.display.live import LiveDisplay
from recollect.runs.display.progress import number
from recollect.runs.plots import panels, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from optuna import Study
    from optuna.trial import FrozenTrial

_NUM_ROWS: Final = 12
_NUM_SLICES: Final = 4
# Optuna's names of how trials end, in words.
_STATES: Final = {"COMPLETE": "done", "PRUNED": "ended early", "FAIL": "failed", "WAITING": "waiting"}


class StudyDisplay(LiveDisplay):
    """Shows the trials of a study: a table that changes in place, or a line for each one that ends.

    Parameters
    ----------
    tuning : Tuning
        What is tuned.
    console : rich.console.Console, optional
        Where to show it.
    """

    def __init__(self, tuning: Tuning, console: Console | None = None) -> None:
        super().__init__(console)
        self._tuning = tuning
        self._seen: set[int] | None = None

    def __enter__(self) -> Self:
        self.console.print(_heading(self._tuning), highlight=False, soft_wrap=True)
        return super().__enter__()

    def update(self, trials: "Sequence[FrozenTrial]") -> None:
        """Show how the trials are by now."""
        with hang_ups():
            self._show(trials)

    def _show(self, trials: "Sequence[FrozenTrial]") -> None:
        if self.is_live:
            self.show(_rows(trials, self._tuning))
            return
        ended = [trial for trial in trials if trial.state.is_finished()]
        if self._seen is None:
            # Those of an earlier call are not shown again.
            self._seen = {trial.number for trial in ended}
        for trial in ended:
            if trial.number not in self._seen:
                self._seen.add(trial.number)
                line = f"trial {trial.number}: {_state(trial, self._tuning)}   {return_of(trial)}   {_values(trial)}"
                self.console.print(line, highlight=False, soft_wrap=True)


def return_of(trial: "FrozenTrial") -> str:
    """The newest return of a trial, as people write it."""
    values = trial.intermediate_values
    return number(values[max(values)]) if values else "-"


def _heading(tuning: Tuning) -> str:
    config = tuning.config
    return f"tuning {len(tuning.space)} options of {config.algo} on {config.env}, {config.steps:,} steps a trial"


def _rows(trials: "Sequence[FrozenTrial]", tuning: Tuning) -> list[str]:
    """The newest trials, and below them the best one."""
    columns = " {:<9} {:<12} {:>8}   {}"
    rows = [columns.format("trial", "state", "return", "options")]
    named = [(str(trial.number), trial) for trial in trials[-_NUM_ROWS:]]
    if (best := _best_of(trials)) is not None:
        named.append((f"best: {best.number}", best))
    return rows + [
        columns.format(name, _state(trial, tuning), return_of(trial), _values(trial)) for name, trial in named
    ]


def _best_of(trials: "Sequence[FrozenTrial]") -> "FrozenTrial | None":
    done = [trial for trial in trials if trial.value is not None and trial.state.name == "COMPLETE"]
    return max(done, key=lambda trial: trial.value or 0.0, default=None)


def _state(trial: "FrozenTrial", tuning: Tuning) -> str:
    num_reports = max(trial.intermediate_values, default=0)
    return _STATES.get(trial.state.name, f"{num_reports / tuning.num_reports:.0%}")


def _values(trial: "FrozenTrial") -> str:
    """What a trial tries: `critic_lr 0.00031 · gamma 0.98`."""
    shown = {path.partition(".")[2]: value for path, value in trial.params.items()}
    return " · ".join(
        f"{name} {f'{value:.3g}' if isinstance(value, float) else value}" for name, value in shown.items()
    )


def draw_study(study: "Study", tuning: Tuning, path: Path) -> None:
    """Draw the returns of all trials, how much each option matters, and the options that matter most, as a PNG."""
    trials = [trial for trial in study.get_trials(deepcopy=False) if trial.intermediate_values]
    weights = _importances(study)
    figure, (history, bars, *slices) = panels(2 + min(_NUM_SLICES, len(weights)))
    _draw_history(history, trials)
    bars.barh([path.partition(".")[2] for path in reversed(weights)], list(reversed(weights.values())))
    bars.set_title(
        "importance of the options" if weights else "importance: needs two trials that are done", fontsize=10
    )
    for axes, path_of_option in zip(slices, weights, strict=False):
        _draw_slice(axes, trials, path_of_option, tuning.space[path_of_option])
    figure.suptitle(f"{tuning.config.algo} on {tuning.config.env}: {len(trials)} trials", fontsize=11)
    write_figure(figure, path)


def _importances(study: "Study") -> dict[str, float]:
    """How much of the differences between trials each option explains, largest first."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
    from optuna.trial import TrialState

    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len({trial.value for trial in done}) < 2:
        return {}
    return get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())


def _split(trials: "Sequence[FrozenTrial]") -> "dict[str, list[FrozenTrial]]":
    states = ("COMPLETE", "PRUNED", "FAIL")
    return {_STATES[state]: [trial for trial in trials if trial.state.name == state] for state in states}


def _last_return(trial: "FrozenTrial") -> float:
    return trial.intermediate_values[max(trial.intermediate_values)]


def _draw_history(axes: "Axes", trials: "Sequence[FrozenTrial]") -> None:
    for (label, some), marker in zip(_split(trials).items(), "ox+", strict=True):
        if some:
            axes.plot([trial.number for trial in some], list(map(_last_return, some)), marker, label=label, alpha=0.8)
    done = _split(trials)["done"]
    if done:
        best = np.maximum.accumulate(list(map(_last_return, done)))
        axes.step([trial.number for trial in done], best, where="post", label="best so far")
    axes.set(xlabel="trial", ylabel="return of the last evaluation")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _draw_slice(axes: "Axes", trials: "Sequence[FrozenTrial]", path: str, search: Search) -> None:
    choices = [plain(choice) for choice in search.choices]
    for (_, some), marker in zip(_split(trials).items(), "ox+", strict=True):
        values = [trial.params[path] for trial in some]
        places = [choices.index(value) for value in values] if choices else values
        axes.plot(places, list(map(_last_return, some)), marker, alpha=0.8)
    if choices:
        axes.set_xticks(range(len(choices)), list(map(str, choices)))
    else:
        axes.set_xscale("log" if search.is_log else "linear")
        axes.set_xlim(search.low, search.high)
    axes.set(xlabel=path.partition(".")[2].replace("_", " "), ylabel="return of the last evaluation")
    axes.grid(alpha=0.3)
