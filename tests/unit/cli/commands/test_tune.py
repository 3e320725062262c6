"""`recollect tune`: trials, early ends, resumed studies, and what is left in the folder."""

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import matplotlib.image
import numpy as np
import optuna
import pytest
from optuna.trial import TrialState
from rich.console import Console

from recollect.cli.tuning import study as study_module
from recollect.cli.tuning.display import StudyDisplay
from recollect.cli.tuning.study import StudyFolder, Tuning, search_space
from recollect.config import RunConfig, resolve
from recollect.data.episode import Episode, Spaces
from recollect.data.npz import write_npz
from recollect.errors import NotFiniteError, StorageError
from recollect.options import choices, linear_range, log_range
from recollect.scheme.collection.c_worker import CWorker
from recollect.scheme.collection.worker.evaluation import Evaluation
from tests.unit.cli.conftest import Run
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

TINY = (
    *("--set", "actor.hidden_sizes=[8]", "--set", "start_steps=20", "--set", "num_test_envs=1"),
    *("--steps", "60", "--evaluations", "2", "--episodes", "1"),
)
TUNE = ("tune", "ddqn", "CartPole-v1", *TINY)


def trials_in(folder: Path) -> "list[optuna.trial.FrozenTrial]":
    storage = f"sqlite:///{folder / 'study.db'}"
    return optuna.load_study(study_name=None, storage=storage).get_trials()


def test_a_study_is_made_extended_and_trained(recollect: Run, tmp_path: Path) -> None:
    outcome = recollect(*TUNE, "--trials", "3", "--jobs", "2")
    assert outcome.code == 0, outcome.err
    folder = tmp_path / "runs" / "cartpole-ddqn-tune"
    first = trials_in(folder)
    assert [trial.number for trial in first] == [0, 1, 2], "two jobs run three trials between them"
    assert len({trial.params["algo.critic_lr"] for trial in first}) == 3
    assert "tuning 6 options of ddqn on CartPole-v1, 60 steps a trial\n" in outcome.out
    assert outcome.out.count("\ntrial ") == 3
    assert "3 of 3 trials, best is trial " in outcome.out
    assert matplotlib.image.imread(folder / "study.png").std() > 0.01

    best = max(first, key=lambda trial: trial.value or 0.0)
    config = RunConfig.load(folder / "best.yaml")
    assert config.algo_options["critic_lr"] == best.params["algo.critic_lr"]
    assert config.algo_options["test_every"] > 0, "the agent is evaluated when it is trained"
    assert (config.seed, config.steps, config.actor_options["hidden_sizes"]) == (1 + best.number, 60, [8])

    again = recollect(*TUNE, "--trials", "3")
    assert (again.code, again.err) == (
        2,
        "error: runs/cartpole-ddqn-tune already has 3 trials; ask for more with --trials\n",
    )
    more = recollect(*TUNE, "--trials", "4")
    assert more.code == 0
    assert more.out.count("\ntrial ") == 1, "trials of before are not told again"
    assert [trial.params for trial in trials_in(folder)[:3]] == [trial.params for trial in first]
    assert trials_in(folder)[3].params not in [trial.params for trial in first]
    other = recollect(*TUNE, "--trials", "5", "--set", "gamma=0.9")
    assert (other.code, other.err) == (
        2,
        "error: runs/cartpole-ddqn-tune holds a study with another algo; give the options that it was begun with, or "
        "another --name\n",
    )
    trained = recollect("train", "--config", str(folder / "best.yaml"), "--final-episodes", "1")
    assert trained.code == 0, trained.err


def make_tuning(**given: Any) -> Tuning:
    config = resolve("ddqn", "CartPole-v1", overrides={"steps": 40, "start_steps": 10, "hidden_sizes": [8]})
    return Tuning(**{"config": config, "space": {"algo.gamma": choices(0.9, 0.99)}, "num_reports": 2, **given})


class Permits:
    """As many trials as one asks for, without other processes."""

    def __init__(self, num_trials: int) -> None:
        self.num_left = num_trials

    def acquire(self, block: bool) -> bool:
        self.num_left -= 1
        return self.num_left >= 0


class Alive:
    @staticmethod
    def is_alive() -> bool:
        return True


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs trials in this process."""
    monkeypatch.setattr("multiprocessing.parent_process", Alive)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return lambda tuning, folder, num_trials: study_module.work(tuning, folder, Permits(num_trials), 0)


def test_trials_learn_from_data_and_stop_where_callbacks_say(
    work: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    episode = Episode(
        np.zeros((31, 3), np.float32), np.zeros((30, 1), np.float32), np.ones(30, np.float32), False, True
    )
    env = gym.make("Pendulum-v1")
    spaces = Spaces(env.observation_space, env.action_space, "Pendulum-v1")
    given = {"data": str(write_npz(tmp_path / "data.npz", [episode], spaces)), "updates": 150, "steps": 0}
    stop = {"name": "StopAt", "score": -1.0}
    small = {"hidden_sizes": [8], "mini_batch_size": 8, "num_test_envs": 1, "callbacks": [stop]}
    config = resolve("iql", "Pendulum-v1", preset="none", overrides={**small, **given})
    returns, seen = iter([-4.0, -1.0]), []

    def evaluate(worker: CWorker, num_episodes: int) -> Evaluation:
        seen.append((len(worker.storage), worker.algo.num_updates))
        return Evaluation((next(returns),), (1,))

    monkeypatch.setattr(CWorker, "evaluate_episodes", evaluate)
    tuning, folder = make_tuning(config=config, num_reports=3), StudyFolder(tmp_path / "study")
    folder.begin(tuning)
    work(tuning, folder, 1)
    (trial,) = trials_in(folder.path)
    assert (trial.state, trial.value) == (TrialState.COMPLETE, -1.0)
    assert seen == [(30, 50), (30, 100)]


def test_a_trial_that_does_worse_than_others_did_is_ended_early(
    work: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning = make_tuning(num_reports=4, pruner="median")
    folder = StudyFolder(tmp_path / "study")
    assert folder.begin(tuning) == 0
    returns = iter([*range(10, 26), 1.0])  # four good trials, and a bad one
    monkeypatch.setattr(
        "recollect.learner.Learner.evaluate", lambda *_: type("Evaluation", (), {"mean": float(next(returns))})
    )
    work(tuning, folder, 5)
    *good, bad = trials_in(folder.path)
    assert [trial.state for trial in good] == [TrialState.COMPLETE] * 4
    assert (bad.state, len(bad.intermediate_values)) == (TrialState.PRUNED, 1)
    assert folder.best(tuning).number == 3  # type: ignore[union-attr]


def test_the_same_seed_tries_the_same_and_another_does_not(work: Any, tmp_path: Path) -> None:
    space = {"algo.critic_lr": log_range(1e-5, 1e-2)}
    found = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        config = resolve("ddqn", "CartPole-v1", overrides={"steps": 4, "start_steps": 4, "seed": seed})
        tuning = Tuning(config=config, space=space, num_reports=1, num_episodes=1)
        folder = StudyFolder(tmp_path / name)
        folder.begin(tuning)
        work(tuning, folder, 2)
        found[name] = [(trial.params, trial.value) for trial in trials_in(folder.path)]
    assert found["a"] == found["b"] != found["c"]
    work(tuning, folder, 1)
    tried = [trial.params for trial in trials_in(folder.path)]
    assert tried[2] not in tried[:2], "a resumed study does not begin again"


def test_a_trial_whose_loss_is_not_finite_fails_and_the_study_continues(
    work: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning = make_tuning(num_reports=1)
    folder = StudyFolder(tmp_path / "study")
    folder.begin(tuning)
    step = "recollect.learner.Learner.step"

    def fail(learner: object) -> None:
        monkeypatch.undo()
        raise NotFiniteError("loss_q is nan")

    with monkeypatch.context() as patch:
        patch.setattr("multiprocessing.parent_process", Alive)
        patch.setattr(step, fail)
        work(tuning, folder, 1)
    assert [trial.state for trial in trials_in(folder.path)] == [TrialState.FAIL]
    assert folder.begin(tuning) == 0, "it does not count"


def test_what_no_trial_can_do_is_one_line(work: Any, tmp_path: Path) -> None:
    tuning = make_tuning(config=replace(make_tuning().config, callbacks=[{"name": "SaveEvery", "num_steps": 10}]))
    folder = StudyFolder(tmp_path / "study")
    folder.begin(tuning)
    with pytest.raises(SystemExit, match=r"^error: SaveEvery\.on_start: the learner has no folder .*give log_dir"):
        work(tuning, folder, 2)
    assert [trial.state for trial in trials_in(folder.path)] == [TrialState.FAIL]


def test_callbacks_that_cannot_work_are_refused_before_there_is_a_folder(recollect: Run, tmp_path: Path) -> None:
    outcome = recollect(*TUNE, "--set", "callbacks=StopAt")
    assert outcome.code == 2
    assert "StopAt does not take the options {}" in outcome.err
    assert not (tmp_path / "runs").exists()


def test_trials_of_a_process_that_is_gone_are_given_up(tmp_path: Path) -> None:
    tuning = make_tuning()
    folder = StudyFolder(tmp_path / "study")
    folder.begin(tuning)
    folder.open(tuning).ask()
    assert folder.begin(tuning) == 0
    assert [trial.state for trial in trials_in(folder.path)] == [TrialState.FAIL]


@pytest.mark.parametrize(
    "forge",
    [lambda path: path.write_bytes(b"no database" * 99), os.mkfifo, lambda path: path.symlink_to("/etc/passwd")],
)
def test_a_database_that_is_none_is_refused(forge: Callable[[Path], object], tmp_path: Path) -> None:
    forge(tmp_path / "study.db")
    with pytest.raises(StorageError, match=r"study\.db is no"):
        StudyFolder(tmp_path).open(make_tuning())


def test_options_say_what_is_tried_and_what_is_set_is_fixed() -> None:
    config = resolve("sac", "Pendulum-v1", overrides={"storage": "per"})
    space = search_space(config, {"algo.gamma": 0.9, "n_step": 3})
    assert space["algo.critic_lr"] == log_range(1e-5, 1e-2)
    assert space["storage.alpha"] == linear_range(0.0, 0.9)
    assert space["actor.hidden_sizes"].choices[0] == [64, 64]
    assert not {"algo.gamma", "storage.n_step"} & set(space)


def test_lists_survive_the_database() -> None:
    config = make_tuning().config_of(3, {"actor.hidden_sizes": "[64, 64]", "algo.gamma": 0.9})
    assert (config.actor_options["hidden_sizes"], config.algo_options["gamma"], config.seed) == ([64, 64], 0.9, 4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("tune ddqn", "the following arguments are required: env; see recollect tune --help"),
        (
            "tune ddqn CartPole-v1 --search critic_rl",
            "there is nothing to search for 'critic_rl'; did you mean 'critic_lr'?",
        ),
        ("tune ddqn CartPole-v1 --pruner mediam", "recollect tune does not know 'mediam'; did you mean 'median'?"),
        ("tune sac CartPole-v1", "SAC (continuous) cannot act in Discrete(2). Use --algo ddqn, ppo or sac-discrete."),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(words: str, message: str, recollect: Run, tmp_path: Path) -> None:
    outcome = recollect(*words.split())
    assert (outcome.code, outcome.err) == (2, f"error: {message}\n")
    assert not list(tmp_path.iterdir())


def test_without_optuna_the_extra_is_named(recollect: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_module, "find_spec", lambda name: None)
    outcome = recollect(*TUNE)
    message = "recollect tune needs the extra 'tune': pip install \"recollect[tune]\""
    assert (outcome.code, outcome.err) == (2, f"error: {message}\n")
    assert "optuna" in sys.modules


def make_trial(number: int, state: TrialState, returns: list[float]) -> optuna.trial.FrozenTrial:
    return optuna.trial.create_trial(
        state=state,
        value=returns[-1] if state == TrialState.COMPLETE else None,
        params={"algo.critic_lr": 0.000312, "actor.hidden_sizes": "[64, 64]"},
        distributions={
            "algo.critic_lr": optuna.distributions.FloatDistribution(1e-5, 1e-2, log=True),
            "actor.hidden_sizes": optuna.distributions.CategoricalDistribution(["[64, 64]"]),
        },
        intermediate_values=dict(enumerate(returns, 1)),
    )


@pytest.mark.parametrize("width", [40, 100])
def test_a_terminal_shows_a_row_for_each_trial_and_the_best_below(width: int) -> None:
    states = [TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING]
    trials = [make_trial(number, state, [10.0 + number]) for number, state in enumerate(states)]
    for number, trial in enumerate(trials):
        trial.number = number
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    with StudyDisplay(make_tuning(), console) as display:
        display.update(trials)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())  # type: ignore[attr-defined]
    rows = [line.split() for line in text.splitlines() if line.startswith(" ")][-5:]
    assert [row[:3] for row in rows] == [
        ["trial", "state", "return"],
        ["0", "done", "10.0"],
        ["1", "ended", "early"],
        ["2", "50%", "12.0"],
        ["best:", "0", "done"],
    ]
    assert max(map(len, text.splitlines()[1:])) <= width - 4, "a terminal writes ^C behind the last line"
    if width == 100:
        assert rows[1][3:] == ["critic_lr", "0.000312", "·", "hidden_sizes", "[64,", "64]"]


def test_ctrl_c_leaves_a_study_to_resume(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "recollect", *TUNE, "--steps", "1_000_000", "--trials", "2"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True, process_group=0)
    folder = tmp_path / "runs" / "cartpole-ddqn-tune"
    assert process.stdout is not None
    assert process.stdout.readline().startswith("tuning"), "the study is there"
    wait_until(lambda: trials_in(folder), "the first trial")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == 130
    assert out.splitlines()[-1].startswith("resume with: recollect tune ddqn CartPole-v1 ")
    assert [trial.state for trial in trials_in(folder)] == [TrialState.FAIL]
