"""`recollect train`, `resume`, `eval` and `plot`, on runs that are as small as can be."""

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from recollect.cli import summary
from recollect.cli.commands import eval as eval_command
from recollect.cli.commands.train import make_parser, resolve_options
from recollect.config import RunConfig, build, resolve
from recollect.errors import StorageError
from recollect.files.lock import FolderLock
from recollect.learner import Learner
from recollect.runs.directory import RunDirectory
from recollect.runs.writers import read_rows
from recollect.scheme.scheme import Scheme
from tests.unit.cli.conftest import TINY, Run
from tests.waiting import PATIENCE_S, wait_until

INTERRUPTS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
CARTPOLE = ("train", "ddqn", "CartPole-v1", "--preset", "none")


def test_a_run_says_what_it_does_and_how_it_ended(recollect: Run) -> None:
    outcome = recollect(
        *CARTPOLE, "--steps", "100", "--set", "storage=per", "--set", "alpha=0.5", "--set", "n_step=3", *TINY
    )
    lines = outcome.out.splitlines()
    assert outcome.code == 0
    assert lines[0] == "DDQN · PER(alpha 0.5) · 3-step · CartPole-v1 · seed 1 · 1 thread · runs/cartpole-ddqn-1"
    assert "100/100 steps" in lines[-2]
    assert re.match(r"evaluation: [\d.]+ ± [\d.]+ over 2 episodes   curve: ", lines[-1])
    assert lines[-1].endswith("curve: runs/cartpole-ddqn-1/curve.png")


def test_environments_come_from_modules_in_the_current_folder(recollect: Run, tmp_path: Path) -> None:
    (tmp_path / "tasks_of_mine.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gym.register('Mine-v0', CartPoleEnv, max_episode_steps=20)\n"
    )
    outcome = recollect("train", "ddqn", "tasks_of_mine:Mine-v0", "--steps", "30", *TINY)
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "runs" / "mine-ddqn-1" / "evaluation.json").exists()


def test_a_run_leaves_all_that_there_is_to_know(trained: Path) -> None:
    run = RunDirectory.open(trained)
    config = RunConfig.from_document(run.config)
    assert (config.algo, config.env, config.storage, config.steps) == ("ddqn", "CartPole-v1", "replay", 100)
    assert config.actor_options["hidden_sizes"] == [8]
    assert config.algo_options["gamma"] == 0.99, "defaults are spelled out"
    assert run.command_file.read_text().startswith("recollect train ddqn CartPole-v1 --preset none --steps 100")
    assert json.loads(run.versions_file.read_text())["recollect"]
    assert read_rows(run.metrics_file)[-1]["steps"] == "100"
    assert list(run.tensorboard_folder.iterdir())
    assert run.curve_file.read_bytes().startswith(b"\x89PNG")
    evaluation = json.loads((trained / "evaluation.json").read_text())
    assert len(evaluation["returns"]) == 2
    assert evaluation["mean"] == pytest.approx(sum(evaluation["returns"]) / 2)


def test_the_help_names_all_that_a_run_leaves(trained: Path) -> None:
    text = make_parser().format_help().partition("files in the folder of a run:")[2]
    assert all(path.name in text for path in trained.iterdir())


def test_the_config_of_a_run_makes_the_same_run_again(trained: Path, recollect: Run) -> None:
    assert recollect("train", "--config", str(trained / "config.yaml")).code == 0
    again = trained.with_name("cartpole-ddqn-1-2")
    weights = [RunDirectory.open(path).checkpoints.newest() / "actor.safetensors" for path in (trained, again)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_options_of_the_command_line_reach_the_config(recollect: Run) -> None:
    words = (
        "--seed",
        "7",
        "--num-envs",
        "2",
        "--set",
        "env.sutton_barto_reward=true",
        "--name",
        "mine",
        "--out",
        "there",
    )
    assert recollect(*CARTPOLE, "--steps", "100", *words, *TINY).code == 0
    config = RunConfig.load("there/mine/config.yaml")
    assert (config.seed, config.num_envs, config.env_options) == (7, 2, {"sutton_barto_reward": True})


def test_a_run_resumes_where_it_was(trained: Path, recollect: Run) -> None:
    refused = recollect("resume", str(trained))
    assert (refused.code, refused.err) == (
        2,
        f"error: {trained} already has 100 steps, and 100 were asked for; ask for more with --steps\n",
    )
    before = (trained / "config.yaml").read_bytes()
    outcome = recollect("resume", str(trained), "--steps", "150")
    assert outcome.code == 0
    assert "150/150 steps" in outcome.out
    rows = [int(row["steps"]) for row in read_rows(trained / "metrics.csv")]
    assert rows == sorted(rows)
    assert rows[-1] == 150
    assert (trained / "config.yaml").read_bytes() == before, "what a run was started with is never written over"
    assert RunDirectory.open(trained).config["steps"] == 150


@pytest.mark.parametrize("words", [("--steps", "50"), ("--steps", "100", "--threads", "1")])
def test_a_run_that_is_asked_for_fewer_steps_than_it_has_stays_as_it_is(
    words: tuple[str, ...], trained: Path, recollect: Run
) -> None:
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    outcome = recollect("resume", str(trained), *words)
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: {trained} already has 100 steps, and {words[1]} were asked for; ")
    assert {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()} == before


def test_a_longer_run_that_was_stopped_resumes_without_being_told_how_far(trained: Path, recollect: Run) -> None:
    RunDirectory.open(trained).change({"steps": 150})  # as `--steps 150` and Ctrl-C leave it
    outcome = recollect("resume", str(trained))
    assert (outcome.code, outcome.err) == (0, "")
    assert "150/150 steps" in outcome.out


def test_a_run_that_was_stopped_in_its_last_evaluation_is_evaluated(trained: Path, recollect: Run) -> None:
    (trained / "evaluation.json").unlink()
    config = RunConfig.load(trained / "config.yaml")
    replace(config, steps=98).save(trained / "config.yaml")  # the last update stage went beyond it
    outcome = recollect("resume", str(trained))
    assert (outcome.code, outcome.err) == (0, "")
    assert (trained / "evaluation.json").exists()


def test_a_longer_run_that_was_stopped_in_its_last_evaluation_is_evaluated(
    trained: Path, recollect: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Learner, "evaluate", interrupt)
        assert recollect("resume", str(trained), "--steps", "104").code == 130
    assert recollect("resume", str(trained)).code == 0
    assert (trained / "evaluation.json").exists()


def test_the_error_of_a_single_episode_is_none(recollect: Run) -> None:
    recollect(*CARTPOLE, "--steps", "20", *TINY, "--final-episodes", "1")
    found = json.loads(Path("runs/cartpole-ddqn-1/evaluation.json").read_text())
    assert len(found["returns"]) == 1
    assert found["standard_error"] is None


def test_a_resumed_run_is_recorded_as_before(recollect: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    there = SimpleNamespace(id="abc", log=lambda row, step: None, finish=lambda: None)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **options: calls.append(options) or there))
    assert recollect(*CARTPOLE, "--steps", "60", "--no-replay", "--wandb", "mine", *TINY).code == 0
    outcome = recollect("resume", "runs/cartpole-ddqn-1", "--steps", "200")
    assert outcome.code == 2
    assert "session.json asks to send metrics to Weights & Biases (mine);" in outcome.err
    assert len(calls) == 1
    outcome = recollect("resume", "runs/cartpole-ddqn-1", "--steps", "200", "--trust")
    assert (outcome.code, outcome.err) == (0, "")
    assert not Path("runs/cartpole-ddqn-1/storage").exists()
    new, known = calls
    assert (new["project"], new["name"]) == (known["project"], known["name"]) == ("mine", "cartpole-ddqn-1")
    assert (known["id"], known["resume"]) == ("abc", "allow")


def test_an_evaluation_is_over_as_many_episodes_as_asked_for(trained: Path, recollect: Run) -> None:
    first = recollect("eval", str(trained), "--episodes", "3")
    assert first.code == 0
    assert re.fullmatch(r"evaluation: [\d.]+ ± [\d.]+ over 3 episodes\n", first.out)
    assert recollect("eval", str(trained), "--episodes", "3").out == first.out


def test_an_evaluation_can_have_a_seed_of_its_own(
    trained: Path, recollect: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = []

    def recording(config: RunConfig) -> Scheme:
        seeds.append(config.seed)
        return build(config)

    monkeypatch.setattr(eval_command, "build", recording)
    for words in ([], ["--seed", "7"]):
        assert recollect("eval", str(trained), "--episodes", "1", *words).code == 0
    assert seeds == [1, 7]


@pytest.mark.slow
def test_episodes_are_recorded(trained: Path, recollect: Run) -> None:
    outcome = recollect("eval", str(trained), "--episodes", "1", "--record", "2")
    assert outcome.out.splitlines()[-1] == f"videos: {trained / 'videos'}"
    assert sorted(path.suffix for path in (trained / "videos").iterdir()) == [".mp4", ".mp4"]


def test_episodes_are_recorded_whatever_was_drawn_in_training(recollect: Run) -> None:
    assert recollect(*CARTPOLE, "--steps", "40", "--set", "env.render_mode=rgb_array", *TINY).code == 0
    outcome = recollect("eval", "runs/cartpole-ddqn-1", "--episodes", "1", "--record")
    assert (outcome.code, outcome.err) == (0, "")
    assert [path.suffix for path in Path("runs/cartpole-ddqn-1/videos").iterdir()] == [".mp4"]


def test_what_draws_no_pictures_is_not_recorded(recollect: Run) -> None:
    env = ("train", "ddqn", "recollect/RecallCue-v0", "--preset", "none", "--steps", "40")
    assert recollect(*env, *TINY).code == 0
    outcome = recollect("eval", "runs/recallcue-ddqn-1", "--episodes", "1", "--record")
    assert outcome.code == 2
    assert "recollect/RecallCue-v0 cannot be recorded: it has no render mode 'rgb_array', only []" in outcome.err


def test_a_package_that_drawing_needs_is_named(trained: Path, recollect: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    outcome = recollect("eval", str(trained), "--episodes", "1", "--record")
    assert outcome.code == 2
    assert re.fullmatch(r"evaluation: [\d.]+ over 1 episode\n", outcome.out)
    assert outcome.err == (
        "error: CartPole-v1 cannot be recorded: frames need the extra 'video': pip install \"recollect[video]\"\n"
    )


def test_runs_are_drawn_side_by_side(trained: Path, recollect: Run) -> None:
    outcome = recollect("plot", str(trained), "--by", "algo.gamma", "--out", "figures/gamma")
    assert outcome.out == "curves: figures/gamma.png   figures/gamma.svg\n"
    assert Path("figures/gamma.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in Path("figures/gamma.svg").read_text()


def test_a_pattern_of_runs_may_find_other_things(trained: Path, recollect: Run) -> None:
    (trained.parent / "curves.png").touch()
    (trained.parent / "notes").mkdir()
    outcome = recollect("plot", *map(str, sorted(trained.parent.iterdir())))
    assert outcome.code == 0
    assert outcome.err.startswith(f"warning: left out of the plot: {trained.parent}/notes holds no run")
    outcome = recollect("plot", str(trained), "runs/typo")
    assert (outcome.code, outcome.err) == (2, "error: runs/typo holds no run: it has no config.yaml\n")


def test_damaged_files_of_a_run_are_named_in_one_line(trained: Path, recollect: Run) -> None:
    (trained / "metrics.csv").write_text("steps,train/return\nten,1\n")
    outcome = recollect("plot", str(trained))
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert outcome.err.startswith(f"error: {trained}/metrics.csv is damaged: ")
    (trained / "config.yaml").write_bytes(b"algo: \xff")
    outcome = recollect("eval", str(trained))
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert outcome.err.startswith(f"error: {trained}/config.yaml is not in UTF-8")


@pytest.mark.slow
def test_several_seeds_are_trained_in_processes(recollect: Run) -> None:
    Path("runs").mkdir()
    earlier = Path("runs/cartpole-ddqn.png")
    earlier.write_text("the curve of other seeds")
    outcome = recollect(*CARTPOLE, "--steps", "60", "--seed", "3", "--seeds", "2", "--jobs", "2", *TINY)
    assert outcome.code == 0
    assert sorted(path.name for path in Path("runs").iterdir() if path.is_dir()) == [
        "cartpole-ddqn-3",
        "cartpole-ddqn-4",
    ]
    assert [RunConfig.load(f"runs/cartpole-ddqn-{seed}/config.yaml").seed for seed in (3, 4)] == [3, 4]
    lines = outcome.out.splitlines()
    assert any(line.startswith("cartpole-ddqn-4: evaluation: ") for line in lines)
    assert lines[-1].startswith("mean over 2 of 2 seeds: ")
    assert lines[-1].endswith("curve: runs/cartpole-ddqn-2.png")
    assert Path("runs/cartpole-ddqn-2.svg").exists()
    assert earlier.read_text() == "the curve of other seeds"


def test_a_seed_that_is_killed_is_an_error(recollect: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(command: list[str], **options: Any) -> "subprocess.Popen[str]":
        return popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], **options)

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", kill)
    outcome = recollect(*CARTPOLE, "--seeds", "2", *TINY)
    assert outcome.code == 128 + 9
    assert "cartpole-ddqn-1: error: the process was ended by signal 9" in outcome.out


@pytest.mark.slow
def test_an_error_in_every_seed_is_the_commands_error(recollect: Run) -> None:
    outcome = recollect("train", "sac", "CartPole-v1", "--seeds", "2", "--jobs", "2")
    assert outcome.code == 2
    assert "cartpole-sac-2: error: SAC (continuous) cannot act in Discrete(2)." in outcome.out


def start(folder: Path, *words: str) -> "subprocess.Popen[str]":
    """Begin a training in a process that hears Ctrl-C."""
    # A shell that runs the tests in the background makes them, and so their children, deaf to the signal.
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = [sys.executable, "-m", "recollect", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, preexec_fn=listen, text=True, **pipes)


def wait_for_rows(*folders: Path) -> None:
    wait_until(lambda: all(read_rows(folder / "metrics.csv") for folder in folders), "the first metrics")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), INTERRUPTS)
def test_an_interrupt_leaves_a_checkpoint_to_resume_from(
    number: signal.Signals, code: int, tmp_path: Path, recollect: Run
) -> None:
    process = start(tmp_path, *CARTPOLE, "--steps", "10_000_000", *TINY)
    folder = tmp_path / "runs" / "cartpole-ddqn-1"
    wait_for_rows(folder)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert out.splitlines()[-1].endswith("steps; resume with: recollect resume runs/cartpole-ddqn-1")
    assert RunDirectory.open(folder).checkpoints.newest().is_dir()
    num_steps = int(read_rows(folder / "metrics.csv")[-1]["steps"])
    outcome = recollect("resume", str(folder), "--steps", str(num_steps + 50))
    assert outcome.code == 0
    assert f"{num_steps + 50:,}" in outcome.out


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), INTERRUPTS)
def test_an_interrupt_ends_all_seeds_cleanly(number: signal.Signals, code: int, tmp_path: Path) -> None:
    words = ("--steps", "10_000_000", "--seeds", "3", "--jobs", "2")
    process = start(tmp_path, *CARTPOLE, *words, *TINY)
    folders = [tmp_path / "runs" / f"cartpole-ddqn-{seed}" for seed in (1, 2, 3)]
    wait_for_rows(*folders[:2])
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (code, "")
    assert out.count("steps; resume with: recollect resume runs/cartpole-ddqn-") == 2
    assert "Traceback" not in out
    assert all(RunDirectory.open(folder).checkpoints.newest().is_dir() for folder in folders[:2])
    assert not folders[2].exists()


@pytest.mark.slow
@pytest.mark.parametrize(("words", "num_runs", "code"), [((), 1, 141), (("--seeds", "3", "--jobs", "2"), 2, 130)])
def test_trainings_that_nobody_reads_any_more_are_saved_and_no_other_one_begins(
    words: tuple[str, ...], num_runs: int, code: int, tmp_path: Path
) -> None:
    process = start(tmp_path, *CARTPOLE, "--steps", "10_000_000", *words, *TINY)
    folders = [tmp_path / "runs" / f"cartpole-ddqn-{seed}" for seed in (1, 2, 3)]
    wait_for_rows(*folders[:num_runs])
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(PATIENCE_S) == code
    process.stderr.close()
    assert all(RunDirectory.open(folder).checkpoints.newest().is_dir() for folder in folders[:num_runs])
    assert not any(folder.exists() for folder in folders[num_runs:])
    for folder in folders[:num_runs]:
        FolderLock(folder).release()  # nobody trains there any more


def _belongs_to_its_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup


@pytest.mark.slow
def test_a_run_whose_terminal_is_closed_is_saved(tmp_path: Path) -> None:
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "recollect", *CARTPOLE, "--steps", "10_000_000", *TINY],
        cwd=tmp_path,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=_belongs_to_its_terminal,
    )
    os.close(terminal)
    os.set_blocking(master, False)
    folder = tmp_path / "runs" / "cartpole-ddqn-1"

    def has_rows() -> bool:
        with suppress(BlockingIOError):
            os.read(master, 65536)  # a terminal that nobody reads would fill up
        return bool(read_rows(folder / "metrics.csv"))

    wait_until(has_rows, "the first metrics")
    os.close(master)
    assert process.wait(PATIENCE_S) == 129
    assert RunDirectory.open(folder).checkpoints.newest().is_dir()


@pytest.mark.slow
def test_a_run_that_is_under_way_is_not_resumed(trained: Path, recollect: Run, tmp_path: Path) -> None:
    process = start(tmp_path, "resume", str(trained), "--steps", "10_000_000")
    try:
        wait_until(lambda: (trained / ".lock").read_text() == str(process.pid), "the lock")
        wait_until((trained / "resumed.yaml").exists, "the training")
        process.send_signal(signal.SIGSTOP)
        before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
        outcome = recollect("resume", str(trained), "--steps", "200")
        assert outcome.code == 2
        assert f"{trained} is in use by process {process.pid}; wait until it ends" in outcome.err
        assert {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()} == before
    finally:
        process.kill()
        process.communicate()
    assert recollect("resume", str(trained), "--steps", "200").code == 0


def test_a_run_stops_at_a_score_and_its_best_agent_can_be_evaluated(recollect: Run) -> None:
    outcome = recollect(*CARTPOLE, "--steps", "10_000", "--stop-at", "1", *TINY)
    assert outcome.code == 0, outcome.err
    folder = Path("runs/cartpole-ddqn-1")
    assert re.search(r"stopped at \d+ steps: the evaluation reached [\d.]+", outcome.out)
    assert int(read_rows(folder / "metrics.csv")[-1]["steps"]) < 100
    assert json.loads((folder / "session.json").read_text())["stop_at"] == 1
    num_steps = RunDirectory.open(folder).checkpoints.num_steps()
    assert recollect("resume", str(folder)).code == 0
    assert num_steps < RunDirectory.open(folder).checkpoints.num_steps() < num_steps + 100, "it stops again"
    outcome = recollect("eval", str(folder), "--best", "--episodes", "3")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("evaluation: ")


def test_a_run_has_its_session_options_before_it_is_one(recollect: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(path: Path, *args: object) -> None:
        assert json.loads((path / "session.json").read_text())["stop_at"] == 7
        assert not RunDirectory(path).exists, "if it is killed here, there is nothing to resume"
        raise StorageError("no room")

    monkeypatch.setattr(RunDirectory, "create", stop)
    outcome = recollect(*CARTPOLE, "--steps", "100", "--stop-at", "7", *TINY)
    assert (outcome.code, outcome.err) == (2, "error: no room\n")
    assert not list(Path().rglob("runs/*")), "a run that could not begin leaves nothing"


def test_without_an_evaluation_no_agent_is_the_best(recollect: Run) -> None:
    RunDirectory.create("runs/none", resolve("ddqn", "CartPole-v1").to_document())
    outcome = recollect("eval", "runs/none", "--best")
    assert (outcome.code, outcome.err) == (
        2,
        "error: runs/none has no best agent: none was evaluated; train with test_every above 0\n",
    )


def test_an_option_that_cannot_work_leaves_no_folder(recollect: Run) -> None:
    outcome = recollect(*CARTPOLE, *TINY, "--stop-at", "1", "--set", "algo.test_every=0")
    assert outcome.code == 2
    assert outcome.err == "error: StopAt needs evaluations, and test_every is 0; set it to a number of updates\n"
    assert not Path("runs/cartpole-ddqn-1").exists()


@pytest.mark.slow
def test_metrics_go_to_mlflow_and_a_resumed_run_continues_there(
    recollect: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "tracked").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    assert recollect(*CARTPOLE, "--steps", "60", "--mlflow", "mine", *TINY).code == 0
    assert recollect("resume", "runs/cartpole-ddqn-1", "--steps", "200", "--trust").code == 0
    client = MlflowClient((tmp_path / "tracked").as_uri())
    experiment = client.get_experiment_by_name("mine")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == "cartpole-ddqn-1"
    steps = [point.step for point in client.get_metric_history(run.info.run_id, "updates")]
    assert steps[-1] == 200
    assert 100 in steps, "of the first part, which ended with its stage"


def test_new_runs_never_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter([tmp_path / "a", tmp_path / "a", tmp_path / "a-2"])
    monkeypatch.setattr(summary, "free_path", lambda parent, name: next(names))
    assert summary.new_folder(tmp_path, "a") == tmp_path / "a"
    assert summary.new_folder(tmp_path, "a") == tmp_path / "a-2", "another process has made it meanwhile"


def test_the_default_is_the_default_preset() -> None:
    assert resolve() == resolve(preset="pendulum-sac")


def test_options_of_workers_reach_the_config() -> None:
    words = (
        *("sac", "HalfCheetah-v5", "--col-workers", "16", "--col-mode", "async", "--grad-workers", "2"),
        *(
            "--ray-address",
            "auto",
            "--col-resources",
            "{num_cpus: 0.5, resources: {simulator: 1}}",
            "--compress",
            "true",
        ),
        *("--max-policy-lag", "4", "--set", "scheme.replay_ratio=0.5"),
    )
    options = resolve_options(make_parser().parse_args(words)).scheme_options
    assert options == {
        "num_col_workers": 16,
        "col_mode": "async",
        "num_grad_workers": 2,
        "ray_address": "auto",
        "col_resources": {"num_cpus": 0.5, "resources": {"simulator": 1}},
        "compress": True,
        "max_policy_lag": 4,
        "replay_ratio": 0.5,
    }


def test_workers_that_make_no_sense_together_are_refused(recollect: Run) -> None:
    outcome = recollect(*CARTPOLE, "--update-mode", "decentralised", *TINY)
    assert outcome.code == 2
    assert outcome.err.startswith("error: decentralised updates need at least 2 gradient workers, got 0")
    outcome = recollect("train", "ppo", "CartPole-v1", "--col-workers", "2", "--col-mode", "async", *TINY[:2])
    assert outcome.code == 2
    assert "use the storage 'vtrace'" in outcome.err


@pytest.mark.slow
def test_without_workers_ray_is_not_imported(tmp_path: Path) -> None:
    script = (
        "import sys; from recollect.cli import main; "
        f"code = main({[*CARTPOLE, '--steps', '40', *TINY]!r}); "
        "sys.exit(code or int('ray' in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True)


def test_threads_are_tried_once_and_a_resumed_run_has_as_many(recollect: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    torch.set_num_threads(3)
    tiny = TINY[: TINY.index("--threads")]
    assert recollect(*CARTPOLE, "--steps", "100", *tiny, "--name", "mine").code == 0
    num_threads = torch.get_num_threads()
    assert RunDirectory.open("runs/mine").config["threads"] == num_threads
    torch.set_num_threads(3)
    assert recollect("resume", "runs/mine", "--steps", "150").code == 0
    assert torch.get_num_threads() == num_threads
