"""`recollect tune`: search for hyperparameters."""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from recollect.cli.parsing import CommandParser, count, folder_name
from recollect.cli.summary import say, stem_of
from recollect.config import build, parse_overrides, resolve
from recollect.config.run_config import AUTO
from recollect.errors import ConfigError, closest
from recollect.interrupts import Interrupts, exit_code
from recollect.options import Search

if TYPE_CHECKING:
    from recollect.cli.tuning.study import StudyFolder, Tuning

_ABOUT: Final = """\
Search for hyperparameters with Optuna (pip install "recollect[tune]").

Every trial trains an agent with other values of the options that declare what to try: learning rates, discount,
batch size, networks. Set an option with --set to keep it fixed, or name those to search with --search. A trial
that does worse than the others after as many steps ends early. Call the command again to resume a stopped study,
or with more --trials to extend it."""
_EXAMPLES: Final = """\
  recollect tune sac Pendulum-v1 --trials 50 --jobs 2
  recollect tune ddqn CartPole-v1 --steps 20_000 --search critic_lr --search gamma
  recollect tune ppo LunarLander-v3 --set num_envs=8 --set algo.gamma=0.99 --pruner halving
  recollect train --config runs/pendulum-sac-tune/best.yaml --steps 100_000

files in the folder of a study:
  study.db (Optuna's, SQLite), best.yaml (config of the best trial), study.png, tune.yaml (what is tuned)"""
_PRUNERS: Final = ("median", "halving", "none")
_SECONDS_BETWEEN_LOOKS: Final = 0.5


def make_parser() -> CommandParser:
    """Make the parser of `recollect tune`."""
    parser = CommandParser("tune", _ABOUT, _EXAMPLES)
    parser.usage = "%(prog)s ALGO ENV [--trials N] [--steps N] [--jobs N] [--set NAME=VALUE ...] [options]"
    parser.add_argument("algo", help="name of an algorithm, see `recollect list algorithms`")
    parser.add_argument("env", help="id of an environment, as for `recollect train`")
    parser.add_argument("--trials", type=count, default=50, metavar="N", help="trials of the study (50)")
    parser.add_argument("--jobs", type=count, default=1, metavar="N", help="run N at a time, one thread each (1)")
    parser.add_argument("--steps", type=count, metavar="N", help="environment steps of a trial (as for train)")
    parser.add_argument("--seed", type=count, metavar="N", help="seed of the search; trial n trains with n more (1)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="keep an option fixed")
    parser.add_argument(
        "--search", action="append", default=[], metavar="NAME", help="search this option (all that say what to try)"
    )
    parser.add_argument("--pruner", choices=_PRUNERS, default=_PRUNERS[0], help="what ends trials early (median)")
    parser.add_argument("--evaluations", type=count, default=10, metavar="N", help="evaluations of a trial (10)")
    parser.add_argument("--episodes", type=count, default=10, metavar="N", help="episodes of each (10)")
    parser.add_argument("--preset", default=AUTO, metavar="NAME", help="preset that trials begin with, as for train")
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML or TOML file that trials begin with")
    parser.add_argument("--out", type=Path, default=Path("runs"), metavar="FOLDER", help="parent folder (runs)")
    parser.add_argument("--name", type=folder_name, help="name of the study's folder (<env>-<algo>-tune)")
    parser.add_trust()
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the trials that a study still lacks."""
    from recollect.callbacks import Callbacks, named_callbacks
    from recollect.cli.tuning.study import StudyFolder, Tuning, require_optuna, search_space
    from recollect.files.lock import FolderLock

    require_optuna()
    fixed = parse_overrides(options.set)
    given = {name: value for name in ("steps", "seed") if (value := getattr(options, name)) is not None}
    config = resolve(
        options.algo,
        options.env,
        preset=options.preset,
        file=options.config,
        overrides=fixed | given,
        trust=options.trust,
    )
    tuning = Tuning(
        config=config,
        space=_chosen(search_space(config, fixed), options.search),
        pruner=options.pruner,
        num_reports=options.evaluations,
        num_episodes=options.episodes,
    )
    # What cannot work is refused before there is a folder.
    scheme = build(config)
    Callbacks(named_callbacks(config)).check(scheme)
    scheme.stop()
    folder = StudyFolder(options.out / (options.name or f"{stem_of(config)}-tune"))
    folder.path.mkdir(parents=True, exist_ok=True)
    with FolderLock(folder.path):
        num_left = options.trials - folder.begin(tuning)
        if num_left <= 0:
            raise ConfigError(f"{folder.path} already has {options.trials} trials; ask for more with --trials")
        return _search(tuning, folder, num_left, options)


def _chosen(space: Mapping[str, Search], names: list[str]) -> dict[str, Search]:
    """Those options of a search space that were named, with or without their part; all if none was."""
    found: dict[str, Search] = {}
    for name in names:
        paths = [path for path in space if name in (path, path.partition(".")[2])]
        if not paths:
            known = {path.partition(".")[2] for path in space}
            raise ConfigError(f"there is nothing to search for {name!r}; {closest(name, {*space, *known})}")
        found |= {path: space[path] for path in paths}
    return found or dict(space)


def _search(tuning: "Tuning", folder: "StudyFolder", num_trials: int, options: argparse.Namespace) -> int:
    """Run trials and show them; returns an exit code."""
    from recollect.cli.tuning.display import StudyDisplay
    from recollect.cli.tuning.study import Workers

    study = folder.open(tuning)
    workers = Workers(tuning, folder, num_trials, options.jobs)
    try:
        with StudyDisplay(tuning) as display:
            while workers.are_running():
                display.update(study.get_trials(deepcopy=False))
                time.sleep(_SECONDS_BETWEEN_LOOKS)
            display.update(study.get_trials(deepcopy=False))
        code = workers.wait()
    except Interrupts as interrupt:
        workers.stop()
        workers.wait()
        code = exit_code(interrupt)
    folder.give_up_running(tuning)
    _report(tuning, folder, options)
    return code


def _report(tuning: "Tuning", folder: "StudyFolder", options: argparse.Namespace) -> None:
    """Write the best config and the picture of a study, and say where they are."""
    from recollect.cli.tuning.display import draw_study, return_of

    num_trials, best = len(folder.finished(tuning)), folder.best(tuning)
    summary = f"{num_trials} of {options.trials} trials"
    if best is not None:
        tuning.config_of(best.number, best.params).save(folder.best_file)
        draw_study(folder.open(tuning), tuning, folder.picture)
        summary += f", best is trial {best.number}: {return_of(best)}   picture: {folder.picture}"
        summary += f"   train it with: recollect train --config {folder.best_file}"
    say(summary)
    if num_trials < options.trials:
        say(f"resume with: {options.command}")
