"""`recollect train`: train an agent."""

import argparse
from pathlib import Path
from typing import Final

from recollect.cli.parsing import CommandParser, count, folder_name, shown
from recollect.cli.summary import stem_of
from recollect.config import RunConfig, parse_overrides, resolve, settings
from recollect.config.files import parse_value
from recollect.config.parts import SCHEME, options_of
from recollect.config.run_config import AUTO

_ABOUT: Final = """\
Train an agent; by default SAC with prioritised replay and 3-step returns on Pendulum-v1.

A preset for the algorithm and the environment, if there is one, gives tuned hyperparameters.
Set any option of any part with --set; `recollect list options sac per` explains them."""
_EXAMPLES: Final = """\
  recollect train sac Pendulum-v1 --set storage=per --set storage.alpha=0.6 --set storage.n_step=3
  recollect train ddqn CartPole-v1 --seed 7 --steps 50_000
  recollect train ddqn LunarLander-v3 --set storage=ere --seeds 5 --jobs 2
  recollect train ppo CartPole-v1 --num-envs 8 --set algo.gamma=0.98 --set actor.hidden_sizes=[64,64]
  recollect train --preset recall-ddqn-gru --set actor.memory=lstm
  recollect train --config runs/pendulum-sac-1/config.yaml --seed 2
  recollect train sac Hopper-v5 --preset none
  recollect train ppo my_tasks:Elevator-v0             an environment that my_tasks.py registers with Gymnasium
  recollect train mine:SoftQ CartPole-v1 --set features=mine:FourierFeatures --wrappers mine:ScaleReward
  recollect train sac HalfCheetah-v5 --col-workers 16 --col-mode async --grad-workers 2 --ray-address auto

files in the folder of a run:
  config.yaml, command.txt, session.json, versions.json, metrics.csv, tensorboard/, checkpoints/,
  best/ (the agent with the best evaluation), storage/ (the replay, unless --no-replay),
  evaluation.json (the final evaluation), curve.png, .lock (held by the process that trains)

exit codes: 0, 2 after an error, 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP; `recollect resume` continues"""
# Words that are written with a capital wherever they stand.
_NAMES: Final = ("Ray ",)


def make_parser() -> CommandParser:
    """Make the parser of `recollect train`."""
    parser = CommandParser("train", _ABOUT, _EXAMPLES)
    parser.usage = "%(prog)s [ALGO] [ENV] [--set NAME=VALUE ...] [options]"
    parser.add_argument(
        "algo", nargs="?", help="name of an algorithm, see `recollect list algorithms`, or module:Name of your own"
    )
    parser.add_argument(
        "env",
        nargs="?",
        help="id of an environment: Gymnasium's, MuJoCo, ALE/..., Fetch..., recollect/..., "
        "or module:Name of a function of yours, or of an id that your module registers",
    )
    parser.add_argument("--algo", dest="algo_option", metavar="NAME", help="the same as ALGO")
    parser.add_argument("--env", dest="env_option", metavar="ID", help="the same as ENV")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a part (storage=per) or one of its options (storage.alpha=0.6)",
    )
    parser.add_argument(
        "--preset",
        default=AUTO,
        metavar="NAME",
        help="name of a preset, or none (default: that of ALGO and ENV, if any)",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML or TOML file, e.g. a run's config.yaml")
    _add_settings(parser)
    _add_workers(parser)
    parser.add_argument("--seeds", type=count, default=1, metavar="N", help="train with N seeds, starting at --seed")
    parser.add_argument("--jobs", type=count, default=1, metavar="N", help="train N at a time, one thread each")
    parser.add_argument("--out", type=Path, default=Path("runs"), metavar="FOLDER", help="parent folder of runs (runs)")
    parser.add_argument("--name", type=folder_name, help="name of the run's folder (<env>-<algo>-<seed>)")
    parser.add_argument("--no-replay", action="store_true", help="leave the replay out of checkpoints")
    parser.add_argument("--wandb", metavar="PROJECT", help="also send metrics to Weights & Biases")
    parser.add_argument("--mlflow", metavar="EXPERIMENT", help="also send metrics to MLflow")
    parser.add_argument(
        "--stop-at", type=float, metavar="SCORE", help="stop once an evaluation reaches this mean return"
    )
    parser.add_trust()
    return parser


def run(options: argparse.Namespace) -> int:
    """Train with one seed in this process, or with several in processes of their own."""
    config = resolve_options(options)
    if options.seeds > 1:
        from recollect.cli.seeds import train_seeds

        return train_seeds(config, options)
    from recollect.cli.session import begin

    return begin(config, options.name or f"{stem_of(config)}-{config.seed}", options)


def _add_settings(parser: CommandParser) -> None:
    """Add an option for each setting of a run."""
    group = parser.add_argument_group("settings of the run")
    docs = RunConfig.docs()
    for name, setting in settings().items():
        group.add_argument(
            f"--{name.replace('_', '-')}",
            dest=name,
            metavar="N" if any(kind in str(setting.type) for kind in ("int", "float")) else "NAME",
            help=_help(docs[name], setting.default),
        )


def _add_workers(parser: CommandParser) -> None:
    """Add an option for each one of the scheme: which workers there are, and where."""
    group = parser.add_argument_group("workers in other processes, on Ray")
    for name, option in options_of(SCHEME).items():
        group.add_argument(
            f"--{name.removeprefix('num_').replace('_', '-')}",
            dest=f"{SCHEME}.{name}",
            metavar="N" if isinstance(option.default, (int, float)) and option.default is not False else "VALUE",
            help=_help(option.about, option.default),
        )


def _help(about: str, default: object) -> str:
    """Help text of an option, with its default as one would type it."""
    lead = about if about.startswith(_NAMES) else about[0].lower() + about[1:]
    return f"{lead.removesuffix('.')} ({shown(default)})".replace("%", "%%")


def resolve_options(options: argparse.Namespace) -> RunConfig:
    """Resolve a command line to its config."""
    names = (*settings(), *(f"{SCHEME}.{name}" for name in options_of(SCHEME)))
    given = {name: parse_value(getattr(options, name)) for name in names if getattr(options, name) is not None}
    return resolve(
        options.algo_option or options.algo,
        options.env_option or options.env,
        preset=options.preset,
        file=options.config,
        overrides=parse_overrides(options.set) | given,
        trust=options.trust,
    )
